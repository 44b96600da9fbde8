"""Futures in a task: whoever waits for one, by whatever means, lends the task's slot meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from workbench.client.role import Missing
from workbench.worker.lending import SlotLending

ROUNDS = 10
"""Rounds of an event loop after which whoever was resumed has run, or waits again: `gather`,
`wait_for` and the like pass a result on from one to the next, a round each."""


class LendingFuture(Future[Any]):
    """A future of one of the objects that ``missing`` tells, or of a generator's ``item``."""

    def __init__(self, lending: SlotLending, missing: Missing, item: int = 0) -> None:
        super().__init__()
        self._lending = lending
        self._missing = missing
        self._item = item
        self._callbacks: list[_Callback] = []
        self._waiters = _Waiters(self)  # whom `concurrent.futures.wait` and `as_completed` add

    def result(self, timeout: float | None = None) -> Any:
        with self._waiting(timeout):
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        with self._waiting(timeout):
            return super().exception(timeout)

    def done(self) -> bool:
        if not self.is_over():
            self._lending.polled(self._missing())
        return self.is_over()

    def is_over(self) -> bool:
        """As `done`, for ourselves: nobody looks again and again."""
        return super().done()

    def _waiting(self, timeout: float | None) -> AbstractContextManager[None]:
        """Around asking for it: lends, if that will wait."""
        if self.is_over():
            return nullcontext()
        if timeout is not None and timeout <= 0:
            self._lending.polled(self._missing())
            return nullcontext()
        return self._lending.waiting(self._missing, 1, self._item)

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """Also what asyncio waits by."""
        if self.is_over():
            return super().add_done_callback(fn)
        try:
            loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        callback = _Callback(self._lending, self._missing, self._item, loop)
        self._callbacks.append(callback)
        callback.begin_soon()
        super().add_done_callback(fn)
        super().add_done_callback(callback.over)
        return None

    def cancel(self) -> bool:
        """The object comes all the same, but whoever awaited it goes on (asyncio says so)."""
        for callback in self._callbacks:
            callback.over(self, at_once=True)
        return super().cancel()


class _Callback:
    """Somebody will be called back: with a loop, from when it comes around until it has come
    around often enough; so it isn't lent while code in the loop runs before and after that."""

    def __init__(
        self,
        lending: SlotLending,
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

    def __init__(self, future: LendingFuture) -> None:
        self._future = future

    def append(self, waiter: Any) -> None:
        """With the locks of all futures that it waits for."""
        if type(waiter.event) is threading.Event:
            is_set = waiter.event.is_set()
            waiter.event = _LendingEvent(self._future._lending, waiter)
            if is_set:
                waiter.event.set()
        waiter.event.futures.append(self._future)
        super().append(waiter)


class _LendingEvent(threading.Event):
    def __init__(self, lending: SlotLending, waiter: Any) -> None:
        super().__init__()
        self.futures: list[LendingFuture] = []
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
        with self._lending.waiting(lambda: missing, enough):
            return super().wait(timeout)
