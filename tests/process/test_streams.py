"""Tasks that yield: items as they come, not too many ahead, through crashes, to one reader."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.endings import leave_at_once
from tests.process.gates import Gate, stopper
from tests.process.scripts import Script
from workbench.engines.base import Engine
from workbench.errors import (
    ActorDiedError,
    SerializationError,
    SessionError,
    StoreFullError,
    TaskCancelledError,
    WorkerCrashedError,
)
from workbench.ref_generator import ObjectRefGenerator


def counting() -> Any:
    """A remote generator: travels by value, because it is made here."""

    @wb.remote
    def count(n: int) -> Iterator[int]:
        yield from range(n)

    return count


def at_gate(path: str) -> Any:
    """Numbers for ever; it comes to the gate before each."""
    stop = stopper(path)

    @wb.remote(max_ahead=3)
    def numbers() -> Iterator[int]:
        number = 0
        while True:
            stop()
            yield number
            number += 1

    return numbers


def test_each_item_that_is_taken_lets_the_next_be_made(session: Engine) -> None:
    stream = counting().options(max_ahead=5).remote(100)
    for taken in range(10):
        assert eventually(lambda: stream.received == taken + 5)  # noqa: B023 - before the next
        next(stream)


@pytest.mark.parametrize(("ahead", "size"), [(1, 1), (2, 10_000), (1000, 10_000)])
def test_all_items_come_in_order(session: Engine, ahead: int, size: int) -> None:
    @wb.remote(max_ahead=ahead)
    def arrays(n: int) -> Iterator[np.ndarray[Any, Any]]:
        for i in range(n):
            yield np.full(size, i)

    stream = arrays.remote(50)
    assert [wb.get(ref)[-1] for ref in stream] == list(range(50))
    assert wb.get(stream.completed()) == 50
    assert list(stream) == []
    del stream
    assert eventually(lambda: all(o.size < 5_000 for o in session.snapshot().objects))


def test_items_come_while_the_task_runs_and_not_many_more_than_were_taken(
    session: Engine, gate: Gate
) -> None:
    stream = at_gate(gate.path).remote()
    for _ in range(3):
        gate.next().let_on()
    assert eventually(lambda: len(stream.items) == 3)
    assert eventually(lambda: "blocked" in {w.state for w in session.snapshot().workers})
    assert wb.get(next(stream)) == 0  # two of three may be told at once
    assert wb.get(next(stream)) == 1
    gate.next().let_on()
    assert wb.get([next(stream), next(stream)]) == [2, 3]


def test_a_dropped_stream_ends_its_task(session: Engine, gate: Gate) -> None:
    stream = at_gate(gate.path).remote()
    gate.next().let_on()
    kept = next(stream)
    gate.next()  # it stands there, and nobody will let it on
    del stream
    assert eventually(lambda: not session.snapshot().running)
    assert wb.get(kept) == 0


def test_a_closed_stream_gives_no_more(session: Engine) -> None:
    for ahead in (2, 10_000):
        stream = counting().options(max_ahead=ahead).remote(10_000)
        assert wb.get(next(stream)) == 0
        stream.close()
        stream.close()
        assert list(stream) == []
        wb.wait([stream.completed()])  # all that was on its way has come
        assert list(stream) == []
        assert not stream.items


def test_a_stream_whose_end_somebody_awaits_is_dropped_too(session: Engine) -> None:
    end = counting().options(max_ahead=2).remote(100).completed()
    with pytest.raises(TaskCancelledError):
        wb.get(end, timeout=TIMEOUT)
    short = counting().remote(3)
    assert len(list(short)) == 3
    end = short.completed()
    del short
    assert wb.get(end, timeout=TIMEOUT) == 3


def test_an_interrupt_while_an_item_is_taken_does_not_stop_the_stream() -> None:
    class Interrupted:
        def __init__(self) -> None:
            self.told: list[int] = []

        def state(self, ref: wb.ObjectRef) -> str:
            return "pending"

        def took(self, stream: ObjectRefGenerator, taken: int, at_once: bool) -> None:
            self.told.append(taken)
            if len(self.told) == 1:
                raise KeyboardInterrupt

    engine: Any = Interrupted()
    stream = ObjectRefGenerator(wb.ObjectRef(1, engine), engine, 1)
    stream.came(wb.ObjectRef(2, engine))
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    stream.tell()  # as who waits for the next
    assert engine.told == [1, 1]


def test_a_queued_stream_is_dropped_too(session: Engine, gate: Gate) -> None:
    busy = [wb.remote(gate.stop).remote() for _ in range(2)]
    visitors = [gate.next(), gate.next()]
    stream = counting().remote(10)
    del stream
    assert eventually(lambda: session.snapshot().queued == 0)
    for visitor in visitors:
        visitor.let_on()
    wb.get(busy)


def test_an_error_is_the_last_item(session: Engine) -> None:
    """Of the task, and of an item that can't be stored."""

    @wb.remote
    def odd(make: Callable[[], Any]) -> Iterator[Any]:
        yield 1
        yield make()
        yield 3

    for make, error, text in (
        (lambda: {}["second"], KeyError, "second"),
        (threading.Lock, SerializationError, "an item of"),
        (lambda: np.zeros(10**8), StoreFullError, "800 MB"),
    ):
        first, failed = odd.remote(make)
        assert wb.get(first) == 1
        with pytest.raises(error, match=text):
            wb.get(failed)


