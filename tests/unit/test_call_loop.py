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
from typing import Any

import pytest

from tests.patience import TIMEOUT
from workbench.worker.call_loop import IN_TURN, CallLoop, SpinningSelector

Call = Callable[[], Coroutine[Any, Any, object]]


class Served:
    """A loop that serves in a thread. Calls are queued there, by a call that runs, or before."""

    def __init__(self, most: int = 1000) -> None:
        self.queue: deque[Any] = deque()
        self.ended: list[int] = []
        self.tasks: dict[int, asyncio.Task[Any] | None] = {}  # of the loop, by call
        self.all_ended = threading.Event()
        self._calls: dict[int, Call] = {}
        self.loop = CallLoop(most, self._next, self._run)

    def add(self, *calls: Call) -> None:
        for call in calls:
            number = len(self._calls)
            self._calls[number] = call
            self.queue.append(_Run(number))

    def _next(self) -> Any:
        return self.queue.popleft() if self.queue else None

    async def _run(self, run: Any) -> None:
        self.tasks[run.task] = asyncio.current_task()
        with contextlib.suppress(asyncio.CancelledError):
            await self._calls[run.task]()
        self.ended.append(run.task)
        if len(self.ended) == len(self._calls):
            self.all_ended.set()


class _Run:
    def __init__(self, task: int) -> None:
        self.task = task


@contextlib.contextmanager
def serving(served: Served) -> Iterator[None]:
    thread = threading.Thread(target=served.loop.serve)
    thread.start()
    try:
        assert served.all_ended.wait(TIMEOUT)
        yield
    finally:
        served.loop.stop()
        thread.join(TIMEOUT)


async def nothing() -> None:
    pass


@types.coroutine
def a_turn() -> Iterator[None]:
    """Wait until all else on the loop has had its turn."""
    yield


def test_calls_that_wait_for_nothing_share_a_task() -> None:
    served = Served()
    served.add(*[nothing] * 10)
    with serving(served):
        assert served.ended == list(range(10))
        assert len(set(served.tasks.values())) == 1


def test_one_that_waits_lets_the_others_go_on() -> None:
    served = Served()
    come: list[asyncio.Event] = []

    async def waits() -> None:
        come.append(asyncio.Event())
        await come[0].wait()

    async def ends_it() -> None:
        come[0].set()

    served.add(nothing, waits, nothing, nothing, ends_it, nothing)
    with serving(served):
        assert sorted(served.ended) == list(range(6))
        assert served.ended.index(1) > served.ended.index(4)
        assert served.tasks[2] is not served.tasks[1]


def test_no_more_than_so_many_at_a_time() -> None:
    served = Served(most=2)
    running, most = 0, 0

    async def waits() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await a_turn()
        await a_turn()
        running -= 1

    served.add(*[waits] * 20)
    with serving(served):
        assert sorted(served.ended) == list(range(20))
        assert most == 2


def test_a_context_that_a_call_has_changed_is_its_own() -> None:
    served = Served()
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    found: list[str] = []

    async def changes() -> None:
        found.append(variable.get())
        variable.set("set")

    served.add(nothing, changes, changes, changes)
    with serving(served):
        assert found == ["unset"] * 3


@pytest.mark.parametrize("waits", [False, True])
def test_who_is_cancelled_late_stops_nobody_else(waits: bool) -> None:
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

    served.add(is_cancelled_late, follows, follows)
    with serving(served):
        assert not stopped


def test_one_that_waits_is_cancelled() -> None:
    served = Served()
    stopped: list[int] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(1)
            raise

    async def cancels() -> None:
        served.loop.cancel(1)

    served.add(nothing, waits, nothing, cancels, nothing)
    with serving(served):
        assert stopped == [1]
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
    served.add(starts, *[looks] * (10 * IN_TURN))
    with serving(served):
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
