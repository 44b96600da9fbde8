"""The tasks that run in this process, and which of them the calling code belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from threading import Thread, current_thread
from typing import Generic, Protocol, TypeVar

OURS = "workbench-"
"""The beginning of the names of our own threads, which show nothing."""


MANY = 1000
"""Threads of one process; a task may run for days, and start one for each request."""


class NamedTask(Protocol):
    """What is known of a running task here: its number, and what people call it."""

    @property
    def task(self) -> int: ...
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=NamedTask)


class TaskContext(Generic[T]):
    """Most workers run one task at a time; an actor may run several, in threads or on a loop.

    A context variable tells which one a piece of code belongs to. A thread has none: it belongs to
    the task that started it, also when that is over. A thread of an executor, which works for
    whoever asks, belongs to the task that runs, if there is but one.
    """

    def __init__(self) -> None:
        self._active: dict[int, T] = {}
        self._lingering: dict[int, T] = {}  # tasks that are over, and threads of theirs live
        self._threads: dict[Thread, T] = {}  # by whom started
        self._most = MANY  # threads, before those that have ended are looked for
        self._mine: ContextVar[T | None] = ContextVar("workbench_task", default=None)

    @contextmanager
    def task(self, run: T) -> Iterator[None]:
        token = self.begin(run)
        try:
            yield
        finally:
            self.end(run, token)

    def begin(self, run: T) -> Token[T | None]:
        """For `end`, in the same thread or task of a loop."""
        token = self._mine.set(run)
        self._active[run.task] = run
        return token

    def end(self, run: T, token: Token[T | None]) -> None:
        del self._active[run.task]
        self._mine.reset(token)

    @property
    def latest(self) -> T | None:
        """The one that began last, of those that run."""
        active = list(self._active.values())
        return active[-1] if active else None

    def active(self) -> list[int]:
        """Those that run."""
        return list(self._active)

    def runs(self, task: int) -> bool:
        """True if it isn't over."""
        return task in self._active

    def is_active(self, task: int) -> bool:
        """True if code of it runs: the task itself, or threads that it left."""
        return task in self._active or task in self._lingering

    def starts(self, thread: Thread) -> None:
        """The calling code is about to start a thread."""
        run = self.current
        if run is not None and not is_ours(thread):
            self._threads[thread] = run
            if len(self._threads) > self._most:
                self._forget_ended()
                self._most = 2 * len(self._threads) + MANY

    def leaves_threads(self, run: T) -> bool:
        """True if threads that this task started go on now that it ends."""
        if not (self._threads or self._lingering):
            return False
        self._forget_ended()
        alive = {owner.task for owner in self._threads.copy().values()}
        self._lingering = {task: it for task, it in self._lingering.items() if task in alive}
        if run.task in alive:
            self._lingering[run.task] = run
        return run.task in alive

    def _forget_ended(self) -> None:
        # A copy, made in one step: others start threads meanwhile. One without a number hasn't
        # begun.
        for thread in self._threads.copy():
            if thread.ident is not None and not thread.is_alive():
                self._threads.pop(thread, None)

    @property
    def name(self) -> str:
        run = self.current
        return "" if run is None else run.name

    @property
    def current(self) -> T | None:
        """The task the caller is part of; None between tasks."""
        mine = self._mine.get()
        if mine is not None and self.is_active(mine.task):
            return mine
        active = list(self._active.values())
        if self._threads:
            thread = current_thread()
            owner = self._threads.get(thread)
            if owner is not None and self.is_active(owner.task):
                return active[0] if _is_shared(thread) and len(active) == 1 else owner
        return active[0] if len(active) == 1 else None


def is_ours(thread: Thread) -> bool:
    """True if it is one of Workbench's own."""
    return thread.name.startswith(OURS)


def _is_shared(thread: Thread) -> bool:
    """True if it is an executor's, or a pool's."""
    target = getattr(thread, "_target", None)  # gone when it has ended
    return getattr(target, "__module__", "") in _EXECUTORS


_EXECUTORS = ("concurrent.futures.thread", "multiprocessing.pool")