@pytest.mark.parametrize("kind", ["task", "async actor"])
def test_a_full_store_waits_for_the_reader(session: Engine, kind: str) -> None:
    """16 items of 20 MB could be ahead, and the store has 64 MB."""

    @wb.remote
    def large() -> Iterator[Any]:
        for i in range(8):
            yield np.full(2_500_000, i)

    @wb.remote
    class Maker:
        async def large(self) -> AsyncIterator[Any]:
            for i in range(8):
                yield np.full(2_500_000, i)

    maker = Maker.remote()
    got = []
    for ref in large.remote() if kind == "task" else maker.large.remote():
        got.append(int(wb.get(ref)[-1]))
        del ref
    assert got == list(range(8))


def test_what_yields_and_what_does_not(session: Engine) -> None:
    for value in (3, None):
        (failed,) = wb.remote(num_returns="streaming")(lambda value=value: value).remote()
        with pytest.raises(TypeError, match="it has to yield; it returned"):
            wb.get(failed)
    letters = wb.remote(num_returns="streaming")(lambda: "ab").remote()
    assert [wb.get(ref) for ref in letters] == ["a", "b"]


def test_no_item_is_lost_or_doubled_when_workers_die(session: Engine, gate: Gate) -> None:
    stop = gate.stop

    @wb.remote(max_ahead=4, max_retries=5)
    def numbers() -> Iterator[tuple[int, int]]:
        for i in range(20):
            if i % 5 == 4:
                stop()
            yield i, os.getpid()

    stream = numbers.remote()
    got = []
    for block in range(4):
        got += [wb.get(next(stream)) for _ in range(4)]
        os.kill(gate.next().pid, signal.SIGKILL)
        for _ in range(block):  # what was made before is made again
            gate.next().let_on()
        gate.next().let_on()
        got.append(wb.get(next(stream)))
    assert [i for i, _ in got] == list(range(20))
    assert len({pid for _, pid in got}) == 5
    assert list(stream) == []


def test_items_outlive_the_worker_that_made_them_and_its_death_is_the_last(
    session: Engine,
) -> None:
    @wb.remote(max_retries=1)
    def dies() -> Iterator[Any]:
        yield np.arange(100_000)
        leave_at_once(7)

    first, failed = dies.remote()
    with pytest.raises(WorkerCrashedError, match=r"exited with status 7 while it ran `.*dies`"):
        wb.get(failed)
    assert wb.get(first)[-1] == 99_999


def test_wait_takes_streams(session: Engine, gate: Gate) -> None:
    stream = at_gate(gate.path).remote()
    other = wb.put(1)
    visitor = gate.next()
    assert wb.wait([stream, other]) == ([other], [stream])
    assert wb.wait([stream], timeout=0) == ([], [stream])
    visitor.let_on()
    assert wb.wait([stream]) == ([stream], [])
    assert wb.get(next(stream)) == 0
    short = counting().remote(0)
    assert wb.wait([short]) == ([short], [])
    assert list(short) == []
    with pytest.raises(TypeError, match="list of refs"):
        wb.wait(stream)  # type: ignore[arg-type]


def test_a_stream_stays_where_it_is(session: Engine) -> None:
    stream = counting().remote(3)
    with pytest.raises(TypeError, match="one reader"):
        pickle.dumps(stream)
    with pytest.raises(SerializationError, match="one reader"):
        wb.put([stream])
    with pytest.raises(SerializationError, match=r"pass the refs it gives.*list\(generator\)"):
        wb.remote(len).remote(stream)
    assert len(list(stream)) == 3


