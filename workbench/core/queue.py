"""Tasks in the order in which they shall begin. One in the middle can leave at no cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.core.scheduler import Task


class Queue:
    """See the module. ``task.queued`` tells who is in it, ``size`` how many that are.

    Whoever leaves early keeps its place, as a gap, until it is first, or half of all are gaps: a
    dict that keeps an order would need a hundred bytes more a task. So it must never come back.
    """

    def __init__(self) -> None:
        self._tasks: deque[Task] = deque()
        self._gaps = 0
        self.size = 0  # an attribute: it is asked often, and a call would cost most of it

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Task]:
        return (task for task in self._tasks if task.queued)

    def append(self, task: Task) -> None:
        """It is the last."""
        task.queued = True
        self._tasks.append(task)
        self.size += 1

    def appendleft(self, task: Task) -> None:
        """It is the first."""
        task.queued = True
        self._tasks.appendleft(task)
        self.size += 1

    @property
    def first(self) -> Task:
        """Who is next; the queue isn't empty."""
        while not self._tasks[0].queued:
            self._tasks.popleft()
            self._gaps -= 1
        return self._tasks[0]

    def popleft(self) -> Task:
        """Take out the first."""
        task = self.first
        self._tasks.popleft()
        self.size -= 1
        task.queued = False
        return task

    def remove(self, task: Task) -> None:
        """It will never begin."""
        task.queued = False
        self.size -= 1
        self._gaps += 1
        if self._gaps > len(self._tasks) // 2:
            self._tasks = deque(task for task in self._tasks if task.queued)
            self._gaps = 0
