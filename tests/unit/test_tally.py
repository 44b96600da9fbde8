"""The tally of a cell's calls: told while it takes long, and never after the cell's end. Who waits
for a future inside a task lends the task's slot, and takes it back at the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from tests.leaks import eventually
from tests.patience import TEST_TIMEOUT, TIMEOUT
from workbench.engine.lending_future import ROUNDS, LendingFuture, Missing
from workbench.engine.tally import CallTally

OFTEN = 0.001


class Told(list[tuple[int, int]]):
    def __call__(self, done: int, known: int) -> None:
        self.append((done, known))

    def last_is(self, done: int, known: int) -> bool:
        return eventually(lambda: self[-1:] == [(done, known)])


def watchers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "workbench-tally"]


def test_what_ends_soon_is_told_nobody() -> None:
    told = Told()
    tally = CallTally(told, TEST_TIMEOUT)
    assert not watchers()
    tally.expect(3)
    (thread,) = watchers()
    tally.count(3)
    tally.close()
    thread.join(TIMEOUT)
    assert not watchers()
    assert told == []
    tally.expect(1)  # a thread that the cell has left
    assert not watchers()


def test_it_is_told_until_all_are_done_and_of_how_many_only_if_that_is_known() -> None:
    told = Told()
    tally = CallTally(told, OFTEN)
    tally.expect(4)
    tally.count(1)
    assert told.last_is(1, 4)
    tally.expect(1)  # as of `submit` in a loop: one is over, another comes
    tally.count(1)
    assert told.last_is(2, 0)
    tally.count(3)
    assert told.last_is(5, 5)
    assert eventually(lambda: not watchers())
    tally.expect(2)  # a second round, of which all is known
    tally.count(1)
    assert told.last_is(6, 7)
    tally.count(1)
    assert eventually(lambda: not watchers())
    tally.expect(2, more=True)  # as of joblib, which submits the next ones when some are over
    assert told.last_is(7, 0)
    tally.count(2)
    tally.close()
    assert eventually(lambda: not watchers())


@pytest.mark.filterwarnings("error")
def test_who_cannot_show_it_ends_nothing() -> None:
    asked = threading.Event()

    def tell(done: int, known: int) -> None:
        asked.set()
        raise OSError("the front end is gone")

    tally = CallTally(tell, OFTEN)
    tally.expect(2)
    assert asked.wait(TIMEOUT)
    tally.count(2)
    assert eventually(lambda: not watchers())


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
