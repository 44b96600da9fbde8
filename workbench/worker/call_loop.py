"""An event loop on which an actor's calls run, so many at a time; whose thread it has is its
owner's business."""

from __future__ import annotations

import asyncio
import contextvars
import selectors
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from workbench.client.connection import Connection
from workbench.core import instructions as do
from workbench.system.spin_poll import SpinThenPoll, yield_with_gil


class SpinningSelector(selectors.EpollSelector):
    def __init__(self) -> None:
        super().__init__()
        self._poll: Any = SpinThenPoll(super().select, yield_with_gil())  # type: ignore[arg-type]

    def select(self, timeout: float | None = None) -> Any:
        return self._poll(timeout)


class CallLoop:
    """Calls that ``next_call`` gives, each as a task of the loop, at most ``most`` at a time.

    `run` and `serve` are for its thread; the rest may be called in any.
    """

    def __init__(
        self,
        most: int,
        next_call: Callable[[], do.Run | None],
        run_call: Callable[[do.Run], Coroutine[Any, Any, None]],
        spins: bool = False,
    ) -> None:
        self._most = most
        self._next_call = next_call
        self._run_call = run_call
        selector = SpinningSelector if spins else selectors.EpollSelector
        self._runner = asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector()))
        self.loop = self._runner.get_loop()
        self._calls: dict[int, asyncio.Task[None]] = {}  # those that run
        self._over = asyncio.Event()
        self._thread = 0  # the one that serves, as long as it does

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Before it serves. What that starts goes on then."""
        try:
            self._runner.run(coroutine, context=contextvars.copy_context())
        except BaseException:
            self._runner.close()
            raise

    def serve(self, connection: Connection | None = None) -> None:
        """Until `stop`. A connection is read by the loop: another thread would have to wake it."""
        with self._runner:
            try:
                self._runner.run(self._serve(connection), context=contextvars.copy_context())
            finally:
                self._thread = 0

    async def _serve(self, connection: Connection | None) -> None:
        self._thread = threading.get_ident()
        if connection is not None:
            self.loop.add_reader(connection, connection.readable)
        self._begin()  # what came before
        await self._over.wait()

    def stop(self) -> None:
        """Nobody will call any more."""
        if self._thread:
            self.loop.call_soon_threadsafe(self._over.set)

    @property
    def is_here(self) -> bool:
        """Whether the calling code runs in its thread."""
        return threading.get_ident() == self._thread

    @property
    def runs_one(self) -> bool:
        """Whether no more than one call has begun and isn't over."""
        return len(self._calls) <= 1

    def notify(self) -> None:
        """There is a call, perhaps."""
        if self.is_here:
            self._begin()
        elif self._thread:
            self.loop.call_soon_threadsafe(self._begin)

    def cancel(self, task: int) -> None:
        """Cancel a call, if it runs here."""
        call = self._calls.get(task)
        if call is not None:
            self.loop.call_soon_threadsafe(call.cancel)

    def _begin(self) -> None:
        while len(self._calls) < self._most:
            run = self._next_call()
            if run is None:
                return
            task = self._calls[run.task] = asyncio.create_task(self._run_call(run))
            task.add_done_callback(partial(self._ended, run.task))

    def _ended(self, id: int, call: asyncio.Task[None]) -> None:
        if self._calls.get(id) is call:  # else it is being tried again
            del self._calls[id]
        self._begin()
