"""Tasks, workers, actors and jobs: the records that refer to each other. They send no messages."""

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
"""Calls sent to an actor beyond those that can run, so that its worker never waits for the next."""


class Task:
    """One task. ``pending_dependencies`` counts those that aren't ready."""

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
        # Its number; also of one that isn't known yet, because it came to its actor by a line.
        self.parent_id = 0 if parent is None else parent.submit.task
        self.line: Line | None = None  # by which it went to its actor
        # The client that sees its output: a task's own tasks show theirs where it does.
        self.audience: int = owner if parent is None else parent.audience
        # That it is, or belongs to.
        self.job: TaskGroup | None = None if parent is None else parent.job
        self.actor: Actor | None = None  # whose call it is, or whose creation
        self.is_counted = False  # among those of its executor that may run
        self.cpus = ONE if submit.spec is None else submit.spec.cpus
        self.state = WAITING
        self.broken: Value | None = None  # an argument is gone: it can't run once more
        self.final_value: Value | None = None  # it was told to stop; what its results are then
        self.stops_children = False  # so are those that it has called by lines
        self.made = 0  # items of a stream; of an actor's creation, how often it was made again
        self.taken = 0  # those that its reader took
        self.pins: list[int] = []  # objects that live as long as it does, one entry per pin
        self.argument_bytes = 0  # of its message, as long as these are pinned
        self.pending_dependencies = 0
        self.attempts = 0
        self.seconds = 0.0  # what was expected of it when it was sent
        self.urgent = False  # one that has begun needs it: for good, see `Queue`
        self.worker: Worker | None = None  # that it was sent to

    def to(self, state: TaskState) -> None:
        """Go to another state; AssertionError if `TRANSITIONS` has no such step."""
        assert state in TRANSITIONS[self.state], f"{self.state.name} → {state.name}"
        self.state = state

    @property
    def is_over(self) -> bool:
        """Whether it is done, failed or dropped."""
        return self.state is DONE

    @property
    def is_creation(self) -> bool:
        """Whether this call makes its actor's instance."""
        return self.actor is not None and self.actor.creation_task is self

    @property
    def may_retry(self) -> bool:
        """Whether it may run once more, if it failed."""
        return self.attempts < self.submit.retries and not self.is_creation

    @property
    def spec(self) -> TaskSpec:
        return self.submit.spec or USUAL

    @property
    def results(self) -> range:
        """The ids of its results, which follow its own."""
        return range(self.submit.task, self.submit.task + self.submit.returns)


MOST_LINGERING = 1000
"""Tasks of one worker whose threads go on, as far as is known: nobody tells when they end."""


@dataclass(slots=True, eq=False)
class Wait:
    """One place where a worker's task waits; see `task_events.Blocked`."""

    worker: Worker
    missing: set[int]  # objects
    left: int  # how many of them have to come
    may_fail: bool  # one that failed is enough
    item: int
    is_over: bool = False  # what it waits for is there, and it hasn't said yet that it goes on


@dataclass(slots=True, eq=False)
class Worker:
    """One worker process, from its fork to its end. ``number`` is the pool's, never reused."""

    number: int
    actor: Actor | None = None  # whose it is, for ever; None in the pool
    pid: int = 0
    client: int | None = None  # None until its Hello
    sent: dict[int, Task] = field(default_factory=dict)  # in order; the first one runs
    load: float = 0.0  # expected seconds of what was sent
    cpus: int = ONE  # what each of those needs
    used: int = 0  # what is counted for it in `Scheduler.used`
    blocked: bool = False  # it has no slot: its task waits for others, or it is about to go
    waits: dict[int, Wait] = field(default_factory=dict)  # of its running task
    waits_over: int = 0  # how many of them are over: if one is, the slot is its own again
    leaving: bool = False
    recalled: bool = False  # a GaveBack is due
    since: float = 0.0  # idle, or busy, since this time
    kill_reason: str = ""  # why we killed it: a clause
    alone: bool = False  # no other worker was busy then
    lingering: dict[int, Task] = field(default_factory=dict)  # over, but for threads they started
    calls: Counter[int] = field(default_factory=Counter)  # by function, of those with `max_calls`
    reported: set[int] = field(default_factory=set)  # calls that it was sent a Report of
    lease: Line | None = None  # by which somebody's tasks may come to it, until it has it back

    def keep(self, task: Task) -> None:
        """A task is over, and threads that it started go on here."""
        self.lingering[task.submit.task] = task
        if len(self.lingering) > MOST_LINGERING:
            del self.lingering[next(iter(self.lingering))]

    @property
    def idle(self) -> bool:
        """Whether it is connected and one of the pool, has no task, and none of its waits."""
        return self.client is not None and not self.sent and not self.blocked and self.actor is None

    @property
    def running(self) -> Task | None:
        """The first task that was sent to it."""
        return next(iter(self.sent.values()), None)


