"""Tasks, workers, lines, actors and jobs: records that refer to each other. No messages."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from workbench.core.events import USUAL, Submit, TaskSpec, Value
from workbench.core.logs import Log
from workbench.core.snapshot import JobRecord
from workbench.core.task_states import DONE, LOST, QUEUED, SENT, TRANSITIONS, WAITING, TaskState

ONE = USUAL.cpus
"""One processor, in the unit of `TaskSpec.cpus`."""

AHEAD = 64
"""Calls sent to an actor in advance, so that its worker never waits for the next one."""


class Task:
    """One task. ``pending_dependencies``: how many of its arguments aren't ready."""

    __slots__ = (
        "actor", "argument_bytes", "attempts", "audience", "broken", "cpus", "final_value",
        "is_counted", "job", "line", "made", "owner", "parent", "parent_id",
        "pending_dependencies", "pins", "seconds", "state", "stops_children", "submit", "taken",
        "urgent", "worker",
    )  # fmt: skip

    def __init__(self, submit: Submit, owner: int, parent: Task | None = None) -> None:
        self.submit = submit
        self.owner = owner
        self.parent = parent  # the task that submitted it
        # The parent's id; also if the parent isn't known here yet, because it went by a line.
        self.parent_id = 0 if parent is None else parent.submit.task
        self.line: Line | None = None  # that it went by
        # The client that sees its output: a task's children show theirs where it does.
        self.audience: int = owner if parent is None else parent.audience
        # The background cell that it is, or belongs to.
        self.job: TaskGroup | None = None if parent is None else parent.job
        self.actor: Actor | None = None  # whose call it is, or whose creation
        self.is_counted = False  # as active in its executor's limit
        self.cpus = ONE if submit.spec is None else submit.spec.cpus
        self.state = WAITING
        self.broken: Value | None = None  # an argument is gone: it can't be retried
        self.final_value: Value | None = None  # it was told to stop: the value of its results
        self.stops_children = False  # its calls by lines are stopped, too
        self.made = 0  # items of a generator; of an actor's creation: restarts so far
        self.taken = 0  # items that its reader took
        self.pins: list[int] = []  # objects that live as long as it does, one entry per pin
        self.argument_bytes = 0  # of its message, until the pins are removed
        self.pending_dependencies = 0
        self.attempts = 0
        self.seconds = 0.0  # expected run time when it was sent
        self.urgent = False  # a task that has begun needs it; never reset
        self.worker: Worker | None = None  # that it was sent to

    def to(self, state: TaskState) -> None:
        """Go to another state; AssertionError if `TRANSITIONS` has no such step."""
        assert state in TRANSITIONS[self.state], f"{self.state.name} → {state.name}"
        self.state = state

    @property
    def is_over(self) -> bool:
        return self.state is DONE

    @property
    def is_creation(self) -> bool:
        return self.actor is not None and self.actor.creation_task is self

    @property
    def spec(self) -> TaskSpec:
        return self.submit.spec or USUAL

    @property
    def results(self) -> range:
        return range(self.submit.task, self.submit.task + self.submit.returns)


MOST_LINGERING = 1000
"""Most tasks kept per worker whose threads go on: nothing reports when these end."""


@dataclass(slots=True, eq=False)
class Wait:
    """One place where a worker's task waits; see `task_events.Blocked`."""

    worker: Worker
    missing: set[int]  # objects
    left: int  # how many of them are still needed
    may_fail: bool  # a failed one ends the wait
    item: int
    is_over: bool = False  # what it waits for is there; Unblocked hasn't come yet


