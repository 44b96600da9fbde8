"""Futures in a task: whoever waits for one, by whatever means, lends the task's slot meanwhile."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

Missing = Callable[[], Iterable[int]]
"""The objects that somebody waits for and that aren't here; asked in the thread that waits."""

ROUNDS = 10
"""Rounds of an event loop after which whoever was resumed has run, or waits again: `gather`,
`wait_for` and the like pass a result on from one to the next, a round each."""


def when_over(future: Future[T], fn: Callable[[Future[T]], object]) -> None:
    """`add_done_callback`, for ourselves: nobody waits by it."""
    Future.add_done_callback(future, fn)


class Lending(Protocol):
    """What lends the slot of the task that runs here: `worker.lending`."""

    def waiting(
        self, missing: Missing, enough: int = 0, item: int = 0, timeout: float | None = None
    ) -> AbstractContextManager[None]:
        """Around a wait for so many of these; 0: for all. It takes ``timeout`` seconds at most."""

    def begin(self, objects: Iterable[int], enough: int = 0, item: int = 0) -> int:
        """The same until `end` is told this number."""

    def end(self, number: int) -> None:
        """That wait is over."""

    def polled(self, objects: Iterable[int]) -> None:
        """Somebody looked for these, and they aren't there."""


def waiting(
    lending: Lending | None, missing: Missing = tuple, enough: int = 0, item: int = 0
) -> AbstractContextManager[None]:
    """Around code that waits, in a task if something lends: for so many of these, or until it ends,
    if it waits for none. Meanwhile others run in its place."""
    return nullcontext() if lending is None else lending.waiting(missing, enough, item)


def new_future(lending: Lending | None, missing: Missing, item: int = 0) -> Future[Any]:
    """A new one, for one of these objects."""
    return Future() if lending is None else LendingFuture(lending, missing, item)


class LendingFuture(Future[T]):
    """A future of one of the objects that ``missing`` tells, or of a generator's ``item``.

    Without ``lending``, as in drivers and actors, it is a future as any other.
    """

    def __init__(self, lending: Lending | None, missing: Missing, item: int = 0) -> None:
        super().__init__()
        self._lending = lending
        self._missing = missing
        self._item = item
        self._callbacks: list[_Callback] = []
        if lending is not None:  # `concurrent.futures.wait` and `as_completed` add to it
            self._waiters = _Waiters(self, lending)

    def result(self, timeout: float | None = None) -> T:
        if self._lending is not None and self._waits(self._lending, timeout):
            with self._lending.waiting(self._missing, 1, self._item, timeout):
                return super().result(timeout)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if self._lending is not None and self._waits(self._lending, timeout):
            with self._lending.waiting(self._missing, 1, self._item, timeout):
                return super().exception(timeout)
        return super().exception(timeout)

    def done(self) -> bool:
        if self._lending is not None and not self.is_over():
            self._lending.polled(self._missing())
        return self.is_over()

    def is_over(self) -> bool:
        """As `done`, for ourselves: nobody looks again and again."""
        return super().done()

    def _waits(self, lending: Lending, timeout: float | None) -> bool:
        """Whether whoever asks for it now will wait."""
        if self.is_over():
            return False
        if timeout is not None and timeout <= 0:
            lending.polled(self._missing())
            return False
        return True

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Also what asyncio waits by."""
        if self._lending is None or self.is_over():
            return super().add_done_callback(fn)
        callback = _Callback(self._lending, self._missing, self._item, _running_loop())
        self._callbacks.append(callback)
        callback.begin_soon()
        super().add_done_callback(fn)
        super().add_done_callback(callback.over)
        return None

    def cancel(self) -> bool:
        """The object comes all the same, but whoever awaited it goes on (asyncio says so)."""
        self.awaited_no_more()
        return super().cancel()

    def awaited_no_more(self) -> None:
        """Who has added callbacks doesn't wait by them any more."""
        for callback in self._callbacks:
            callback.over(self, at_once=True)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """asyncio isn't imported for it: without it there is none."""
    with suppress(KeyError, RuntimeError):
        return sys.modules["asyncio"].get_running_loop()  # type: ignore[no-any-return]
    return None


class _Callback:
    """Somebody will be called back: with a loop, from when it comes around until it has come
    around often enough; so it isn't lent while code in the loop runs before and after that."""

    def __init__(
        self,
        lending: Lending,
        missing: Missing,
        item: int,
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self._lending = lending
        self._missing = missing
        self._item = item
        self._loop = loop
        self._number = 0
        self._is_over = False

    def begin_soon(self) -> None:
        if self._loop is None:
            self._begin()
        else:
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        if not self._is_over:
            self._number = self._lending.begin(self._missing(), 1, self._item)

    def over(self, future: Future[Any], at_once: bool = False) -> None:
        """Whichever thread reads the socket, or the loop's."""
        if self._is_over:
            return
        self._is_over = True
        if self._loop is not None and not at_once:
            try:
                self._loop.call_soon_threadsafe(self._come_around, ROUNDS)
            except RuntimeError:  # it is closed
                pass
            else:
                return
        self._lending.end(self._number)

    def _come_around(self, rounds: int) -> None:
        if rounds and self._loop is not None:
            self._loop.call_soon(self._come_around, rounds - 1)
        else:
            self._lending.end(self._number)


class _Waiters(list[Any]):
    """Those of one future. Each waits by an event of its own, which lends from the first of ours
    that it is added to."""

    def __init__(self, future: LendingFuture[Any], lending: Lending) -> None:
        super().__init__()
        self._future = weakref.ref(future)  # else it would be in a circle, and outlive its use
        self._lending = lending

    def append(self, waiter: Any) -> None:
        """With the locks of all futures that it waits for."""
        if type(waiter.event) is threading.Event:
            is_set = waiter.event.is_set()
            waiter.event = _LendingEvent(self._lending, waiter)
            if is_set:
                waiter.event.set()
        waiter.event.futures.append(self._future())
        super().append(waiter)


class _LendingEvent(threading.Event):
    def __init__(self, lending: Lending, waiter: Any) -> None:
        super().__init__()
        self.futures: list[LendingFuture[Any]] = []
        self._lending = lending
        self._waits_for_all = hasattr(waiter, "num_pending_calls")

    def wait(self, timeout: float | None = None) -> bool:
        if self.is_set():
            return True
        missing = [id for each in self.futures if not each.is_over() for id in each._missing()]
        if timeout is not None and timeout <= 0:
            self._lending.polled(missing)
            return self.is_set()
        enough = len(missing) if self._waits_for_all else 1
        with self._lending.waiting(lambda: missing, enough, timeout=timeout):
            return super().wait(timeout)
