"""The tally of a cell's calls: told while it takes long, and never after the cell's end."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.leaks import eventually
from tests.patience import TIMEOUT
from workbench.engines import tally as tally_module
from workbench.engines.tally import CallTally

Told = list[tuple[int, int]]


def watchers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "workbench-tally"]


def test_what_ends_soon_is_told_nobody(monkeypatch: Any) -> None:
    monkeypatch.setattr(tally_module, "EVERY", TIMEOUT)
    told: Told = []
    tally = CallTally(lambda *counts: told.append(counts))
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


def test_it_is_told_until_all_are_done(monkeypatch: Any) -> None:
    monkeypatch.setattr(tally_module, "EVERY", 0.001)
    told: Told = []
    tally = CallTally(lambda *counts: told.append(counts))
    for before in ((0, 0), (2, 2)):
        tally.expect(2)
        tally.count(1)
        assert eventually(lambda: told[-1:] == [(tally.done, tally.known)])
        assert told[-1] == (before[0] + 1, before[1] + 2)
        tally.count(1)
        assert eventually(lambda: told[-1] == (tally.known, tally.known))
        assert eventually(lambda: not watchers())
    tally.close()


def test_how_many_there_will_be_is_not_told_while_nobody_knows(monkeypatch: Any) -> None:
    monkeypatch.setattr(tally_module, "EVERY", 0.001)
    told: Told = []
    tally = CallTally(lambda *counts: told.append(counts))
    tally.expect(4)
    tally.count(1)
    assert eventually(lambda: told[-1:] == [(1, 4)])
    tally.expect(1)  # as joblib: one is over, another comes
    tally.count(1)
    assert eventually(lambda: told[-1:] == [(2, 0)])
    tally.count(3)
    assert eventually(lambda: told[-1:] == [(5, 5)])
    assert eventually(lambda: not watchers())
    tally.expect(2)  # a second round, of which all is known
    tally.count(1)
    assert eventually(lambda: told[-1:] == [(6, 7)])
    tally.count(1)
    tally.close()
    assert eventually(lambda: not watchers())


@pytest.mark.filterwarnings("error")
def test_who_cannot_show_it_ends_nothing(monkeypatch: Any) -> None:
    monkeypatch.setattr(tally_module, "EVERY", 0.001)
    asked = threading.Event()

    def tell(done: int, known: int) -> None:
        asked.set()
        raise OSError("the front end is gone")

    tally = CallTally(tell)
    tally.expect(2)
    assert asked.wait(TIMEOUT)
    tally.count(2)
    assert eventually(lambda: not watchers())
