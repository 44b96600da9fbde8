"""A first-in, first-out queue of tasks. One in the middle can be removed at no cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from workbench.core.tasks import QUEUED, Task


class TaskQueue:
    """See the module. All its tasks are QUEUED; ``size`` is how many there are.

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
        return (task for task in self._tasks if task.state is QUEUED)

    def append(self, task: Task) -> None:
        task.to(QUEUED)
        self._tasks.append(task)
        self.size += 1

    def appendleft(self, task: Task) -> None:
        task.to(QUEUED)
        self._tasks.appendleft(task)
        self.size += 1

    @property
    def first(self) -> Task:
        """Who is next; the queue isn't empty."""
        while self._tasks[0].state is not QUEUED:
            self._tasks.popleft()
            self._gaps -= 1
        return self._tasks[0]

    def popleft(self) -> Task:
        """Take out the first, which is to be SENT."""
        task = self.first
        self._tasks.popleft()
        self.size -= 1
        return task

    def left(self) -> None:
        self.size -= 1
        self._gaps += 1
        if self._gaps > len(self._tasks) // 2:
            self._tasks = deque(task for task in self._tasks if task.state is QUEUED)
            self._gaps = 0
