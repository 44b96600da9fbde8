"""Futures in a task: waiting for one, by whatever means, lends the task's slot meanwhile."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

Missing = Callable[[], Iterable[int]]
"""Returns the awaited objects that aren't here; called in the thread that waits."""

ROUNDS = 10
"""Rounds of an event loop after which a resumed coroutine has run, or waits again: `gather`,
`wait_for` and the like pass on a result, one round each."""


def when_over(future: Future[T], fn: Callable[[Future[T]], object]) -> None:
    """Add a callback of our own, by which nobody waits: it lends no slot."""
    Future.add_done_callback(future, fn)


class Lending(Protocol):
    """Lends the slot of the task that runs here: `worker.lending`."""

    def waiting(
        self, missing: Missing, enough: int = 0, item: int = 0, timeout: float | None = None
    ) -> AbstractContextManager[None]:
        """Lend during a wait for ``enough`` of these (0: for all), of at most ``timeout`` s."""

    def begin(self, objects: Iterable[int], enough: int = 0, item: int = 0) -> int:
        """Begin to lend, until `end` gets the returned number."""

    def end(self, number: int) -> None:
        """Stop lending for that wait."""

    def polled(self, objects: Iterable[int]) -> None:
        """Note that somebody polled for these, and they aren't there."""


def waiting(
    lending: Lending | None,
    missing: Missing = tuple,
    enough: int = 0,
    item: int = 0,
    timeout: float | None = None,
) -> AbstractContextManager[None]:
    """Lend during code that waits in a task: for ``enough`` of these, or until the code ends if it
    waits for none. Meanwhile other tasks run in its place."""
    return nullcontext() if lending is None else lending.waiting(missing, enough, item, timeout)


def new_future(lending: Lending | None, missing: Missing, item: int = 0) -> Future[Any]:
    """Return a new future of one of these objects."""
    return Future() if lending is None else LendingFuture(lending, missing, item)


class LendingFuture(Future[T]):
    """A future of one of the ``missing`` objects, or of a generator's ``item``.

    Without ``lending``, as in drivers and actors, it is an ordinary future.
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
        """True if done; for our own use: doesn't count as polling."""
        return super().done()

    def _waits(self, lending: Lending, timeout: float | None) -> bool:
        if self.is_over():
            return False
        if timeout is not None and timeout <= 0:
            lending.polled(self._missing())
            return False
        return True

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Add a callback, and lend the slot until it runs; asyncio waits that way."""
        if self._lending is None or self.is_over():
            return super().add_done_callback(fn)
        callback = _Callback(self._lending, self._missing, self._item, _running_loop())
        self._callbacks.append(callback)
        callback.begin_soon()
        super().add_done_callback(fn)
        super().add_done_callback(callback.over)
        return None

    def cancel(self) -> bool:
        """Cancel the future, not the object; whoever awaited it goes on (so asyncio says)."""
        self.awaited_no_more()
        return super().cancel()

    def awaited_no_more(self) -> None:
        """Stop lending for its callbacks: nobody waits by them any more."""
        for callback in self._callbacks:
            callback.over(self, at_once=True)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running loop. Doesn't import asyncio: if it isn't imported, there is none."""
    with suppress(KeyError, RuntimeError):
        return sys.modules["asyncio"].get_running_loop()  # type: ignore[no-any-return]
    return None


@dataclass(eq=False)
class _Callback:
    """Lends while somebody waits for a callback: in an event loop, from its next round until
    `ROUNDS` rounds after the callback, so not while code in the loop runs before and after."""

    _lending: Lending
    _missing: Missing
    _item: int
    _loop: asyncio.AbstractEventLoop | None
    _number: int = 0
    _is_over: bool = False

    def begin_soon(self) -> None:
        if self._loop is None:
            self._begin()
        else:
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        if not self._is_over:
            self._number = self._lending.begin(self._missing(), 1, self._item)

    def over(self, future: Future[Any], at_once: bool = False) -> None:
        """Stop lending. In the thread that reads the socket, or the loop's."""
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
    """Waiters of one future. Each waits by an event of its own, which is replaced by a lending one
    when the waiter is first added to a future of ours."""

    def __init__(self, future: LendingFuture[Any], lending: Lending) -> None:
        super().__init__()
        self._future = weakref.ref(future)  # weak: a cycle would outlive its use
        self._lending = lending

    def append(self, waiter: Any) -> None:
        """Add a waiter; the caller has the locks of all futures that it waits for."""
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