@dataclass(slots=True, eq=False)
class Worker:
    """One worker process, from its fork to its end. ``number`` is the pool's, never reused."""

    number: int
    actor: Actor | None = None  # its only one; None in the pool
    pid: int = 0
    client: int | None = None  # None until its Hello
    sent: dict[int, Task] = field(default_factory=dict)  # in order; the first one runs
    load: float = 0.0  # expected seconds of the sent tasks
    cpus: int = ONE  # needed by each of them
    used: int = 0  # its part of `Scheduler.used`
    blocked: bool = False  # it has no slot: its task waits, or it is leaving
    waits: dict[int, Wait] = field(default_factory=dict)  # of its running task, by number
    waits_over: int = 0  # of these: with one, it has its slot again
    leaving: bool = False
    recalled: bool = False  # a GaveBack is due
    since: float = 0.0  # time at which it became idle or busy
    kill_reason: str = ""  # a clause, if the core killed it
    alone: bool = False  # no other worker was busy when it was killed
    lingering: dict[int, Task] = field(default_factory=dict)  # over, except for threads
    calls: Counter[int] = field(default_factory=Counter)  # by function with `max_calls`
    reported: set[int] = field(default_factory=set)  # calls it was sent a Report for
    lease: Line | None = None  # until it is returned
    lines: dict[int, Line] = field(default_factory=dict)  # that lead to it, by number

    def keep(self, task: Task) -> None:
        """Remember a task that is over, but whose threads go on in this worker."""
        self.lingering[task.submit.task] = task
        if len(self.lingering) > MOST_LINGERING:
            del self.lingering[next(iter(self.lingering))]

    @property
    def idle(self) -> bool:
        """True if it is connected, in the pool, has no task, and isn't blocked."""
        return self.client is not None and not self.sent and not self.blocked and self.actor is None

    @property
    def running(self) -> Task | None:
        return next(iter(self.sent.values()), None)


@dataclass(slots=True, eq=False)
class Line:
    """A socket between a caller and a worker, from its creation until both ends are closed.

    The worker is an actor's, or lent: then tasks of ``functions`` go by the line, see
    `core.leases`. ``tasks``: those that went by it, are known here and aren't over. If the worker
    dies, only its caller knows which of them had results.
    """

    number: int
    actor: Actor | None
    worker: Worker
    caller: int  # the client
    functions: frozenset[int] = frozenset()
    objects: set[int] = field(default_factory=set)  # allowed as arguments of its calls
    lent: set[int] = field(default_factory=set)  # of these, what the worker may still read
    is_kept: bool = False  # the worker has said that a task reads it
    seen: Counter[int] = field(default_factory=Counter)  # arguments of calls via the server
    since: float = 0.0  # when an actor's line was lent objects
    last: int = 0  # the caller's last task before it, see `Offer`
    asked_at: float | None = None  # when TakeBack or Detach was sent
    is_returned: bool = False  # no call that came by it runs any more
    is_offered: bool = False  # the caller was sent its end
    is_open: bool = False  # the caller has its end
    has_ended: bool = False  # the worker is gone
    tasks: dict[int, Task] = field(default_factory=dict)  # in the caller's order
    crash: tuple[str, str, int] = "", "", 0  # how the worker ended, its stderr, its task
    begun: int = -1  # the last call by it that began, if the worker noted that
    unbegun: set[Task] = field(default_factory=set)  # once closed: calls that never began
    unsent: list[tuple[int, str, bytes]] = field(default_factory=list)  # see `WorkerExited`

    def add(self, task: Task) -> bool:
        """Add a call; True if the worker has it, False if it is lost with the worker."""
        self.tasks[task.submit.task] = task
        task.to(QUEUED)
        task.to(SENT)
        if self.has_ended:
            task.to(LOST)
            return False
        task.worker = self.worker
        self.worker.sent[task.submit.task] = task
        return True

    def join(self, task: Task) -> None:
        """Add a lost call that came via the server: it is decided on after the line's calls."""
        if task.line is None:
            assert self.actor is not None
            self.actor.forget(task)
            task.line = self
        self.tasks.pop(task.submit.task, None)
        self.tasks[task.submit.task] = task

    def detach_call(self, task: Task) -> None:
        """Remove a call from the line, which makes it an ordinary call."""
        del self.tasks[task.submit.task]
        task.line = None
        if self.actor is not None:
            self.actor.unfinished[task.owner] += 1


class ActorState(Enum):
    """State of an actor. A restart leads from ALIVE to STARTING; nothing leads out of DEAD."""

    STARTING = "being made"
    ALIVE = "alive"
    DEAD = "dead"


