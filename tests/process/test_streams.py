"""Tasks that yield: items as they come, not too many ahead, through crashes, to one reader."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate, stopper
from workbench.engine.base import Engine
from workbench.errors import SerializationError, StoreFullError, TaskCancelledError
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
    told: list[int] = []

    def took(stream: ObjectRefGenerator, taken: int, at_once: bool) -> None:
        told.append(taken)
        if len(told) == 1:
            raise KeyboardInterrupt

    engine: Any = SimpleNamespace(state=lambda ref: "pending", took=took)
    stream = ObjectRefGenerator(wb.ObjectRef(1, engine), engine, 1)
    stream.add_item(wb.ObjectRef(2, engine))
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    stream.report_taken()  # as who waits for the next
    assert told == [1, 1]


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


def test_what_yields_and_what_does_not(session: Engine) -> None:
    for value in (3, None):
        (failed,) = wb.remote(num_returns="streaming")(lambda value=value: value).remote()
        with pytest.raises(TypeError, match="it has to yield; it returned"):
            wb.get(failed)
    letters = wb.remote(num_returns="streaming")(lambda: "ab").remote()
    assert [wb.get(ref) for ref in letters] == ["a", "b"]


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
    for send, error in ((pickle.dumps, TypeError), (wb.put, SerializationError)):
        with pytest.raises(error, match="one reader"):
            send([stream])
    with pytest.raises(SerializationError, match=r"pass the refs it gives.*list\(generator\)"):
        wb.remote(len).remote(stream)
    assert len(list(stream)) == 3


def test_async_methods_yield_side_by_side(session: Engine) -> None:
    @wb.remote
    class Maker:
        closed = 0

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
    endless = actor.gentle.options(max_ahead=1).remote(10**9)
    assert wb.get(next(endless)) == 0
    del endless
    assert eventually(lambda: wb.get(actor.endings.remote()) == 4)


def test_a_cancelled_reader_loses_no_item(session: Engine, gate: Gate) -> None:
    stream = at_gate(gate.path).remote()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 0.01)
        (await asyncio.to_thread(gate.next)).let_on()
        assert await (await asyncio.wait_for(anext(stream), TIMEOUT)) == 0

    asyncio.run(main())


def test_two_readers_share_a_stream(session: Engine) -> None:
    stream = counting().options(max_ahead=4).remote(300)
    with ThreadPoolExecutor(2) as threads:
        shares = threads.map(lambda _: [wb.get(ref) for ref in stream], range(2), timeout=TIMEOUT)
        assert sorted(n for share in shares for n in share) == list(range(300))
