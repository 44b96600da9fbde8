"""Calls on an actor's loop: which share a task of it, and what they keep from each other."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import selectors
import socket
import threading
import types
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.patience import TIMEOUT
from workbench.worker.call_loop import IN_TURN, CallLoop, SpinningSelector

Call = Callable[[], Coroutine[Any, Any, object]]


class Served:
    """A loop that serves calls in a thread."""

    def __init__(self, most: int = 1000) -> None:
        self.ended: list[int] = []
        self.tasks: dict[int, asyncio.Task[Any] | None] = {}  # of the loop, by call
        self.loop = CallLoop(most, self._next, self._run)
        self._all_ended = threading.Event()

    def serve(self, *calls: Call) -> None:
        """Until all have ended."""
        self._calls = calls
        self._queue = deque(SimpleNamespace(task=number) for number in range(len(calls)))
        thread = threading.Thread(target=self.loop.serve)
        thread.start()
        assert self._all_ended.wait(TIMEOUT)
        self.loop.stop()
        thread.join(TIMEOUT)

    def _next(self) -> Any:
        return self._queue.popleft() if self._queue else None

    async def _run(self, run: Any) -> None:
        self.tasks[run.task] = asyncio.current_task()
        with contextlib.suppress(asyncio.CancelledError):
            await self._calls[run.task]()
        self.ended.append(run.task)
        if len(self.ended) == len(self._calls):
            self._all_ended.set()


async def nothing() -> None:
    pass


@types.coroutine
def a_turn() -> Iterator[None]:
    """Wait until all else on the loop has had its turn."""
    yield


def test_calls_share_a_task_until_one_waits_which_lets_the_others_go_on() -> None:
    served = Served()
    come: list[asyncio.Event] = []

    async def waits() -> None:
        come.append(asyncio.Event())
        await come[0].wait()

    async def ends_it() -> None:
        come[0].set()

    served.serve(nothing, nothing, waits, nothing, ends_it, nothing)
    assert served.ended[:2] == [0, 1]
    assert sorted(served.ended) == list(range(6))
    assert served.ended.index(2) > served.ended.index(4)
    first, second, waiting, other, *_ = (served.tasks[n] for n in range(6))
    assert first is second is waiting
    assert other is not waiting


def test_no_more_than_so_many_at_a_time() -> None:
    served = Served(most=2)
    running: list[int] = []
    seen: list[int] = []

    async def waits() -> None:
        running.append(0)
        seen.append(len(running))
        await a_turn()
        await a_turn()
        running.pop()

    served.serve(*[waits] * 20)
    assert sorted(served.ended) == list(range(20))
    assert max(seen) == 2


def test_a_context_that_a_call_has_changed_is_its_own() -> None:
    served = Served()
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    found: list[str] = []

    async def changes() -> None:
        found.append(variable.get())
        variable.set("set")

    served.serve(nothing, changes, changes, changes)
    assert found == ["unset"] * 3


@pytest.mark.parametrize("waits", [False, True])
def test_one_that_waits_is_cancelled_and_one_that_is_over_stops_nobody_else(waits: bool) -> None:
    """The next call may run in the same task by then."""
    served = Served()
    stopped: list[str] = []

    async def is_cancelled_late() -> None:
        if waits:
            await a_turn()
        served.loop.cancel(0)  # looked at when the loop goes on

    async def follows() -> None:
        try:
            for _ in range(10):
                await a_turn()
        except asyncio.CancelledError:
            stopped.append("the wrong one")
            raise

    async def waits_on() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("the right one")

    async def cancels() -> None:
        served.loop.cancel(3)

    served.serve(is_cancelled_late, follows, follows, waits_on, cancels)
    assert stopped == ["the right one"]
    assert sorted(served.ended) == list(range(5))


def test_all_else_on_the_loop_has_its_turn() -> None:
    """However many calls follow each other, and go on coming."""
    served = Served()
    ticked = 0

    async def ticks() -> None:
        nonlocal ticked
        while True:
            ticked += 1
            await a_turn()

    async def starts() -> None:
        kept.append(asyncio.create_task(ticks()))
        await a_turn()

    async def looks() -> None:
        seen.append(ticked)

    kept: list[Any] = []
    seen: list[int] = []
    served.serve(starts, *[looks] * (10 * IN_TURN))
    assert max(seen.count(tick) for tick in set(seen)) <= 2 * IN_TURN


def test_a_busy_loop_looks_every_second_time_and_an_idle_one_each() -> None:
    one, other = socket.socketpair()
    with SpinningSelector() as selector, one, other:
        key = selector.register(one, selectors.EVENT_READ, "data")
        assert selector.select(0) == []
        other.send(b"1")
        found = [(key, selectors.EVENT_READ)]
        assert [selector.select(0) for _ in range(4)] == [found, [], found, []]
        assert [selector.select(TIMEOUT) for _ in range(2)] == [found] * 2
        assert [selector.select(None) for _ in range(2)] == [found] * 2


def test_who_waits_for_room_hears_of_the_end_too() -> None:
    one, other = socket.socketpair()
    with SpinningSelector() as selector, one:
        key = selector.register(one, selectors.EVENT_READ | selectors.EVENT_WRITE)
        assert selector.select() == [(key, selectors.EVENT_WRITE)]
        other.close()
        assert selector.select() == [(key, selectors.EVENT_READ | selectors.EVENT_WRITE)]
        selector.modify(one, selectors.EVENT_READ)
        ((_, events),) = selector.select()
        assert events == selectors.EVENT_READ