@dataclass(slots=True, eq=False)
class Actor:
    """One actor, from its Create until no handle is left: its own worker, and its calls.

    A call runs after ``creation_task``, which makes the instance. With ``in_order`` it begins after
    all earlier calls of its caller, else as soon as its arguments are there. ``creation_task``
    keeps its pins until the actor is dead, because it may have to run again.
    """

    id: int
    name: str
    creation_task: Task
    restarts: int
    concurrency: int
    in_order: bool
    groups: dict[str, int]  # concurrency group → calls of it that run at a time
    state: ActorState = ActorState.STARTING
    worker: Worker | None = None
    why: Value | None = None  # once dead: value of its failed calls
    # Those that wait for arguments or a line's calls: by caller, in order; or each by itself.
    waiting: dict[int, deque[Task]] = field(default_factory=dict)
    ready: dict[str, deque[Task]] = field(init=False)  # by group: queued calls
    lines: dict[int, Line] = field(default_factory=dict)  # by caller
    unfinished: Counter[int] = field(default_factory=Counter)  # by caller: those not by a line
    last: dict[int, int] = field(default_factory=dict)  # by caller: the last of these
    # By caller: how many of its calls must have an object before that is lent to the line.
    needed: dict[int, int] = field(default_factory=dict)
    takes_lines: bool = True  # False once its worker refused one

    def __post_init__(self) -> None:
        self.ready = {group: deque() for group in ("", *self.groups)}

    def add(self, task: Task) -> None:
        self.unfinished[task.owner] += 1
        self.last[task.owner] = task.submit.task
        self.waiting.setdefault(self._key_of(task), deque()).append(task)
        self._advance(self._key_of(task))

    def _key_of(self, task: Task) -> int:
        """Return the key in ``waiting`` of the calls that the task comes behind."""
        return task.owner if self.in_order else task.submit.task

    def forget(self, task: Task) -> bool:
        """Remove a call that is over. True if its caller could use a line now."""
        if task.line is not None:
            del task.line.tasks[task.submit.task]
            task.line = None
            return False
        self.unfinished[task.owner] -= 1
        if self.unfinished[task.owner]:
            return False
        del self.unfinished[task.owner]
        return not self.groups

    def arguments_came(self, task: Task) -> None:
        """Take note that one more argument of a call is ready; queue the call if it can be."""
        self._advance(self._key_of(task))

    def _queue_of(self, task: Task) -> deque[Task]:
        """Return the queue of its concurrency group, or the default one for an unknown group."""
        group = task.spec.concurrency_group if self.groups else ""
        return self.ready[group if group in self.ready else ""]

    def _advance(self, key: int) -> None:
        """Queue the caller's calls, in order, up to the first whose arguments aren't ready."""
        queue, line = self.waiting.get(key), self.lines.get(key)
        waits = line is not None and line.has_ended  # calls that went by it come first
        while queue and not queue[0].pending_dependencies and not waits:
            task = queue.popleft()
            task.to(QUEUED)
            self._queue_of(task).append(task)
        if queue is not None and not queue:
            del self.waiting[key]

    def hold_back(self, owner: int) -> None:
        """Have the caller's queued calls wait for those that went by its line, which has ended."""
        queue = self.ready[""]  # with groups nobody has a line
        own = [task for task in queue if task.owner == owner]
        if not (own and self.in_order):
            return
        self.ready[""] = deque(task for task in queue if task.owner != owner)
        for task in own:
            task.to(WAITING)
        self.waiting[owner] = deque([*own, *self.waiting.get(owner, ())])

    def remove(self, task: Task) -> None:
        if task in (queue := self._queue_of(task)):
            queue.remove(task)
        else:
            self.waiting[self._key_of(task)].remove(task)
            self._advance(self._key_of(task))

    def put_back(self, tasks: list[Task]) -> None:
        """Put calls that were sent but aren't done back, before all others."""
        for task in reversed(tasks):
            task.to(QUEUED)
            self._queue_of(task).appendleft(task)

    def next(self) -> Iterator[tuple[Worker, Task]]:
        """Yield calls to send now; the caller notes each as sent before it asks for the next."""
        worker = self.worker
        if worker is None or worker.client is None or worker.leaving:
            return
        if self.state is ActorState.STARTING:
            if self.creation_task.state is QUEUED:
                yield worker, self.creation_task
            return
        for group, queue in self.ready.items():
            most = self.groups.get(group, self.concurrency)
            sent = len(worker.sent)
            if queue and self.groups:
                queues = map(self._queue_of, worker.sent.values())
                sent = sum(each is queue for each in queues)
            while queue and sent < most + AHEAD:
                spec = queue[0].spec
                if (spec.timeout or spec.job) and sent >= most:
                    break  # it counts as running once sent, so it must run at once
                sent += 1
                yield worker, queue.popleft()

    def closed(self, line: Line) -> None:
        """Remove a line whose calls have been decided on: its caller's other calls may be sent."""
        if self.lines.get(line.caller) is line:
            del self.lines[line.caller]
        self._advance(line.caller)

    @property
    def at_a_time(self) -> int:
        return self.concurrency + sum(self.groups.values())

    @property
    def cpus(self) -> int:
        """Thousandths of a processor that it takes from the pool's tasks while it has a worker."""
        spec = self.creation_task.submit.spec
        return 0 if spec is None else spec.cpus

    @property
    def calls(self) -> list[Task]:
        waiting = (task for queue in self.waiting.values() for task in queue)
        ready = (task for queue in self.ready.values() for task in queue)
        return [*ready, *waiting]


