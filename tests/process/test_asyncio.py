"""Refs in a running event loop: awaited by all of asyncio's means, and the loop goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate, Visitor
from workbench.engines.base import Engine
from workbench.errors import ObjectFreedError, TaskCancelledError, TaskError


def run(main: Coroutine[Any, Any, None]) -> None:
    """In a loop of its own, which is not to hear of errors nobody took."""
    unheard: list[Any] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        await main

    asyncio.run(asyncio.wait_for(watched(), TIMEOUT), debug=False)
    assert not unheard


async def comes(gate: Gate) -> Visitor:
    """The next task at the gate, without blocking the loop."""
    return await asyncio.to_thread(gate.next)


@wb.remote
def fails(text: str) -> None:
    raise LookupError(text)


def test_awaiting_gives_what_get_gives_one_by_one_and_gathered(session: Engine) -> None:
    double = wb.remote(lambda i: 2 * i)

    async def main() -> None:
        array = await wb.put(np.arange(100_000))
        assert (array == np.arange(100_000)).all()
        assert not array.flags.writeable
        failed = fails.remote("not here")
        for _ in range(2):
            with pytest.raises(LookupError, match="not here") as caught:
                await failed
            assert isinstance(caught.value, TaskError)
        refs = [double.remote(i) for i in range(200)]
        assert await asyncio.gather(*refs, refs[0]) == [*(2 * i for i in range(200)), 0]
        mixed = [double.remote(1), fails.remote("a"), wb.put("b")]
        got = await asyncio.gather(*mixed, return_exceptions=True)
        assert [str(each).partition("\n")[0] for each in got] == ["2", "a", "b"]

    run(main())


@pytest.mark.parametrize("kind", [StopIteration, StopAsyncIteration, asyncio.CancelledError])
def test_what_would_end_a_coroutine_without_a_word_is_an_error(
    session: Engine, kind: type[BaseException]
) -> None:
    @wb.remote
    def stops() -> None:
        raise kind("early")

    async def main() -> None:
        with pytest.raises(TaskError, match=f"{kind.__name__}: early") as caught:
            await ref
        assert not isinstance(caught.value, kind)

    ref = stops.remote()
    run(main())
    with pytest.raises(kind, match="early"):
        wb.get(ref)
    if kind is StopIteration:
        with pytest.raises(RuntimeError, match="raised StopIteration"):
            next(wb.get(ref) for _ in range(2))


def test_a_freed_ref_and_a_cancelled_task(session: Engine, gate: Gate) -> None:
    async def main() -> None:
        for end, error in ((wb.free, ObjectFreedError), (wb.cancel, TaskCancelledError)):
            ref = wb.remote(gate.stop).remote()
            waits = asyncio.ensure_future(ref)
            await comes(gate)
            end(ref)
            with pytest.raises(error):
                await waits
            with pytest.raises(error):
                await ref

    run(main())


def test_a_task_goes_on_when_nobody_waits_any_longer_and_then_lets_go(
    session: Engine, gate: Gate
) -> None:
    async def main() -> int:
        ref = wb.remote(gate.stop).remote()
        visitor = await comes(gate)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ref, 0.01)
        waits = asyncio.ensure_future(ref)
        await asyncio.to_thread(lambda: None)  # so that it waits
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        assert wb.wait([ref], timeout=0) == ([], [ref])
        visitor.let_on("went on")
        assert await asyncio.wait_for(ref, TIMEOUT) == "went on"
        return ref.id

    id = asyncio.run(main())
    assert eventually(lambda: id not in {each.id for each in session.snapshot().objects})


def test_one_ref_in_many_loops(session: Engine, gate: Gate) -> None:
    ref = wb.remote(gate.stop).remote()
    begun = threading.Barrier(6)
    got: list[str] = []

    async def main() -> None:
        waits = asyncio.gather(ref, ref)
        await asyncio.to_thread(begun.wait, TIMEOUT)
        got.extend(await waits)

    def blocks() -> None:
        begun.wait(TIMEOUT)
        got.append(wb.get(ref))

    threads = [threading.Thread(target=lambda: run(main())) for _ in range(4)]
    threads.append(threading.Thread(target=blocks))
    for thread in threads:
        thread.start()
    visitor = gate.next()
    begun.wait(TIMEOUT)
    visitor.let_on("all")
    for thread in threads:
        thread.join(TIMEOUT)
    assert got == ["all"] * 9


def test_a_loop_that_ends_first(session: Engine, gate: Gate) -> None:
    """What comes after a loop's end finds nobody, and breaks nothing."""
    ref = wb.remote(gate.stop).remote()

    async def leaves() -> None:
        asyncio.get_running_loop().create_task(awaits())
        await asyncio.to_thread(lambda: None)

    async def awaits() -> str:
        return await ref  # type: ignore[no-any-return]

    run(leaves())
    gate.next().let_on("later")
    assert wb.get(ref) == "later"
    assert asyncio.run(awaits()) == "later"
    assert ref.future().result(TIMEOUT) == "later"


def test_an_async_actor_awaits_refs(session: Engine, gate: Gate) -> None:
    """While one of its calls awaits a task, others run; one of them opens the gate."""
    stop = gate.stop

    @wb.remote
    class Waits:
        async def awaits(self, refs: list[wb.ObjectRef]) -> Any:
            return await asyncio.gather(wb.remote(stop).remote(), *refs, return_exceptions=True)

        async def answers(self) -> str:
            return "meanwhile"

    actor = Waits.remote()
    first = actor.awaits.remote([fails.remote("no"), wb.put(1)])
    visitor = gate.next()
    assert wb.get(actor.answers.remote()) == "meanwhile"
    assert wb.wait([first], timeout=0)[0] == []
    visitor.let_on("through")
    word, error, number = wb.get(first)
    assert (word, number) == ("through", 1)
    assert isinstance(error, LookupError)
