"""Completion queue: refs in the order in which they become ready. Each is looked at once.

`arrived` and `ended` run in whichever thread reads the socket, `add` in any; the rest in that of
one reader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice

from workbench.client.objects import KnownObjects
from workbench.engine.lending_future import Missing
from workbench.ref import ObjectRef

SOME = 100
"""Objects that are named when somebody waits for the next one."""


class CompletionQueue:
    """An `engine.following.Arrivals`.

    ``wait(done, timeout, missing, enough)`` reads until ``done()``, when so many of the missing
    are there; ``new_future`` is a role's.
    """

    def __init__(
        self,
        objects: KnownObjects,
        wait: Callable[[Callable[[], bool], float | None, Missing, int], bool],
        new_future: Callable[[Missing], Future[None]],
        check: Callable[[Iterable[ObjectRef]], None],
        flush: Callable[[], object],
    ) -> None:
        self._objects = objects
        self._wait = wait
        self._new_future = new_future
        self._check = check
        self._flush = flush
        self._pending: dict[int, ObjectRef] = {}
        self._came: deque[ObjectRef] = deque()
        self._waiting: list[Future[None]] = []
        self._sleeps = False  # its reader is in `next`

    def add(self, refs: Iterable[ObjectRef]) -> None:
        """Have these handed over, too, each once. Raises if one isn't of this session."""
        new = [ref for ref in refs if ref.id not in self._pending]
        self._check(new)
        self._pending.update((ref.id, ref) for ref in new)
        self._objects.announce([ref.id for ref in new], self)
        if self._sleeps:
            with suppress(IndexError):
                # Known already: the reader heard of it while it waits for others, and reads on.
                self._objects.ask_again(self._came[0].id)

    def take(self) -> ObjectRef | None:
        """The next ref that is ready; None if none is now."""
        return self._came.popleft() if self._came else None

    def next(self, timeout: float | None = None) -> ObjectRef | None:
        """The same, waited for; None after ``timeout`` seconds."""
        if not self._came:
            self._check(())
            self._sleeps = True
            try:
                self._wait(lambda: bool(self._came), timeout, self._next_ones, 1)
            finally:
                self._sleeps = False
        return self.take()

    def _next_ones(self) -> list[int]:
        """Some of those that are pending: not all of many, each time."""
        while True:
            try:
                return list(islice(self._pending, SOME))
            except RuntimeError:  # one came meanwhile
                continue

    def soon(self) -> Future[None] | None:
        """A future that is done when `take` has something; None if it has now."""
        future = self._new_future(self._next_ones)
        self._waiting.append(future)
        if self._came:
            self._notify()
            return None
        self._check(())  # after it is in the list: an end that comes now is told to it
        self._flush()
        return future

    def close(self) -> None:
        self._objects.withdraw(list(self._pending), self)
        self._pending.clear()
        self._came.clear()

    def arrived(self, id: int) -> None:
        ref = self._pending.pop(id, None)
        if ref is not None:
            self._came.append(ref)
            self._notify()

    def ended(self, reason: str) -> None:
        self._notify()

    def _notify(self) -> None:
        """Whoever waits without a thread shall look."""
        while True:
            try:
                future = self._waiting.pop()
            except IndexError:  # not asked before: the other thread may be here, too
                return
            if future.set_running_or_notify_cancel():
                future.set_result(None)
