"""Actors: each a worker of its own that keeps what it makes. Which call is next; who is left.

A call runs after all calls that the same caller submitted before it. The first call,
`Actor.creation_task`, makes the instance; until it is done no other is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING

from workbench.core.events import Create, Value

if TYPE_CHECKING:
    from workbench.core.scheduler import Task, Worker


AHEAD = 64
"""Calls sent beyond those that can run: the next one is there before it is asked for."""


class Life(Enum):
    """An actor's life. A restart leads from ALIVE back to BEING_MADE; there is no way from DEAD."""

    BEING_MADE = "being made"
    ALIVE = "alive"
    DEAD = "dead"


class Actor:
    """One actor, from its Create until no handle is left.

    Attributes
    ----------
    birth : Task
        The creation. Its pins are held until the actor is dead: it may be needed again.
    why : Value or None
        Once it is dead, what its calls fail with.
    """

    __slots__ = (
        "concurrency",
        "creation_task",
        "id",
        "life",
        "name",
        "ready",
        "restarts",
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
        self.life = Life.BEING_MADE
        self.worker: Worker | None = None
        self.why: Value | None = None
        self.waiting: dict[int, deque[Task]] = {}  # by caller; its first one waits for arguments
        self.ready: deque[Task] = deque()

    def add(self, task: Task) -> None:
        """One more call."""
        self.waiting.setdefault(task.owner, deque()).append(task)
        self.advance(task.owner)

    def advance(self, owner: int) -> None:
        """Calls of this caller whose arguments are there, and those of all before, may be sent."""
        queue = self.waiting.get(owner)
        while queue and not queue[0].pending_dependencies:
            self.ready.append(queue.popleft())
        if queue is not None and not queue:
            del self.waiting[owner]

    def remove(self, task: Task) -> None:
        """A call that wasn't sent will not be. One that was lost with its worker isn't here."""
        waiting = self.waiting.get(task.owner, ())
        if task in self.ready:
            self.ready.remove(task)
        elif task in waiting:
            self.waiting[task.owner].remove(task)
            self.advance(task.owner)

    def put_back(self, tasks: list[Task]) -> None:
        """Sent, but not done, and to be sent again, before all others."""
        self.ready.extendleft(reversed(tasks))

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
        if self.life is Life.BEING_MADE:
            if not worker.sent and not self.creation_task.pending_dependencies:
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
        if self.life is Life.DEAD:
            assert self.why is not None
            assert not self.calls, "the dead answer at once"

    @property
    def calls(self) -> list[Task]:
        """All that wasn't sent."""
        return [*self.ready, *(task for queue in self.waiting.values() for task in queue)]
