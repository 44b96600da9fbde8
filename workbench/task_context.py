"""The tasks that run in this process, and which of them the calling code belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, Protocol, TypeVar


class NamedTask(Protocol):
    """What is known of a running task here: its number, and what people call it."""

    @property
    def task(self) -> int: ...
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=NamedTask)


class TaskContext(Generic[T]):
    """Most workers run one task at a time; an actor may run several, in threads or on a loop.

    A context variable tells which one a piece of code belongs to. A thread that a task started
    has none; it belongs to the one that runs, if there is but one.
    """

    def __init__(self) -> None:
        self._active: dict[int, T] = {}
        self._mine: ContextVar[T | None] = ContextVar("workbench_task", default=None)

    @contextmanager
    def task(self, run: T) -> Iterator[None]:
        token = self._mine.set(run)
        self._active[run.task] = run
        try:
            yield
        finally:
            del self._active[run.task]
            self._mine.reset(token)

    @property
    def latest(self) -> T | None:
        """The one that began last, of those that run."""
        active = list(self._active.values())
        return active[-1] if active else None

    def is_active(self, task: int) -> bool:
        return task in self._active

    @property
    def name(self) -> str:
        run = self.current
        return "" if run is None else run.name

    @property
    def current(self) -> T | None:
        """The task the caller is part of; None between tasks."""
        mine = self._mine.get()
        if mine is not None and mine.task in self._active:
            return mine
        active = list(self._active.values())
        return active[0] if len(active) == 1 else None
