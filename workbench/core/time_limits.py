"""Component: stops tasks that exceed their timeout; kills the worker if that doesn't help."""

from __future__ import annotations

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.state import State
from workbench.core.task_manager import TaskManager

PATIENCE = 1.0
"""Seconds from telling a task to stop until its worker is killed."""


class TimeLimits:
    def __init__(self, state: State, tasks: TaskManager) -> None:
        self._state = state
        self._tasks = tasks
        self._ends = state.scheduler.limits

    @property
    def due(self) -> float | None:
        """Time at which `end_batch` must be called next; None if no task has a limit."""
        return min(self._ends.values(), default=None)

    def end_batch(self) -> None:
        """Tell tasks whose time is over to stop; kill the workers of those that didn't in time."""
        now = self._state.now
        for task in [task for task, end in self._ends.items() if end <= now]:
            worker = task.worker
            assert worker is not None
            if task.final_value is None:
                limit = f"{task.spec.timeout:g} s"
                text = f"`{task.submit.name}` ran longer than its timeout, {limit}."
                self._tasks.stop(task, why=ev.error_value("timeout", text))
                self._ends[task] = now + PATIENCE
            else:
                del self._ends[task]
                if worker.actor is None:  # an actor isn't killed: it would lose its state
                    self._state.out.append(do.Kill(worker.number))
