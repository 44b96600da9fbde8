"""Executors that limit how many of their tasks run: which tasks may be queued."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from workbench.core.tasks import Task


@dataclass(slots=True, eq=False)
class ExecutorTasks:
    """Ready tasks of one executor. ``active``: how many are queued or sent; the others wait."""

    most: int
    active: int = 0
    waiting: dict[Task, None] = field(default_factory=dict)  # in order


class ExecutorLimits:
    """Executors, by id, that have tasks whose dependencies are ready."""

    def __init__(self) -> None:
        self.executors: dict[int, ExecutorTasks] = {}

    def add_ready(self, task: Task) -> Iterator[Task]:
        """Take in a task whose dependencies are ready; yield the tasks to queue now."""
        spec = task.spec
        tasks = self.executors.setdefault(spec.executor, ExecutorTasks(spec.max_workers))
        tasks.waiting[task] = None
        yield from self._next(tasks)

    def remove(self, task: Task) -> Iterator[Task]:
        """Take out a task that is over, whatever its state was; yield the tasks to queue now."""
        id = task.spec.executor
        tasks = self.executors.get(id)
        if tasks is None:  # it waited for its dependencies
            return
        tasks.waiting.pop(task, None)
        tasks.active -= task.is_counted
        task.is_counted = False
        yield from self._next(tasks)
        if not tasks.active:  # then none waits either
            del self.executors[id]

    def _next(self, tasks: ExecutorTasks) -> Iterator[Task]:
        while tasks.waiting and tasks.active < tasks.most:
            task = next(iter(tasks.waiting))
            del tasks.waiting[task]
            tasks.active += 1
            task.is_counted = True
            yield task