@dataclass(slots=True, eq=False)
class Line:
    """A socket between a driver and a worker, from its making until both ends are gone.

    The worker is an actor's, or lent: then tasks of ``functions`` go by it, see `core.leases`.
    ``tasks``: those that went by it, are known here and aren't over. What became of them when the
    worker died, nobody knows before the caller has told what it had heard.
    """

    number: int
    actor: Actor | None
    worker: Worker
    caller: int  # the client
    functions: frozenset[int] = frozenset()
    objects: set[int] = field(default_factory=set)  # that may be arguments of what goes by it
    lent: set[int] = field(default_factory=set)  # of these, what the worker may read still
    is_kept: bool = False  # the worker has said so: a task reads it
    seen: Counter[int] = field(default_factory=Counter)  # arguments of an actor's other calls
    since: float = 0.0  # that an actor's has objects
    last: int = 0  # the caller's last task before it was made, see `Offer`
    asked_at: float | None = None  # when the worker was told to give it back
    is_returned: bool = False  # and has: nothing that came by it runs any more
    is_offered: bool = False  # the caller has been sent its end
    is_open: bool = False  # and has it
    has_ended: bool = False  # the worker is gone
    tasks: dict[int, Task] = field(default_factory=dict)  # in the caller's order
    crash: tuple[str, str, int] = "", "", 0  # how the worker ended, its last words, what it ran
    begun: int = -1  # then: the number of the last call by it that began, if that is known
    unbegun: set[Task] = field(default_factory=set)  # once it is closed: those that never began
    unsent: list[tuple[int, str, bytes]] = field(default_factory=list)  # see `WorkerExited`

    def add(self, task: Task) -> bool:
        """A new one; whether it is sent. Else it is lost."""
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
        """It is lost, and decided on with those that went by the line, behind these."""
        if task.line is None:
            assert self.actor is not None
            self.actor.forget(task)
            task.line = self
        self.tasks.pop(task.submit.task, None)
        self.tasks[task.submit.task] = task

    def leave(self, task: Task) -> None:
        """From now on it is a call as others."""
        del self.tasks[task.submit.task]
        task.line = None
        if self.actor is not None:
            self.actor.unfinished[task.owner] += 1


class ActorState(Enum):
    """An actor's life. A restart leads from ALIVE back to STARTING; there is no way from DEAD."""

    STARTING = "being made"
    ALIVE = "alive"
    DEAD = "dead"


