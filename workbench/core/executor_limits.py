"""Executors that may have so many tasks running and no more: which of their tasks may be queued."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from workbench.core.tasks import WAITING, Task


@dataclass(slots=True, eq=False)
class ExecutorTasks:
    """``active`` ones are queued or sent, the others wait."""

    most: int
    active: int = 0
    waiting: deque[Task] = field(default_factory=deque)  # in order; some may be over


class ExecutorLimits:
    """Those that have tasks whose dependencies are ready, by id."""

    def __init__(self) -> None:
        self.executors: dict[int, ExecutorTasks] = {}

    def ready(self, task: Task) -> Iterator[Task]:
        """Its dependencies are there; yields those to queue now."""
        spec = task.spec
        tasks = self.executors.setdefault(spec.executor, ExecutorTasks(spec.max_workers))
        tasks.waiting.append(task)
        yield from self._next(tasks)

    def over(self, task: Task) -> Iterator[Task]:
        """One that was queued or sent is over; yields those to queue now."""
        id = task.spec.executor
        tasks = self.executors[id]
        tasks.active -= 1
        task.is_counted = False
        yield from self._next(tasks)
        if not tasks.active:  # and so nobody waits
            del self.executors[id]

    def _next(self, tasks: ExecutorTasks) -> Iterator[Task]:
        while tasks.waiting and tasks.active < tasks.most:
            task = tasks.waiting.popleft()
            if task.state is WAITING:
                tasks.active += 1
                task.is_counted = True
                yield task
