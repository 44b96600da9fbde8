"""Streams for one reader: refs that become ready, changes in a session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from workbench.core.snapshot import Change
from workbench.ref import ObjectRef


@dataclass(eq=False)
class Arrivals(ABC):
    """Refs in the order in which they become ready, for one reader. Close it when you stop.

    Each ref is examined once, however many there are. `arrived` and `wake_waiters` run in the
    thread that learns of it, `add` in any; other methods in the reader's. ``_check`` raises if a
    ref is another session's, or this session is over.
    """

    _check: Callable[[Sequence[ObjectRef]], object]
    _pending: dict[int, ObjectRef] = field(default_factory=dict, init=False)
    _ready: deque[ObjectRef] = field(default_factory=deque, init=False)
    _waiting: list[Future[None]] = field(default_factory=list, init=False)

    def add(self, refs: Iterable[ObjectRef]) -> None:
        """Wait for these refs too. A ref that is awaited already makes no difference."""
        new = [ref for ref in refs if ref.id not in self._pending]
        self._check(new)
        self._pending.update((ref.id, ref) for ref in new)
        self._announce(new)

    def take(self) -> ObjectRef | None:
        """Return a ref that is ready; None if there is none now."""
        return self._ready.popleft() if self._ready else None

    def next(self, timeout: float | None = None) -> ObjectRef | None:
        """Wait for a ref that is ready; None if time is up."""
        if not self._ready:
            self._check(())
            self._wait(timeout)
        return self.take()

    def future_of_next(self) -> Future[None] | None:
        """Return a future that is done once a ref is ready; None if one is ready now."""
        future = self._new_future()
        self._waiting.append(future)
        if self._ready:
            self.wake_waiters()
            return None
        self._check(())  # after the append: a later end resolves the future
        return future

    def close(self) -> None:
        """Stop; refs that aren't ready are no longer awaited."""
        self._pending.clear()
        self._ready.clear()

    def arrived(self, id: int) -> None:
        ref = self._pending.pop(id, None)
        if ref is not None:
            self._ready.append(ref)
            self.wake_waiters()

    def wake_waiters(self, reason: str = "") -> None:
        """Resolve the futures of `future_of_next`, so that their owners look."""
        while True:
            try:
                future = self._waiting.pop()
            except IndexError:  # no check before: another thread may pop at the same time
                return
            if future.set_running_or_notify_cancel():
                future.set_result(None)

    # -- an engine's own ------------------------------------------------------------------------

    @abstractmethod
    def _announce(self, new: Sequence[ObjectRef]) -> None:
        """Have `arrived` called with the id of each, now or when it is ready."""

    @abstractmethod
    def _wait(self, timeout: float | None) -> object:
        """Wait until something has arrived, or time is up."""

    def _new_future(self) -> Future[Any]:
        return Future()


class Changes(Protocol):
    """Stream of changes in a session, for one thread. Close it when you stop."""

    def next(self, timeout: float | None = None) -> Change | None:
        """Wait for a change, and return all since the last call; the first time, everything.

        None if time is up, or if the session is over. Changes between two calls are merged into
        one, so the reader sets the pace.
        """

    def interrupt(self) -> None:
        """Make `next` return None, now or on its next call. Any thread."""

    def hurry(self) -> None:
        """Make `next` look at once, even right after another look. Any thread."""

    @property
    def is_over(self) -> bool:
        """True if there will be no more changes."""

    def close(self) -> None:
        """Stop following the session."""
