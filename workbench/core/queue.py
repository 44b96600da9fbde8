"""A queue of tasks: drivers take turns, a task each; a driver's own are first in, first out.

What a driver's tasks submit counts as the driver's own (`Task.audience`). What a task needs that
has begun comes before all others, whosever it is, the newest wait's first, so that what has begun
is finished before something new begins: else a thousand tasks that each wait for one of their own
would all begin. One in the middle can be removed at no cost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

from workbench.core.task_states import QUEUED
from workbench.core.tasks import Task


class _Line:
    """Tasks in order. Whoever leaves early keeps its place, as a gap, until it is first, or half
    of all are gaps: a dict that keeps an order would need a hundred bytes more a task. So it must
    never come back to a gap of its own. ``driver``: whose they are, if they aren't urgent."""

    def __init__(self, urgent: bool, driver: int = 0) -> None:
        self.urgent = urgent
        self.driver = driver
        self._gaps = 0
        self.tasks: deque[Task] = deque()

    def __iter__(self) -> Iterator[Task]:
        return (task for task in self.tasks if self._is_here(task))

    def _is_here(self, task: Task) -> bool:
        return task.state is QUEUED and task.urgent is self.urgent

    def first(self) -> Task | None:
        tasks = self.tasks
        while tasks:
            task = tasks[0]
            if task.state is QUEUED and task.urgent is self.urgent:
                return task
            tasks.popleft()
            self._gaps -= 1
        return None

    def left(self) -> None:
        """One has gone from the middle."""
        self._gaps += 1
        if self._gaps > len(self.tasks) // 2:
            self.tasks = deque(self)
            self._gaps = 0


class TaskQueue:
    """See the module. All its tasks are QUEUED; ``size`` is how many there are.

    As a rule one driver has tasks: then turns cost a look at whether there are other lines. If the
    line whose turn it is is empty, without even a gap, there are no other lines.
    """

    def __init__(self) -> None:
        self._usual = _Line(urgent=False)  # whose turn it is
        self._others: dict[int, _Line] = {}  # by driver, the next one first; may be gaps alone
        self._urgent = _Line(urgent=True)  # once there, a task is urgent for good
        self.size = 0  # an attribute: it is asked often, and a call would cost most of it
        self.is_shared = False  # several drivers have had tasks in it since it was last empty

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Task]:
        return chain(self._urgent, self._in_turns())

    def _in_turns(self) -> Iterator[Task]:
        lines = [iter(line) for line in (self._usual, *self._others.values())]
        while lines:
            firsts = [(line, next(line, None)) for line in lines]
            yield from (task for _, task in firsts if task is not None)
            lines = [line for line, task in firsts if task is not None]

    def _line_of(self, task: Task) -> _Line:
        """Its driver's; a new one is behind the others'."""
        line = self._usual
        if line.driver == task.audience:
            return line
        found = self._others.get(task.audience)
        if found is None:
            found = self._others[task.audience] = _Line(urgent=False, driver=task.audience)
            self.is_shared = self.size > 0
            if not line.tasks:
                self._skip()
        return found

    def _skip(self) -> None:
        """On to the next line that has a task."""
        while self._others and self._usual.first() is None:
            self._usual = self._others.pop(next(iter(self._others)))

    def append(self, task: Task) -> None:
        """A new one. What somebody waits for already comes first."""
        if task.urgent:
            return self.appendleft(task)
        if not self.size:
            self.is_shared = False
        task.to(QUEUED)
        line = self._usual
        (line if line.driver == task.audience else self._line_of(task)).tasks.append(task)
        self.size += 1
        return None

    def appendleft(self, task: Task) -> None:
        """Before all others of its driver."""
        task.to(QUEUED)
        (self._urgent if task.urgent else self._line_of(task)).tasks.appendleft(task)
        self.size += 1

    def hurry(self, tasks: Iterable[Task]) -> None:
        """These are urgent now: they come first, in this order."""
        found = list(tasks)
        for task in found:
            task.urgent = True
            self._line_of(task).left()
        self._urgent.tasks.extendleft(reversed(found))
        self._skip()

    @property
    def has_urgent(self) -> bool:
        return self._urgent.first() is not None

    @property
    def first(self) -> Task:
        """Who is next; the queue isn't empty. Asked ten times a task."""
        line = self._urgent if self._urgent.tasks else self._usual
        task = line.tasks[0]
        if task.state is QUEUED and task.urgent is line.urgent:
            return task
        found = self._urgent.first()
        if found is None:
            self._skip()
            found = self._usual.first()
        assert found is not None
        return found

    def popleft(self) -> Task:
        """Take out the first, which is to be SENT: its driver's turn, unless it is urgent."""
        line = self._urgent if self._urgent.tasks else self._usual
        task = line.tasks[0]
        if task.state is not QUEUED or task.urgent is not line.urgent:
            task = self.first  # now it is the first of its line
            line = self._urgent if task.urgent else self._usual
        line.tasks.popleft()
        self.size -= 1
        if self._others and line is self._usual:
            self._others[line.driver] = line
            self._usual = self._others.pop(next(iter(self._others)))
            self._skip()
        return task

    def left(self, task: Task) -> None:
        """It was in the queue, and is no more."""
        self.size -= 1
        (self._urgent if task.urgent else self._line_of(task)).left()
        self._skip()
