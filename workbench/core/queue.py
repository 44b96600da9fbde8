"""A queue of tasks: drivers take turns, a task each; each driver's tasks are first in, first out.

Tasks that a driver's tasks submit count as the driver's (`Task.audience`). Urgent tasks, which a
running task needs, come before the others of their driver, the newest wait's first: so that running
tasks finish before new ones begin. Otherwise a thousand tasks that each wait for a child would all
begin. Removing a task from the middle costs next to nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

from workbench.core.task_states import QUEUED
from workbench.core.tasks import Task


class _Tasks(deque[Task]):
    """Tasks in order. A task that leaves early stays as a gap until it is first, or half of all are
    gaps: an ordered dict would need a hundred bytes more per task. So a task must never come back
    while its own gap is still here."""

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

    def add_gap(self) -> None:
        """Count a task that has left from the middle as a gap."""
        self._gaps += 1
        if self._gaps > len(self) // 2:
            here = list(filter(self.is_here, self))
            self.clear()
            self.extend(here)
            self._gaps = 0


class _DriverTasks:
    """The tasks of one driver."""

    def __init__(self, driver: int) -> None:
        self.driver = driver
        self.urgent = _Tasks(urgent=True)  # a task stays urgent
        self.usual = _Tasks(urgent=False)

    def __iter__(self) -> Iterator[Task]:
        return (
            task for tasks in (self.urgent, self.usual) for task in tasks if tasks.is_here(task)
        )

    def first(self) -> Task | None:
        return self.urgent.first() or self.usual.first()

    def tasks_for(self, task: Task) -> _Tasks:
        return self.urgent if task.urgent else self.usual


class TaskQueue:
    """See the module. All its tasks are QUEUED; ``size`` is their number.

    Usually one driver has tasks: then turns cost one test for other lines. If the current line is
    empty, without gaps either, there are no other lines.
    """

    def __init__(self) -> None:
        self._line = _DriverTasks(driver=0)  # whose turn it is
        self._others: dict[int, _DriverTasks] = {}  # by driver, next first; may have only gaps
        self.size = 0  # an attribute, because it is read often and `len` is slower
        self.is_shared = False  # several drivers had tasks since it was last empty

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Task]:
        """Iterate in the order in which tasks will be sent, if no more come."""
        lines = [iter(line) for line in self.lines()]
        while lines:
            firsts = [(line, next(line, None)) for line in lines]
            yield from (task for _, task in firsts if task is not None)
            lines = [line for line, task in firsts if task is not None]

    def lines(self) -> Iterator[_DriverTasks]:
        return chain((self._line,), self._others.values())

    def _line_of(self, task: Task) -> _DriverTasks:
        """Return the line of the task's driver; a new line gets the last turn."""
        line = self._line
        if line.driver == task.audience:
            return line
        found = self._others.get(task.audience)
        if found is None:
            found = self._others[task.audience] = _DriverTasks(task.audience)
            self.is_shared = self.size > 0
            if not (line.urgent or line.usual):
                self._skip()
        return found

    def _skip(self) -> None:
        """Go on to the next line that has a task."""
        while self._others and self._line.first() is None:
            self._line = self._others.pop(next(iter(self._others)))

    def append(self, task: Task) -> None:
        """Queue a task last of its driver's, or first if it is urgent."""
        if task.urgent:
            return self.appendleft(task)
        if not self.size:
            self.is_shared = False
        task.to(QUEUED)
        self._line_of(task).usual.append(task)
        self.size += 1
        return None

    def appendleft(self, task: Task) -> None:
        """Queue a task first of its driver's, but behind urgent ones if it isn't urgent."""
        task.to(QUEUED)
        self._line_of(task).tasks_for(task).appendleft(task)
        self.size += 1

    def hurry(self, tasks: Iterable[Task]) -> None:
        """Make queued tasks urgent: they come first of their drivers', in this order."""
        for task in reversed(list(tasks)):
            line = self._line_of(task)
            task.urgent = True
            line.usual.add_gap()
            line.urgent.appendleft(task)

    @property
    def has_urgent(self) -> bool:
        """True if there is a task that a running one waits for."""
        return any(line.urgent.first() is not None for line in self.lines())

    @property
    def first(self) -> Task:
        """The next task; the queue mustn't be empty. Read some ten times per task."""
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
        """The first urgent task, or the first task; the queue mustn't be empty."""
        return next((task for task in self if task.urgent), self.first)

    def popleft(self) -> Task:
        """Remove and return the next task, which the caller sets to SENT; end its driver's turn."""
        task = self.first  # skips gaps and empty lines
        line = self._line
        line.tasks_for(task).popleft()
        self.size -= 1
        if self._others:
            self._others[line.driver] = line
            self._line = self._others.pop(next(iter(self._others)))
            self._skip()
        return task

    def on_task_left(self, task: Task) -> None:
        self.size -= 1
        self._line_of(task).tasks_for(task).add_gap()
        self._skip()
