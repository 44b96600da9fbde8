"""An event loop on which an actor's calls run, so many at a time; whose thread it has is its
owner's business."""

from __future__ import annotations

import asyncio
import contextvars
import os
import select
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from workbench.client.connection import Connection
from workbench.core import instructions as do
from workbench.system.spin_poll import SpinThenPoll, yield_with_gil

IN_TURN = 64
"""Calls that follow each other before all else on the loop has its turn."""


class SpinningSelector(selectors.EpollSelector):
    """It looks at the descriptors again and again for a moment, and asks only then what they are.

    Of a loop that has something to run, every second look is left out: behind one that found
    something comes what is to be done about that.
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
    """What an error or an end counts as, too: something to read, and room to write."""
    reads = selectors.EVENT_READ if mask & ~select.EPOLLOUT else 0
    return reads | (selectors.EVENT_WRITE if mask & ~select.EPOLLIN else 0)


class CallLoop:
    """Calls that ``next_call`` gives, at most ``most`` at a time.

    Each runs in a task of the loop; those that wait for nothing follow each other in one, as long
    as none has changed the context that it would leave to the next. `run` and `serve` are for its
    thread; the rest may be called in any.
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
        self._calls: dict[int, asyncio.Task[None]] = {}  # those that run, and in which task
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_due = False  # `_begin` comes, behind a task that takes calls
        self._begins = 0  # how often it has come
        self._wait = False  # the calls, as the last one did: then all begin at once
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
        """True if the calling code runs in its thread."""
        return threading.get_ident() == self._thread

    @property
    def runs_one(self) -> bool:
        """True if no more than one call has begun and isn't over."""
        return len(self._calls) <= 1

    def notify(self) -> None:
        """There is a call, perhaps."""
        if self._is_due:
            return
        if self.is_here:
            self._begin()
        elif self._thread:
            self._is_due = True
            self.loop.call_soon_threadsafe(self._begin)

    def cancel(self, task: int) -> None:
        """Cancel a call, if it runs here."""
        if task in self._calls:
            self.loop.call_soon_threadsafe(self._cancel, task)

    def _cancel(self, task: int) -> None:
        call = self._calls.get(task)
        if call is not None:  # else it is over, and another may run in its task
            call.cancel()

    def _begin(self) -> None:
        self._is_due = False  # first: of a call that comes from here on we are told
        self._begins += 1
        while len(self._tasks) < self._most and (run := self._next_call()) is not None:
            task = self.loop.create_task(self._run_calls(run))
            self._tasks.add(task)
            self._calls[run.task] = task
            self.loop.call_soon(self._begin)  # behind it: if its call waits, the others go on
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
        """Run it, and what may follow it in this task."""
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
