"""Refs in a running event loop: awaited by all of asyncio's means, and the loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from workbench.engine.base import Engine
from workbench.errors import TaskError


def run(main: Coroutine[Any, Any, None]) -> None:
    """In a loop of its own, which is not to hear of errors nobody took."""
    unheard: list[Any] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        await main

    asyncio.run(asyncio.wait_for(watched(), TIMEOUT), debug=False)
    assert not unheard


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
        with pytest.raises(TaskError, match="StopIteration") as caught:
            await wb.remote(lambda: next(iter(()))).remote()
        assert not isinstance(caught.value, StopIteration), "it would end this coroutine"
        refs = [double.remote(i) for i in range(200)]
        assert await asyncio.gather(*refs, refs[0]) == [*(2 * i for i in range(200)), 0]
        mixed = [double.remote(1), fails.remote("a"), wb.put("b")]
        got = await asyncio.gather(*mixed, return_exceptions=True)
        assert [str(each).partition("\n")[0] for each in got] == ["2", "a", "b"]

    run(main())


def test_a_task_goes_on_when_nobody_waits_and_then_lets_go(session: Engine, gate: Gate) -> None:
    async def main() -> int:
        ref = wb.remote(gate.stop).remote()
        visitor = await asyncio.to_thread(gate.next)
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
