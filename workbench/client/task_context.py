"""The tasks that run in this worker, and which of them the calling code belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from workbench.core import instructions as do


class TaskContext:
    """Most workers run one task at a time; an actor may run several, in threads or on a loop.

    Which one a piece of code belongs to is a context variable's business. A thread that a task
    started has none; it belongs to the one that runs, if there is but one.
    """

    def __init__(self) -> None:
        self._active: dict[int, do.Run] = {}
        self._mine: ContextVar[do.Run | None] = ContextVar("workbench_task", default=None)

    @contextmanager
    def task(self, run: do.Run) -> Iterator[None]:
        """While it runs."""
        token = self._mine.set(run)
        self._active[run.task] = run
        try:
            yield
        finally:
            del self._active[run.task]
            self._mine.reset(token)

    @property
    def latest(self) -> do.Run | None:
        """The one that began last, of those that run."""
        active = list(self._active.values())
        return active[-1] if active else None

    def is_active(self, task: int) -> bool:
        """Whether it runs."""
        return task in self._active

    @property
    def name(self) -> str:
        """The current one's name, or nothing."""
        run = self.current
        return "" if run is None else run.name

    @property
    def current(self) -> do.Run | None:
        """The task the caller is part of; None between tasks."""
        mine = self._mine.get()
        if mine is not None and mine.task in self._active:
            return mine
        active = list(self._active.values())
        return active[0] if len(active) == 1 else None
