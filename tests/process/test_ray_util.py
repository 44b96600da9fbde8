"""`wb.util`: a pool of actors and a queue, as people who come from Ray know them."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator
from typing import Any

import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate, Visitor
from workbench.engine.base import Engine
from workbench.errors import ActorDiedError, GetTimeoutError
from workbench.util import ActorPool, Queue
from workbench.util.queue import Empty, Full


@wb.remote
class Doubler:
    def double(self, x: int) -> int:
        return 2 * x

    def twice(self, x: int) -> tuple[int, int]:
        return x, 2 * x

    def fails(self, x: int) -> int:
        raise LookupError(x)

    def at(self, stop: Any, x: int) -> int:
        stop()
        return x


def double(actor: Any, x: int) -> Any:
    return actor.double.remote(x)


def test_results_come_in_order_or_as_they_are_done(session: Engine) -> None:
    pool = ActorPool([Doubler.remote(), Doubler.remote()])
    assert list(pool.map(double, range(9))) == [2 * x for x in range(9)]
    assert sorted(pool.map_unordered(double, range(9))) == [2 * x for x in range(9)]
    assert not pool.has_next()
    assert pool.has_free()
    pool.map(double, range(5))
    assert list(pool.map(double, [7, 8])) == [14, 16]  # a new map drops what the last one left
    for x in range(3):
        pool.submit(double, x)
    got = [pool.get_next_unordered()]
    while pool.has_next():
        got.append(pool.get_next())  # Ray's pool refuses or forgets the earlier ones
    assert sorted(got) == [0, 2, 4]

    def both(actor: Any, x: int) -> Any:
        return actor.twice.options(num_returns=2).remote(x)

    for map in (pool.map, pool.map_unordered):
        assert sorted(map(both, range(3))) == [[0, 0], [1, 2], [2, 4]]


def test_a_failed_call_costs_no_actor(session: Engine) -> None:
    pool = ActorPool([Doubler.remote(), Doubler.remote()])
    results = pool.map_unordered(lambda actor, x: actor.fails.remote(x), range(4))
    with pytest.raises(LookupError):
        next(results)
    while pool.has_next():
        with pytest.raises(LookupError):
            pool.get_next()
    for bad in (lambda actor, x: 1 / x, lambda actor, x: x):
        with pytest.raises((ZeroDivisionError, TypeError)):
            pool.submit(bad, 0)
    assert list(pool.map(double, [1, 2, 3])) == [2, 4, 6]


def at_gate(gate: Gate, *actors: Any) -> tuple[ActorPool, Visitor]:
    """A pool of these, one of which stands at the gate."""
    pool = ActorPool(actors)
    pool.submit(lambda actor, x: actor.at.remote(gate.stop, x), 1)
    return pool, gate.next()


def test_a_result_that_is_given_up_frees_its_actor(session: Engine, gate: Gate) -> None:
    pool, visitor = at_gate(gate, Doubler.remote())
    pool.submit(double, 2)  # waits for its turn
    with pytest.raises(TimeoutError, match="given up"):
        pool.get_next(timeout=0, ignore_if_timedout=True)
    visitor.let_on()
    assert pool.get_next() == 4
    for more in (pool.get_next, pool.get_next_unordered):
        with pytest.raises(StopIteration):
            more()


def test_actors_come_and_go_and_what_is_done_first_comes_first(session: Engine, gate: Gate) -> None:
    first, second = Doubler.remote(), Doubler.remote()
    pool, visitor = at_gate(gate, first)
    assert pool.pop_idle() is None
    with pytest.raises(ValueError, match="already"):
        pool.push(first)
    pool.submit(double, 2)
    pool.push(second)  # makes the call that waits
    assert pool.get_next_unordered() == 4
    with pytest.raises(TimeoutError):
        pool.get_next_unordered(timeout=0)
    with pytest.raises(GetTimeoutError, match="ask again later"):
        pool.get_next(timeout=0)
    visitor.let_on()
    assert pool.get_next(timeout=TIMEOUT) == 1
    with pytest.raises(ValueError, match="already"):
        pool.push(first)
    assert {pool.pop_idle(), pool.pop_idle()} == {first, second}
    assert not pool.has_free()


@pytest.fixture
def items(session: Engine) -> Iterator[Queue]:
    made = Queue(maxsize=3)
    yield made
    made.shutdown()


def test_first_in_first_out(items: Queue) -> None:
    assert items.empty()
    wb.get(wb.remote(lambda queue: queue.put("a")).remote(items))
    for item in (None, 3):
        items.put(item)
    assert items.full()
    assert len(items) == items.qsize() == items.size() == 3
    for put in (lambda: items.put_nowait(4), lambda: items.put(4, timeout=0.01)):
        with pytest.raises(Full):
            put()
    assert [items.get(), items.get(timeout=TIMEOUT), items.get_nowait()] == ["a", None, 3]
    for get in (items.get_nowait, lambda: items.get(timeout=0.01)):
        with pytest.raises(Empty):
            get()
    for call in (lambda: items.get(timeout=-1), lambda: items.put(1, timeout=-1)):
        with pytest.raises(ValueError, match="0 or more"):
            call()
    assert (Empty, Full) == (queue.Empty, queue.Full)


def test_batches_are_taken_whole_or_not_at_all(items: Queue) -> None:
    items.put_nowait_batch(range(2))
    with pytest.raises(Full, match="no room for 2"):
        items.put_nowait_batch([1, 2])
    with pytest.raises(Empty, match="fewer than 3"):
        items.get_nowait_batch(3)
    assert items.get_nowait_batch(2) == [0, 1]
    for wrong, error in ((1.5, TypeError), (True, TypeError), (-1, ValueError)):
        with pytest.raises(error):
            items.get_nowait_batch(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        items.put_nowait_batch(1)  # type: ignore[arg-type]
    assert not Queue().full()


def test_coroutines_wait_side_by_side(items: Queue) -> None:
    async def run() -> list[Any]:
        takers = [asyncio.create_task(items.get_async()) for _ in range(5)]
        for i in range(5):
            await items.put_async(i)
        got = sorted(await asyncio.gather(*takers))
        for limit in ({"block": False}, {"timeout": 0.01}):
            with pytest.raises(Empty):
                await items.get_async(**limit)
        for i in range(3):
            await items.put_async(i, timeout=TIMEOUT)
        with pytest.raises(Full):
            await items.put_async(9, block=False)
        with pytest.raises(ValueError, match="0 or more"):
            await items.put_async(9, timeout=-1)
        return got

    assert asyncio.run(run()) == list(range(5))


def test_who_stops_waiting_takes_no_item(session: Engine, items: Queue) -> None:
    """The call at the actor would go on, and take the next item for nobody."""

    def calls(count: int) -> bool:
        return eventually(lambda: session.snapshot().running == count)

    async def run() -> None:
        waiting = asyncio.create_task(items.get_async())
        assert await asyncio.to_thread(calls, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(run())
    assert calls(0)
    items.put("for somebody")
    assert items.get(timeout=TIMEOUT) == "for somebody"


def test_a_queue_that_was_shut_down_says_so(session: Engine) -> None:
    for force in (False, True):
        made = Queue(actor_options={"name": "line"})
        other = wb.get_actor("line")
        made.put(1)
        made.shutdown(force=force)
        made.shutdown()
        assert made.actor is None
        with pytest.raises(ActorDiedError, match="shut down"):
            made.get()
        with pytest.raises(ActorDiedError):
            wb.get(other.qsize.remote())


def test_many_may_wait_and_still_somebody_can_bring_an_item(session: Engine) -> None:
    """More than an async actor runs at a time, unless it is told otherwise."""
    made = Queue()

    async def run() -> list[Any]:
        waiting = [asyncio.create_task(made.get_async()) for _ in range(1100)]
        await asyncio.wait(waiting[:1], timeout=0)
        made.put_nowait_batch(range(1100))
        return await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT)

    assert sorted(asyncio.run(run())) == list(range(1100))
    made.shutdown()
