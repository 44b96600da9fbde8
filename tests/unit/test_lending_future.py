"""Who waits for a future inside a task lends the task's slot, and takes it back at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from workbench.engine.lending_future import ROUNDS, LendingFuture, Missing


class Slot:
    """What is lent now, by number: the objects that are waited for."""

    def __init__(self) -> None:
        self.lent: dict[int, tuple[int, ...]] = {}
        self.looked_for: list[tuple[int, ...]] = []
        self._numbers = count(1)

    @contextmanager
    def waiting(
        self, missing: Missing, enough: int = 0, item: int = 0, timeout: float | None = None
    ) -> Iterator[None]:
        number = self.begin(missing())
        yield
        self.end(number)

    def begin(self, objects: Iterable[int], enough: int = 0, item: int = 0) -> int:
        number = next(self._numbers)
        self.lent[number] = tuple(objects)
        return number

    def end(self, number: int) -> None:
        del self.lent[number]

    def polled(self, objects: Iterable[int]) -> None:
        self.looked_for.append(tuple(objects))


@pytest.mark.parametrize("ends", ["set_result", "cancel"])
def test_who_is_to_be_called_back_lends_until_then(ends: str) -> None:
    slot = Slot()
    future = LendingFuture[int](slot, lambda: (7,))
    assert not future.done()
    assert slot.looked_for == [(7,)]
    future.add_done_callback(lambda _: None)
    assert slot.lent == {1: (7,)}
    future.cancel() if ends == "cancel" else future.set_result(1)
    assert slot.lent == {}


def test_on_a_loop_the_slot_is_back_when_the_loop_has_come_around() -> None:
    slot = Slot()

    async def waits() -> int:
        future = LendingFuture[int](slot, lambda: (7,))
        awaited = asyncio.wrap_future(future)
        assert slot.lent == {}, "code in the loop goes on"
        await asyncio.wait([awaited], timeout=0)
        assert slot.lent == {1: (7,)}
        future.set_result(5)
        value = await awaited
        for _ in range(ROUNDS + 2):
            await asyncio.wait([asyncio.create_task(asyncio.wait([awaited]))])
        return value

    assert asyncio.run(waits()) == 5
    assert slot.lent == {}