@dataclass(slots=True, eq=False)
class TaskGroup:
    """A job: one background cell, as long as the session remembers it."""

    number: int
    id: int  # its first task's
    name: str
    binds: tuple[str, ...]  # see `TaskSpec`
    owner: int  # the client that submits its tasks
    size: int  # how many there will be
    audience: dict[int, int]  # client that sees its output → its cell
    partial: dict[int, int] = field(default_factory=dict)  # client → results it has, if not all
    tasks: list[Task] = field(default_factory=list)  # submitted; empty once it is over
    results: array[int] = field(default_factory=lambda: array("Q"))  # of all of them, in order
    ends: dict[int, Value] = field(default_factory=dict)  # by task, see `MOST_ENDS`
    log: Log = field(default_factory=Log)
    outcomes: Counter[str] = field(default_factory=Counter)  # done, failed, stopped → how many
    began: float | None = None  # when its first task was sent, or its only one last
    seconds: float = 0.0
    worker: int = 0  # that was last sent one of its tasks
    unseen: bool = False  # its audience left before its end; not collected since
    dropped: bool = False  # results were freed because memory was needed

    def add(self, task: Task) -> None:
        task.job = self
        self.tasks.append(task)
        self.results.extend(task.results)

    @property
    def is_over(self) -> bool:
        return self.outcomes.total() >= self.size

    @property
    def is_complete(self) -> bool:
        return self.is_over or len(self.tasks) >= self.size

    @property
    def failed(self) -> int:
        return self.outcomes.total() - self.outcomes["done"]

    @property
    def runs(self) -> bool:
        return any(task.worker is not None for task in self.tasks)

    def record(self, now: float, there: tuple[str, ...] = ()) -> JobRecord:
        """Return its record. ``there``: the names whose results are kept for it."""
        ended = next((o for o in ("failed", "stopped") if self.outcomes[o]), "done")  # the worst
        began = None if self.is_over else self.began
        return JobRecord(
            id=self.id,
            number=self.number,
            name=self.name,
            state=ended if self.is_over else "running" if self.runs else "queued",
            seconds=self.seconds if began is None else now - began,
            lines=self.log.lines,
            displays=self.log.displays,
            shown_in_part=self.log.is_part,
            binds=self.binds,
            kept=self.unseen,
            ended=self.outcomes.total(),
            size=self.size,
            worker=self.worker,
            failed=self.failed,
            there=there,
            dropped=self.dropped,
        )
