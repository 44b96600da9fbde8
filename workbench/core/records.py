"""Tasks, workers, actors and jobs: the records that refer to each other. They send no messages.

A task is in one `TaskState` at a time; `TRANSITIONS` says which one can follow which.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from enum import Enum, IntEnum

from workbench.core.events import USUAL, Create, Submit, TaskSpec, Value
from workbench.core.logs import Log
from workbench.core.snapshot import JobRecord

ONE = USUAL.cpus
"""One processor, in the unit of `TaskSpec.cpus`."""

AHEAD = 64
"""Calls sent to an actor beyond those that can run, so that its worker never waits for the next."""


class TaskState(IntEnum):
    """Where a task is. An `IntEnum`, because its members hash fastest."""

    WAITING = 0  # for its dependencies, or (an actor's call) for earlier calls of its caller
    QUEUED = 1  # may be sent: in the scheduler's queue, or its actor's, or an actor's creation
    SENT = 2  # to a worker, which runs it or will
    STOPPING = 3  # the same, and the worker was told to stop it
    LOST = 4  # its worker died; the same batch decides what becomes of it
    DONE = 5  # finished, failed or dropped: no longer in the scheduler


TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.WAITING: frozenset({TaskState.QUEUED, TaskState.DONE}),
    TaskState.QUEUED: frozenset({TaskState.SENT, TaskState.DONE}),
    # Given back, or to be tried again: queued once more.
    TaskState.SENT: frozenset(
        {TaskState.QUEUED, TaskState.STOPPING, TaskState.LOST, TaskState.DONE}
    ),
    TaskState.STOPPING: frozenset({TaskState.LOST, TaskState.DONE}),
    TaskState.LOST: frozenset({TaskState.QUEUED, TaskState.DONE}),
    # An actor's creation alone: the actor is restarted.
    TaskState.DONE: frozenset({TaskState.QUEUED}),
}


class Task:
    """One task. ``pending_dependencies`` counts those that aren't ready."""

    __slots__ = (
        "actor",
        "attempts",
        "audience",
        "cpus",
        "final_value",
        "job",
        "made",
        "owner",
        "parent",
        "pending_dependencies",
        "pins",
        "seconds",
        "state",
        "submit",
        "taken",
        "worker",
    )

    def __init__(self, submit: Submit, owner: int, parent: Task | None = None) -> None:
        self.submit = submit
        self.owner = owner
        self.parent = parent  # the task that submitted it
        # The client that sees its output: a task's own tasks show theirs where it does.
        self.audience: int = owner if parent is None else parent.audience
        self.job: TaskGroup | None = (
            None if parent is None else parent.job
        )  # that it is, or belongs to
        self.actor: Actor | None = None  # whose call it is, or whose creation
        self.cpus = ONE if submit.terms is None else submit.terms.cpus
        self.state = TaskState.WAITING
        self.final_value: Value | None = None  # it was told to stop; what its results are then
        self.made = 0  # items, if it is a stream
        self.taken = 0  # those that its reader took
        self.pins: list[int] = []  # objects that live as long as it does, one entry per pin
        self.pending_dependencies = 0
        self.attempts = 0
        self.seconds = 0.0  # what was expected of it when it was sent
        self.worker: Worker | None = None  # that it was sent to

    def to(self, state: TaskState) -> None:
        """Go to another state; AssertionError if `TRANSITIONS` has no such step."""
        assert state in TRANSITIONS[self.state], f"{self.state.name} → {state.name}"
        self.state = state

    @property
    def is_over(self) -> bool:
        """Whether it is done, failed or dropped."""
        return self.state is TaskState.DONE

    @property
    def is_creation(self) -> bool:
        """Whether it makes an actor's instance."""
        return self.actor is not None and self.actor.creation_task is self

    @property
    def terms(self) -> TaskSpec:
        """What it asks for."""
        return self.submit.terms or USUAL

    @property
    def results(self) -> range:
        """The objects it makes."""
        return range(self.submit.task, self.submit.task + self.submit.returns)


class Worker:
    """One worker process, from its fork to its end. ``number`` is the pool's, never reused."""

    __slots__ = (
        "actor",
        "alone",
        "blocked",
        "client",
        "cpus",
        "kill_reason",
        "load",
        "number",
        "pid",
        "recalled",
        "sent",
        "since",
        "used",
    )  # fmt: skip

    def __init__(self, number: int, actor: Actor | None = None) -> None:
        self.number = number
        self.actor = actor  # whose it is, for ever; None in the pool
        self.pid = 0
        self.client: int | None = None  # None until its Hello
        self.sent: dict[int, Task] = {}  # in order; the first one runs
        self.load = 0.0  # expected seconds of what was sent
        self.cpus = ONE  # what each of those needs
        self.used = 0  # what is counted for it in `Scheduler.used`
        self.blocked = 0  # its task waits for others (nested waits count)
        self.recalled = False  # a GaveBack is due
        self.since = 0.0  # idle, or busy, since this time
        self.kill_reason = ""  # why we killed it: a clause
        self.alone = False  # no other worker was busy then

    @property
    def idle(self) -> bool:
        """Ready for any task."""
        return self.client is not None and not self.sent and not self.blocked and self.actor is None

    @property
    def running(self) -> Task | None:
        """The first task that was sent to it."""
        return next(iter(self.sent.values()), None)


class ActorState(Enum):
    """An actor's life. A restart leads from ALIVE back to STARTING; there is no way from DEAD."""

    STARTING = "being made"
    ALIVE = "alive"
    DEAD = "dead"