@dataclass(slots=True, eq=False)
class Actor:
    """One actor, from its Create until no handle is left: a worker of its own, and its calls.

    A call runs after ``creation_task``, which makes the instance; if calls go ``in_order``, after
    all that the same caller submitted before it, else as soon as its arguments are there. The pins
    of ``creation_task`` are held until the actor is dead: it may be needed again.
    """

    id: int
    name: str
    creation_task: Task
    restarts: int
    concurrency: int
    in_order: bool
    groups: dict[str, int]  # concurrency groups, each with how many of its calls run at a time
    state: ActorState = ActorState.STARTING
    worker: Worker | None = None
    why: Value | None = None  # once it is dead: what its calls fail with
    waiting: dict[int, deque[Task]] = field(default_factory=dict)  # by caller: the first one waits
    incomplete: dict[Task, None] = field(default_factory=dict)  # in any order: wait for arguments
    ready: dict[str, deque[Task]] = field(init=False)  # by group: those that are queued
    lines: dict[int, Line] = field(default_factory=dict)  # by caller
    unfinished: Counter[int] = field(default_factory=Counter)  # by caller: calls not by a line
    last: dict[int, int] = field(default_factory=dict)  # by caller: the last of all of these
    # By caller: so many of its calls had an object before it is lent to the line.
    needed: dict[int, int] = field(default_factory=dict)
    takes_lines: bool = True  # its worker hasn't said no

    def __post_init__(self) -> None:
        self.ready = {group: deque() for group in ("", *self.groups)}

    def add(self, task: Task) -> None:
        self.unfinished[task.owner] += 1
        self.last[task.owner] = task.submit.task
        if self.in_order:
            self.waiting.setdefault(task.owner, deque()).append(task)
            self._advance(task.owner)
        elif task.pending_dependencies:
            self.incomplete[task] = None
        else:
            self._enqueue(task)

    def forget(self, task: Task) -> bool:
        """A call is over; whether its caller could use a line now."""
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
        """One more of them is there."""
        if self.in_order:
            self._advance(task.owner)
        elif not task.pending_dependencies:
            del self.incomplete[task]
            self._enqueue(task)

    def _enqueue(self, task: Task) -> None:
        task.to(QUEUED)
        self._queue_of(task).append(task)

    def _queue_of(self, task: Task) -> deque[Task]:
        """That of its group; of one that there isn't, the default one."""
        group = task.spec.concurrency_group if self.groups else ""
        return self.ready[group if group in self.ready else ""]

    def _advance(self, owner: int) -> None:
        """Calls of this caller whose arguments are there, and those of all before, may be sent."""
        queue, line = self.waiting.get(owner), self.lines.get(owner)
        waits = line is not None and line.has_ended  # those that went by it come first
        while queue and not queue[0].pending_dependencies and not waits:
            self._enqueue(queue.popleft())
        if queue is not None and not queue:
            del self.waiting[owner]

    def hold_back(self, owner: int) -> None:
        """What this caller has queued comes behind what went by its line, which has ended."""
        queue = self.ready[""]  # with groups nobody has a line
        own = [task for task in queue if task.owner == owner]
        if not (own and self.in_order):
            return
        self.ready[""] = deque(task for task in queue if task.owner != owner)
        for task in own:
            task.to(WAITING)
        self.waiting[owner] = deque([*own, *self.waiting.get(owner, ())])

    def remove(self, task: Task) -> None:
        """A call that was queued or waited will not be sent."""
        if task in (queue := self._queue_of(task)):
            queue.remove(task)
        elif self.in_order:
            self.waiting[task.owner].remove(task)
            self._advance(task.owner)
        else:
            del self.incomplete[task]

    def put_back(self, tasks: list[Task]) -> None:
        """Sent, but not done, and to be sent again, before all others."""
        for task in reversed(tasks):
            task.to(QUEUED)
            self._queue_of(task).appendleft(task)

    def next(self) -> Iterator[tuple[Worker, Task]]:
        """Calls to send now; each must be noted as sent before the next is asked for."""
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
                    break  # what counts as running shall run
                sent += 1
                yield worker, queue.popleft()

    def closed(self, line: Line) -> None:
        """What went by it has been decided on: its caller's other calls may be sent."""
        if self.lines.get(line.caller) is line:
            del self.lines[line.caller]
        self._advance(line.caller)

    @property
    def at_a_time(self) -> int:
        """How many of its calls may run."""
        return self.concurrency + sum(self.groups.values())

    @property
    def cpus(self) -> int:
        """What it takes from the pool's tasks while it has a worker."""
        spec = self.creation_task.submit.spec
        return 0 if spec is None else spec.cpus

    @property
    def calls(self) -> list[Task]:
        """All that wasn't sent."""
        waiting = (task for queue in self.waiting.values() for task in queue)
        ready = (task for queue in self.ready.values() for task in queue)
        return [*ready, *waiting, *self.incomplete]


@dataclass(slots=True, eq=False)
class TaskGroup:
    """A job: one background cell, as long as it is remembered."""

    number: int
    id: int  # its first task's
    name: str
    binds: tuple[str, ...]  # see `TaskSpec`
    owner: int  # the client that submits its tasks
    size: int  # how many there will be
    audience: dict[int, int]  # clients that see what it shows, each with its number for where
    partial: dict[int, int] = field(default_factory=dict)  # clients who have but so many results
    tasks: list[Task] = field(default_factory=list)  # that were submitted; none once it is over
    results: array[int] = field(default_factory=lambda: array("Q"))  # of all of them, in order
    ends: dict[int, Value] = field(default_factory=dict)  # by task: see `MOST_ENDS`
    log: Log = field(default_factory=Log)
    outcomes: Counter[str] = field(default_factory=Counter)  # done, failed, stopped: how many
    began: float | None = None  # when the first of them was sent, or all that ran were
    seconds: float = 0.0
    worker: int = 0  # to which one of them was sent last
    unseen: bool = False  # its audience went before its end, and nobody has collected it since
    dropped: bool = False  # results of it were let go of because memory was needed

    def add(self, task: Task) -> None:
        task.job = self
        self.tasks.append(task)
        self.results.extend(task.results)

    @property
    def is_over(self) -> bool:
        """Whether nothing of it will run any more."""
        return self.outcomes.total() >= self.size

    @property
    def is_complete(self) -> bool:
        """Whether no more tasks of it will come."""
        return self.is_over or len(self.tasks) >= self.size

    @property
    def failed(self) -> int:
        """How many of its tasks ended otherwise than done."""
        return self.outcomes.total() - self.outcomes["done"]

    @property
    def runs(self) -> bool:
        """Whether one of its tasks was sent, while it isn't over."""
        return any(task.worker is not None for task in self.tasks)

    def record(self, now: float, there: tuple[str, ...] = ()) -> JobRecord:
        """``there``: the names whose results are kept for it."""
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
