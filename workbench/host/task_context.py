"""The tasks that run in this process, and which of them the calling code belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from threading import Thread, current_thread
from typing import Generic, Protocol, TypeVar

OURS = "workbench-"
"""Prefix of the names of our own threads, which show nothing."""


MANY = 1000
"""Threads of a process between clean-ups: a task may run for days and start one per request."""


class NamedTask(Protocol):
    """What this room knows of a running task: its number, and its name for people."""

    @property
    def task(self) -> int: ...
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=NamedTask)


class TaskContext(Generic[T]):
    """Running tasks. Most workers run one at a time; an actor several, in threads or on a loop.

    A context variable says which task a piece of code belongs to. A thread without it belongs to
    the task that started it, even after that has ended. A thread of an executor, which works for
    any task, belongs to the running task, if there is only one.
    """

    def __init__(self) -> None:
        self._active: dict[int, T] = {}
        self._lingering: dict[int, T] = {}  # ended tasks whose threads are alive
        self._threads: dict[Thread, T] = {}  # with the task that started each
        self._most = MANY  # number of threads at which ended ones are removed
        self._mine: ContextVar[T | None] = ContextVar("workbench_task", default=None)

    @contextmanager
    def task(self, run: T) -> Iterator[None]:
        token = self.begin(run)
        try:
            yield
        finally:
            self.end(run, token)

    def begin(self, run: T) -> Token[T | None]:
        """Begin a task; return the token for `end` in the same thread or asyncio task."""
        token = self._mine.set(run)
        self._active[run.task] = run
        return token

    def end(self, run: T, token: Token[T | None]) -> None:
        del self._active[run.task]
        self._mine.reset(token)

    @property
    def latest(self) -> T | None:
        """The running task that began last."""
        active = list(self._active.values())
        return active[-1] if active else None

    def active(self) -> list[int]:
        return list(self._active)

    def runs(self, task: int) -> bool:
        return task in self._active

    def find(self, task: int) -> T | None:
        """Return the task if code of it runs: itself, or threads that it left."""
        return self._active.get(task) or self._lingering.get(task)

    def is_active(self, task: int) -> bool:
        """True if code of the task runs."""
        return self.find(task) is not None

    def starts(self, thread: Thread) -> None:
        """Note that the calling code is about to start a thread."""
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
        # A copy, made in one step: others start threads meanwhile. A thread without an ident
        # hasn't begun.
        for thread in self._threads.copy():
            if thread.ident is not None and not thread.is_alive():
                self._threads.pop(thread, None)

    @property
    def name(self) -> str:
        run = self.current
        return "" if run is None else run.name

    @property
    def current(self) -> T | None:
        """The task that the caller is part of; None between tasks."""
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
    return thread.name.startswith(OURS)


def _is_shared(thread: Thread) -> bool:
    """True if the thread belongs to an executor or a pool."""
    target = getattr(thread, "_target", None)  # gone when it has ended
    return getattr(target, "__module__", "") in _EXECUTORS


_EXECUTORS = ("concurrent.futures.thread", "multiprocessing.pool")
