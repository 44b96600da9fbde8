"""What one reader asks for again and again: refs that become ready, what changes in a session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from workbench.core.snapshot import Change
from workbench.ref import ObjectRef


class Arrivals(ABC):
    """Refs in the order in which they become ready, for one reader. Close it when you stop.

    Each ref is looked at once, however many there are. `arrived` and `ended` run in whichever
    thread hears of it, `add` in any; the rest in that of the reader. ``check`` raises if one of
    these is another session's, or this one is over.
    """

    def __init__(self, check: Callable[[Sequence[ObjectRef]], object]) -> None:
        self._check = check
        self._pending: dict[int, ObjectRef] = {}
        self._came: deque[ObjectRef] = deque()
        self._waiting: list[Future[None]] = []

    def add(self, refs: Iterable[ObjectRef]) -> None:
        """Wait for these too. One that it waits for already makes no difference."""
        new = [ref for ref in refs if ref.id not in self._pending]
        self._check(new)
        self._pending.update((ref.id, ref) for ref in new)
        self._announce(new)

    def take(self) -> ObjectRef | None:
        """One that is ready; None if there is none now."""
        return self._came.popleft() if self._came else None

    def next(self, timeout: float | None = None) -> ObjectRef | None:
        """Wait for one that is ready; None if time is up."""
        if not self._came:
            self._check(())
            self._wait(timeout)
        return self.take()

    def soon(self) -> Future[None] | None:
        """A future of there being one; None if there is one now."""
        future = self._new_future()
        self._waiting.append(future)
        if self._came:
            self.ended()
            return None
        self._check(())  # after it is in the list: an end that comes now is told to it
        return future

    def close(self) -> None:
        """Take no more; what hasn't come isn't waited for."""
        self._pending.clear()
        self._came.clear()

    def arrived(self, id: int) -> None:
        """It is ready."""
        ref = self._pending.pop(id, None)
        if ref is not None:
            self._came.append(ref)
            self.ended()

    def ended(self, reason: str = "") -> None:
        """Whoever waits without a thread shall look."""
        while True:
            try:
                future = self._waiting.pop()
            except IndexError:  # not asked before: the other thread may be here, too
                return
            if future.set_running_or_notify_cancel():
                future.set_result(None)

    # -- an engine's own ------------------------------------------------------------------------

    @abstractmethod
    def _announce(self, new: Sequence[ObjectRef]) -> None:
        """Have `arrived` called with the id of each, now or when it is ready."""

    @abstractmethod
    def _wait(self, timeout: float | None) -> object:
        """Wait until something has come, or time is up."""

    def _new_future(self) -> Future[Any]:
        return Future()


class Changes(Protocol):
    """What changes in a session, for one thread. Close it when you stop."""

    def next(self, timeout: float | None = None) -> Change | None:
        """Wait until something has changed since the last one, the first time: everything.

        None if time is up, or if the session is over. What changes while nobody asks adds up to
        one change, so whoever asks sets the pace.
        """

    def interrupt(self) -> None:
        """From any thread: have `next` return, now or when it is called, with None."""

    def hurry(self) -> None:
        """From any thread: have `next` look at once, even right after another look."""

    @property
    def is_over(self) -> bool:
        """Whether there will be no more."""

    def close(self) -> None:
        """Follow the session no longer."""
