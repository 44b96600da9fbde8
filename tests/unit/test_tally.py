"""The tally of a cell's calls: told while it takes long, and never after the cell's end."""

from __future__ import annotations

import threading

import pytest

from tests.leaks import eventually
from tests.patience import TEST_TIMEOUT, TIMEOUT
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
