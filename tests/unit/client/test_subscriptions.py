"""One who follows a session's changes: when it asks, and when it is let go. No socket."""

from __future__ import annotations

from workbench.client.subscriptions import Subscription
from workbench.core import events as ev
from workbench.core.snapshot import Change, Snapshot

CHANGE = Change(Snapshot("s", 0, 0, 0, 0, 0, (), (), ()), (), (7,))


class Line:
    def __init__(self) -> None:
        self.told: list[ev.Event] = []
        self.gone: list[int] = []
        self.changes = Subscription(3, self.told.append, self.gone.append)


def test_it_asks_once_for_each_change() -> None:
    line = Line()
    assert line.changes.next(0.0) is None
    assert line.changes.next(0.0) is None
    line.changes.came(CHANGE)
    found = line.changes.next(0.0)
    assert found is not None
    assert found.gone == (7,)
    assert line.told == [ev.Subscribe(3)]
    assert line.changes.next(0.0) is None
    assert line.told == [ev.Subscribe(3)] * 2


def test_however_often_it_is_roused_the_change_behind_comes_first() -> None:
    line = Line()
    for _ in range(3):
        line.changes.interrupt()
    line.changes.came(CHANGE)
    assert line.changes.next(0.0) is not None
    line.changes.interrupt()
    assert line.changes.next() is None


def test_after_close_nothing_is_asked_any_more() -> None:
    line = Line()
    line.changes.close()
    assert line.changes.next() is None
    assert line.changes.next() is None
    assert line.told == [ev.Subscribe(3, on=False)]
    assert line.gone == [3]
    assert line.changes.is_over
