"""A queue of tasks: drivers take turns, a task each; a driver's own are first in, first out.

What a driver's tasks submit counts as the driver's own (`Task.audience`). What a task needs that
has begun comes before the others of its driver, the newest wait's first, so that what has begun is
finished before something new begins: else a thousand tasks that each wait for one of their own
would all begin. One in the middle can be removed at no cost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

from workbench.core.task_states import QUEUED
from workbench.core.tasks import Task


class _Tasks(deque[Task]):
    """Tasks in order. Whoever leaves early keeps its place, as a gap, until it is first, or half
    of all are gaps: a dict that keeps an order would need a hundred bytes more a task. So it must
    never come back to a gap of its own."""

    def __init__(self, urgent: bool) -> None:
        super().__init__()
        self.urgent = urgent
        self._gaps = 0

    def is_here(self, task: Task) -> bool:
        return task.state is QUEUED and task.urgent is self.urgent

    def first(self) -> Task | None:
        while self:
            if self.is_here(self[0]):
                return self[0]
            self.popleft()
            self._gaps -= 1
        return None

    def left(self) -> None:
        """One has gone from the middle."""
        self._gaps += 1
        if self._gaps > len(self) // 2:
            here = list(filter(self.is_here, self))
            self.clear()
            self.extend(here)
            self._gaps = 0


class _Line:
    """The tasks of one driver."""

    def __init__(self, driver: int) -> None:
        self.driver = driver
        self.urgent = _Tasks(urgent=True)  # once there, a task is urgent for good
        self.usual = _Tasks(urgent=False)

    def __iter__(self) -> Iterator[Task]:
        return (
            task for tasks in (self.urgent, self.usual) for task in tasks if tasks.is_here(task)
        )

    def first(self) -> Task | None:
        return self.urgent.first() or self.usual.first()

    def of(self, task: Task) -> _Tasks:
        return self.urgent if task.urgent else self.usual


class TaskQueue:
    """See the module. All its tasks are QUEUED; ``size`` is how many there are.

    As a rule one driver has tasks: then turns cost a look at whether there are other lines. If the
    line whose turn it is is empty, without even a gap, there are no other lines.
    """

    def __init__(self) -> None:
        self._line = _Line(driver=0)  # whose turn it is
        self._others: dict[int, _Line] = {}  # by driver, the next one first; may be gaps alone
        self.size = 0  # an attribute: it is asked often, and a call would cost most of it
        self.is_shared = False  # several drivers have had tasks in it since it was last empty

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Task]:
        """In turns, as they will come unless more do."""
        lines = [iter(line) for line in self.lines()]
        while lines:
            firsts = [(line, next(line, None)) for line in lines]
            yield from (task for _, task in firsts if task is not None)
            lines = [line for line, task in firsts if task is not None]

    def lines(self) -> Iterator[_Line]:
        return chain((self._line,), self._others.values())

    def _line_of(self, task: Task) -> _Line:
        """Its driver's; a new one is behind the others'."""
        line = self._line
        if line.driver == task.audience:
            return line
        found = self._others.get(task.audience)
        if found is None:
            found = self._others[task.audience] = _Line(task.audience)
            self.is_shared = self.size > 0
            if not (line.urgent or line.usual):
                self._skip()
        return found

    def _skip(self) -> None:
        """On to the next line that has a task."""
        while self._others and self._line.first() is None:
            self._line = self._others.pop(next(iter(self._others)))

    def append(self, task: Task) -> None:
        """A new one. What somebody waits for already comes first."""
        if task.urgent:
            return self.appendleft(task)
        if not self.size:
            self.is_shared = False
        task.to(QUEUED)
        line = self._line
        (line if line.driver == task.audience else self._line_of(task)).usual.append(task)
        self.size += 1
        return None

    def appendleft(self, task: Task) -> None:
        """Before all others of its driver, but for those that are urgent if it isn't."""
        task.to(QUEUED)
        self._line_of(task).of(task).appendleft(task)
        self.size += 1

    def hurry(self, tasks: Iterable[Task]) -> None:
        """These are urgent now: of each driver they come first, in this order."""
        for task in reversed(list(tasks)):
            line = self._line_of(task)
            task.urgent = True
            line.usual.left()
            line.urgent.appendleft(task)

    @property
    def has_urgent(self) -> bool:
        """Whether there is a task that a running one waits for."""
        return any(line.urgent.first() is not None for line in self.lines())

    @property
    def first(self) -> Task:
        """Who is next; the queue isn't empty. Asked ten times a task."""
        line = self._line
        tasks = line.urgent or line.usual
        task = tasks[0]
        if task.state is QUEUED and task.urgent is tasks.urgent:
            return task
        self._skip()
        found = self._line.first()
        assert found is not None
        return found

    @property
    def first_that_is_waited_for(self) -> Task:
        """The first one that is urgent, or the first; the queue isn't empty."""
        return next((task for task in self if task.urgent), self.first)

    def popleft(self) -> Task:
        """Take out the first, which is to be SENT: its driver's turn."""
        line = self._line
        tasks = line.urgent or line.usual
        task = tasks[0]
        if task.state is not QUEUED or task.urgent is not tasks.urgent:
            task = self.first  # now it is the first of its line
            line = self._line
            tasks = line.of(task)
        tasks.popleft()
        self.size -= 1
        if self._others:
            self._others[line.driver] = line
            self._line = self._others.pop(next(iter(self._others)))
            self._skip()
        return task

    def left(self, task: Task) -> None:
        """It was in the queue, and is no more."""
        self.size -= 1
        self._line_of(task).of(task).left()
        self._skip()
