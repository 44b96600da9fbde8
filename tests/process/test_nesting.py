"""Tasks that wait for tasks, by whatever means, in a pool of one or two workers: none is stuck, and
no more run than there are workers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate, stopper
from workbench.engine.base import Engine
from workbench.engine.queries import CaughtUp
from workbench.errors import GetTimeoutError


def plus(i: int) -> int:
    return i + 1


leaf = wb.remote(plus)


@wb.remote(num_returns="streaming")
def stream(n: int) -> Iterator[int]:
    yield from range(n)


async def _await() -> Any:
    return await leaf.remote(1)


async def _gather() -> Any:
    return sum(await asyncio.gather(*[leaf.remote(i) for i in range(20)])) == 210


async def _items() -> Any:
    return [await ref async for ref in stream.remote(5)] == [*range(5)]


async def _completed() -> Any:
    refs = [leaf.remote(i) for i in range(5)]
    return sorted([await ref async for ref in wb.as_completed(refs)]) == [*range(1, 6)]


def _come_as_completed(futures: list[Any]) -> Any:
    done = concurrent.futures.as_completed(futures, TIMEOUT)
    return sorted(future.result() for future in done) == [*range(1, 6)]


def _polls_until_done(futures: list[Any]) -> Any:
    while not all(future.done() for future in futures):
        threading.Event().wait(0.001)
    return True


def _called_back(futures: list[Any]) -> Any:
    called = threading.Event()
    futures[0].add_done_callback(lambda _: called.set())
    return called.wait(TIMEOUT)


def _polls() -> Any:
    left = {leaf.remote(i) for i in range(5)}
    while left:
        left = {ref for ref in left if not wb.wait([ref], timeout=0)[0]}
    return True


def _gets_at_once() -> Any:
    ref = leaf.remote(1)
    while True:
        with contextlib.suppress(GetTimeoutError):
            return wb.get(ref, timeout=0)


def _in_threads() -> Any:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return sum(pool.map(lambda i: wb.get(leaf.remote(i)), range(8))) == 36


COROUTINES = (_await, _gather, _items, _completed)
FUTURES: list[Callable[[int], Any]] = [
    lambda i: leaf.remote(i).future(),
    lambda i: wb.Executor().submit(plus, i),
]
WAITS: list[Callable[[list[Any]], Any]] = [
    lambda futures: len(concurrent.futures.wait(futures, TIMEOUT).done) == 5,
    lambda futures: concurrent.futures.wait(futures, TIMEOUT, "FIRST_COMPLETED").done != set(),
    _come_as_completed, _polls_until_done, _called_back,
    lambda futures: futures[0].result(TIMEOUT),
    lambda futures: futures[0].exception(TIMEOUT) is None,
]  # fmt: skip
WAYS: list[Callable[[], Any]] = [
    *(lambda main=main: asyncio.run(main()) for main in COROUTINES),
    *(lambda w=wait, m=make: w([m(i) for i in range(5)]) for wait in WAITS for make in FUTURES),
    _polls, _gets_at_once, _in_threads,
    lambda: wb.get(leaf.remote(1)),
    lambda: len(wb.wait([leaf.remote(i) for i in range(5)], num_returns=3)[0]) == 3,
    lambda: wb.gather([leaf.remote(i) for i in range(5)]) == [*range(1, 6)],
    lambda: wb.map(lambda i: i, range(5)) == [*range(5)],
    lambda: [wb.get(ref) for ref in stream.remote(5)] == [*range(5)],
]  # fmt: skip


def test_with_one_worker_a_task_may_wait_by_any_means(runtime: str) -> None:
    """Another is queued, which would begin first if it could; no slot is lost by it."""
    wb.init(workers=1, memory="32MB")
    for number, way in enumerate(WAYS):
        refs = [wb.remote(way).remote() for _ in range(2)]
        done, _ = wb.wait(refs, num_returns=2, timeout=TIMEOUT)
        assert len(done) == 2, f"stuck: {number}"
        assert all(wb.get(refs)), number
        assert eventually(lambda: {w.state for w in wb.snapshot().workers} == {"idle"})
    ahead = stream.options(max_ahead=1).remote(100)  # it waits for its reader
    assert wb.get(next(ahead)) == 0
    assert wb.get(leaf.remote(1), timeout=TIMEOUT) == 2
    assert [wb.get(ref) for ref in ahead] == [*range(1, 100)]


def running(session: Engine) -> list[str]:
    return [w.state for w in session.snapshot().workers if w.tasks and w.state != "blocked"]


def test_who_has_waited_runs_in_a_slot(session: Engine, gate: Gate) -> None:
    """It comes back with what was waited for. Who lends none, and coroutines:
    `tests/unit/core/test_nesting.py`, `tests/unit/test_lending_future.py`."""
    stop = stopper(gate.path)

    @wb.remote
    def parent() -> None:
        wb.get(leaf.remote(1))
        stop()

    refs = [parent.remote() for _ in range(5)]
    visitors = [gate.next(), gate.next()]
    for _ in range(3):
        session.ask(CaughtUp())
        assert len(running(session)) == 2
        visitors.pop(0).let_on()
        visitors.append(gate.next())
    for visitor in visitors:
        visitor.let_on()
    wb.get(refs, timeout=TIMEOUT)
