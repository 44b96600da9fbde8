"""An event loop on which an actor's calls run, with limited concurrency; its owner chooses the
thread."""

from __future__ import annotations

import asyncio
import contextvars
import os
import select
import selectors
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from workbench.client.connection import Connection
from workbench.core import instructions as do
from workbench.system.spin_poll import SpinThenPoll, yield_with_gil

IN_TURN = 64
"""Most calls that run one after the other before the rest of the loop has its turn."""


class SpinningSelector(selectors.EpollSelector):
    """Polls the descriptors repeatedly for a moment before it blocks.

    While the loop has callbacks to run, it skips the poll after one that found something: the
    callbacks of that come first.
    """

    def __init__(self) -> None:
        super().__init__()
        self._descriptors = select.epoll.fromfd(os.dup(self.fileno()))
        self._poll = SpinThenPoll(self._descriptors.poll, yield_with_gil())
        self._has_found = False

    def close(self) -> None:
        self._descriptors.close()
        super().close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        wait = None if timeout is None else max(timeout, 0.0)
        if self._has_found and wait == 0:
            self._has_found = False
            return []
        found, keys = self._poll(wait), self.get_map()
        self._has_found = bool(found)
        known = [(keys[fd], _events(mask)) for fd, mask in found if fd in keys]
        return [(key, events & key.events) for key, events in known]


def _events(mask: int) -> int:
    """Convert epoll's mask: an error or hang-up counts as readable and writable."""
    reads = selectors.EVENT_READ if mask & ~select.EPOLLOUT else 0
    return reads | (selectors.EVENT_WRITE if mask & ~select.EPOLLIN else 0)


@dataclass(eq=False)
class CallLoop:
    """Runs calls that ``_next_call`` returns, at most ``_most`` at a time.

    Each runs in a task of the loop. Calls that don't wait run one after the other in one task,
    until one changes the context, which the next would inherit. `run` and `serve` are for its
    thread; the rest may be called in any.
    """

    _most: int
    _next_call: Callable[[], do.Run | None]
    _run_call: Callable[[do.Run], Coroutine[Any, Any, None]]
    spins: bool = False

    def __post_init__(self) -> None:
        selector = SpinningSelector if self.spins else selectors.EpollSelector
        self._runner = asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector()))
        self.loop = self._runner.get_loop()
        self._calls: dict[int, asyncio.Task[None]] = {}  # running calls, with their task
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_due = False  # `_begin` is scheduled, behind a task that takes calls
        self._begins = 0  # how often it has run
        self._wait = False  # the last call waited, so all begin at once
        self._over = asyncio.Event()
        self._thread = 0  # ident of the serving thread, else 0

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine before `serve`. Tasks that it starts go on then."""
        try:
            self._runner.run(coroutine, context=contextvars.copy_context())
        except BaseException:
            self._runner.close()
            raise

    def serve(self, connection: Connection | None = None) -> None:
        """Run calls until `stop`. The loop itself reads a connection: no thread has to wake it."""
        with self._runner:
            try:
                self._runner.run(self._serve(connection), context=contextvars.copy_context())
            finally:
                self._thread = 0

    async def _serve(self, connection: Connection | None) -> None:
        self._thread = threading.get_ident()
        if connection is not None:
            self.loop.add_reader(connection, connection.readable)
        self._begin()  # calls that came before
        await self._over.wait()

    def stop(self) -> None:
        """End `serve`: no more calls come."""
        if self._thread:
            self.loop.call_soon_threadsafe(self._over.set)

    @property
    def is_here(self) -> bool:
        return threading.get_ident() == self._thread

    @property
    def runs_one(self) -> bool:
        return len(self._calls) <= 1

    def notify(self) -> None:
        """Look for a call: there may be one."""
        if self._is_due:
            return
        if self.is_here:
            self._begin()
        elif self._thread:
            self._is_due = True
            self.loop.call_soon_threadsafe(self._begin)

    def cancel(self, task: int) -> None:
        if task in self._calls:
            self.loop.call_soon_threadsafe(self._cancel, task)

    def _cancel(self, task: int) -> None:
        call = self._calls.get(task)
        if call is not None:  # else it is over, and its task may run another call
            call.cancel()

    def _begin(self) -> None:
        self._is_due = False  # first: a call that comes from here on notifies us
        self._begins += 1
        while len(self._tasks) < self._most and (run := self._next_call()) is not None:
            task = self.loop.create_task(self._run_calls(run))
            self._tasks.add(task)
            self._calls[run.task] = task
            self.loop.call_soon(self._begin)  # behind the task: if its call waits, the others go on
            if not self._wait:
                self._is_due = True
                return

    async def _run_calls(self, first: do.Run) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            await self._follow(first, task)
        finally:
            self._tasks.discard(task)
            if not self._is_due:
                self._begin()

    async def _follow(self, first: do.Run, task: asyncio.Task[None]) -> None:
        """Run a call, and those that may follow it in this task."""
        context, begins, left = contextvars.copy_context(), self._begins, IN_TURN
        run: do.Run | None = first
        while run is not None:
            self._calls[run.task] = task
            try:
                await self._run_call(run)
            finally:
                if self._calls.get(run.task) is task:  # else it is being tried again
                    del self._calls[run.task]
            self._wait = self._begins != begins
            left -= 1
            if not left or self._wait or task.cancelling():
                return
            if contextvars.copy_context() != context:
                return
            run = self._next_call()