# -- actors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 3])
def test_methods_yield_too(session: Engine, concurrency: int) -> None:
    @wb.remote(max_concurrency=concurrency)
    class Maker:
        def plain(self, n: int) -> Iterator[int]:
            yield from range(n)

    actor = Maker.remote()
    streams = [actor.plain.remote(40) for _ in range(2)]
    for stream in streams:
        assert [wb.get(ref) for ref in stream] == list(range(40))


def test_async_methods_yield_side_by_side(session: Engine) -> None:
    @wb.remote
    class Maker:
        def __init__(self) -> None:
            self.closed = 0

        async def gentle(self, n: int) -> AsyncIterator[int]:
            try:
                for i in range(n):
                    await asyncio.to_thread(int)  # lets others run
                    yield i
            finally:
                self.closed += 1

        def plain(self, n: int) -> Iterator[int]:
            yield from range(n)

        async def endings(self) -> int:
            return self.closed

    actor = Maker.remote()
    streams = [actor.gentle.options(max_ahead=2).remote(40) for _ in range(3)]
    streams.append(actor.plain.remote(40))
    for items in zip(*streams, strict=True):  # none of them waits for another to end
        assert len(set(wb.get(list(items)))) == 1
    endless = [actor.gentle.options(max_ahead=1).remote(10**9) for _ in range(2)]
    assert wb.get([next(stream) for stream in endless]) == [0, 0]
    del endless[0]
    assert eventually(lambda: wb.get(actor.endings.remote()) == 4)
    wb.kill(actor)
    *_, failed = endless[0]
    with pytest.raises(ActorDiedError):
        wb.get(failed)


# -- asyncio --------------------------------------------------------------------------------------


def test_async_for_lets_the_loop_go_on(session: Engine, gate: Gate) -> None:
    stream = at_gate(gate.path).remote()
    went_on = asyncio.Event()

    async def reads() -> list[int]:
        return [await ref async for ref in stream if await ref < 3 or stream.close()]

    async def lets_on() -> None:
        for _ in range(4):
            visitor = await asyncio.to_thread(gate.next)
            visitor.let_on()
        went_on.set()

    async def main() -> list[int]:
        letting = asyncio.create_task(lets_on())
        reading = asyncio.create_task(reads())
        await asyncio.wait_for(went_on.wait(), TIMEOUT)
        got = await asyncio.wait_for(reading, TIMEOUT)
        await letting
        return got

    assert asyncio.run(main()) == [0, 1, 2]


def test_a_cancelled_reader_loses_no_item(session: Engine, gate: Gate) -> None:
    stream = at_gate(gate.path).remote()

    async def main() -> list[int]:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 0.01)
        visitor = await asyncio.to_thread(gate.next)
        visitor.let_on()
        return [await asyncio.wait_for(await asyncio.wait_for(anext(stream), TIMEOUT), TIMEOUT)]

    assert asyncio.run(main()) == [0]


def test_two_readers_share_a_stream(session: Engine) -> None:
    stream = counting().options(max_ahead=4).remote(300)

    async def reads() -> list[int]:
        return [await ref async for ref in stream]

    async def main() -> list[list[int]]:
        return await asyncio.gather(reads(), reads())

    first, second = asyncio.run(main())
    assert sorted(first + second) == list(range(300))

    got: list[int] = []
    stream = counting().options(max_ahead=4).remote(300)
    threads = [
        threading.Thread(target=lambda: got.extend(wb.get(ref) for ref in stream)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert sorted(got) == list(range(300))


# -- ends -----------------------------------------------------------------------------------------


def test_the_end_of_the_session_reaches_the_readers(runtime: str, gate: Gate) -> None:
    wb.init(workers=1)
    stream = at_gate(gate.path).remote()
    gate.next()

    async def reads() -> None:
        async for _ in stream:
            raise AssertionError("an item of nobody")

    async def main() -> None:
        reading = asyncio.create_task(reads())
        await asyncio.wait([reading], timeout=0)
        await asyncio.to_thread(wb.shutdown)
        with pytest.raises(SessionError):
            await asyncio.wait_for(reading, TIMEOUT)

    asyncio.run(main())
    with pytest.raises(SessionError):
        next(stream)


def test_a_stream_ends_with_its_reader(
    session: Engine, gate: Gate, script: Callable[..., Script]
) -> None:
    reader = script(
        """
        from tests.process.test_streams import at_gate
        wb.init(session=sys.argv[1])
        stream = at_gate(sys.argv[2]).remote()
        next(stream)
        """,
        session.session.split("~")[0],
        gate.path,
    )
    gate.next()
    assert session.snapshot().running == 1
    os.kill(reader.pid, signal.SIGKILL)
    assert eventually(lambda: not session.snapshot().running)