class Actor:
    """One actor, from its Create until no handle is left: a worker of its own, and its calls.

    A call runs after all calls that the same caller submitted before it.

    Attributes
    ----------
    creation_task : Task
        Makes the instance; no call is sent before it is done. Its pins are held until the actor
        is dead: it may be needed again.
    why : Value or None
        Once it is dead, what its calls fail with.
    """

    __slots__ = (
        "concurrency",
        "creation_task",
        "id",
        "name",
        "ready",
        "restarts",
        "state",
        "waiting",
        "why",
        "worker",
    )  # fmt: skip

    def __init__(self, create: Create, creation_task: Task) -> None:
        self.id = create.creation.task
        self.name = create.creation.name
        self.creation_task = creation_task
        self.restarts = create.restarts
        self.concurrency = create.concurrency
        self.state = ActorState.STARTING
        self.worker: Worker | None = None
        self.why: Value | None = None
        self.waiting: dict[int, deque[Task]] = {}  # by caller; its first one waits for arguments
        self.ready: deque[Task] = deque()  # those that are queued

    def add(self, task: Task) -> None:
        """One more call."""
        self.waiting.setdefault(task.owner, deque()).append(task)
        self.advance(task.owner)

    def advance(self, owner: int) -> None:
        """Calls of this caller whose arguments are there, and those of all before, may be sent."""
        queue = self.waiting.get(owner)
        while queue and not queue[0].pending_dependencies:
            queue[0].to(TaskState.QUEUED)
            self.ready.append(queue.popleft())
        if queue is not None and not queue:
            del self.waiting[owner]

    def remove(self, task: Task) -> None:
        """A call that was queued or waited will not be sent."""
        if task in self.ready:
            self.ready.remove(task)
        else:
            self.waiting[task.owner].remove(task)
            self.advance(task.owner)

    def put_back(self, tasks: list[Task]) -> None:
        """Sent, but not done, and to be sent again, before all others."""
        for task in reversed(tasks):
            task.to(TaskState.QUEUED)
            self.ready.appendleft(task)

    def lost(self, tasks: list[Task], last: int) -> tuple[list[Task], list[Task]]:
        """Of those sent to a worker that died: (to be tried again, not again).

        ``last`` is the place of the one that began last.
        """
        again: list[Task] = []
        over: list[Task] = []
        for number, task in enumerate(t for t in tasks if t is not self.creation_task):
            task.attempts += number < last + self.concurrency  # those behind had not begun
            (again if task.attempts <= task.submit.retries else over).append(task)
        return again, over

    def next(self) -> Iterator[tuple[Worker, Task]]:
        """Calls to send now; each must be noted as sent before the next is asked for."""
        worker = self.worker
        if worker is None or worker.client is None:
            return
        if self.state is ActorState.STARTING:
            if self.creation_task.state is TaskState.QUEUED:
                yield worker, self.creation_task
            return
        while self.ready and len(worker.sent) < self.concurrency + AHEAD:
            terms = self.ready[0].terms
            if (terms.timeout or terms.job) and len(worker.sent) >= self.concurrency:
                return  # what counts as running shall run
            yield worker, self.ready.popleft()

    def check(self) -> None:
        """Raise AssertionError unless its calls are where they belong."""
        assert all(not task.pending_dependencies for task in self.ready)
        assert all(queue and queue[0].pending_dependencies for queue in self.waiting.values())
        assert self.worker is None or self.worker.actor is self
        if self.state is ActorState.DEAD:
            assert self.why is not None
            assert not self.calls, "calls of a dead actor fail at once"

    @property
    def calls(self) -> list[Task]:
        """All that wasn't sent."""
        return [*self.ready, *(task for queue in self.waiting.values() for task in queue)]


class TaskGroup:
    """One background cell, until it has ended and somebody has what it made.

    Attributes
    ----------
    id : int
        Its first task's.
    tasks : list of Task
        Those that were submitted, in order, over or not.
    size : int
        How many there will be.
    audience : dict of int → int
        Clients that see what it shows, with the number that says where there.
    outcomes : Counter of str
        How many tasks ended how: done, failed or cancelled.
    """

    __slots__ = (
        "audience", "began", "id", "log", "number", "outcomes", "seconds", "size", "tasks", "worker"
    )  # fmt: skip

    def __init__(self, number: int, task: Task) -> None:
        self.number = number
        self.id = task.submit.task
        self.tasks = [task]
        self.size = max(task.terms.size, 1)
        self.audience = {task.owner: task.submit.origin}
        self.log = Log()
        self.outcomes: Counter[str] = Counter()
        self.began: float | None = None  # when the first of them was sent, or all that ran were
        self.seconds = 0.0
        self.worker = 0  # to which one of them was sent last

    @property
    def name(self) -> str:
        """What people call it."""
        return self.tasks[0].terms.job

    @property
    def is_over(self) -> bool:
        """Whether nothing of it will run any more."""
        return self.outcomes.total() >= self.size

    @property
    def results(self) -> Iterator[int]:
        """The objects it makes."""
        return (id for task in self.tasks for id in task.results)

    def record(self, now: float) -> JobRecord:
        """What a snapshot says of it."""
        runs = any(task.worker is not None for task in self.tasks)
        ended = next((o for o in ("failed", "cancelled") if self.outcomes[o]), "done")  # the worst
        ran_until_now = self.began is not None and not self.is_over
        return JobRecord(
            id=self.id,
            number=self.number,
            name=self.name,
            state=ended if self.is_over else "running" if runs else "queued",
            seconds=now - self.began if ran_until_now and self.began is not None else self.seconds,
            lines=self.log.lines,
            displays=self.log.displays,
            binds=self.tasks[0].terms.binds,
            kept=not self.audience,
            ended=self.outcomes.total(),
            size=self.size,
            worker=self.worker,
        )
