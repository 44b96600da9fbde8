"""Who looks on is told all that changes, nothing twice, at its own pace; and the history."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.core.conftest import Stage
from tests.unit.core.peers import Peer
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.history import SPAN, STEP
from workbench.core.snapshot import Change, Sample
from workbench.core.subscriptions import MOST
from workbench.units import PAGE


def told(s: Stage, peer: Peer, asks: bool = True) -> Change | None:
    """What it is told next, if anything."""
    peer.inbox = type(peer.inbox)(m for m in peer.inbox if not isinstance(m, do.Changed))
    if asks:
        peer.post(ev.Subscribe(3))
    s.turn()
    changes = [m for m in peer.inbox if isinstance(m, do.Changed)]
    assert len(changes) < 2
    assert all(message.request == 3 for message in changes)
    return changes[0].change if changes else None


def ids(change: Change | None) -> list[int]:
    assert change is not None
    return [record.id for record in change.objects]


def test_everything_at_first_then_only_what_changed(stage: Callable[..., Stage]) -> None:
    s = stage()
    owner, watcher = s.driver(), s.driver()
    first, second = owner.put(ev.Value(b"1"), "first"), owner.put(ev.Value(b"2"))
    everything = told(s, watcher)
    assert ids(everything) == [first, second]
    assert everything is not None
    assert everything.session.objects == ()
    assert everything.session.count == 2
    assert told(s, watcher) is None
    owner.drop(second)
    last = told(s, watcher, asks=False)
    assert last is not None
    assert (last.objects, last.gone) == ((), (second,))


def test_who_has_not_asked_is_told_nothing_and_later_the_sum(stage: Callable[..., Stage]) -> None:
    s = stage()
    owner, watcher = s.driver(), s.driver()
    told(s, watcher)
    kept = owner.put(ev.Value(b"1"))
    gone = owner.put(ev.Value(b"2"))
    s.turn()
    owner.post(ev.Bind("name", kept))
    owner.drop(gone)
    assert told(s, watcher, asks=False) is None
    change = told(s, watcher)
    assert change is not None
    assert [record.names for record in change.objects] == [("name",)]
    assert change.gone == ()  # it never knew of that one


def test_questions_change_nothing(stage: Callable[..., Stage]) -> None:
    s = stage()
    asker, watcher = s.driver(), s.driver()
    told(s, watcher)
    told(s, watcher)
    asker.post(ev.Ask(1, "snapshot"))
    asker.post(ev.Subscribe(1))
    assert told(s, watcher, asks=False) is None


def test_much_comes_in_pieces(stage: Callable[..., Stage]) -> None:
    s = stage()
    owner, watcher = s.driver(), s.driver()
    all_of_them = [owner.put(ev.Value(b"x")) for _ in range(2 * MOST + 1)]
    found: list[int] = []
    for left in (MOST + 1, 1, 0):
        change = told(s, watcher)
        assert change is not None
        assert change.left == left
        found += ids(change)
    assert found == all_of_them
    assert told(s, watcher) is None


def test_what_a_worker_reads_is_resident_until_it_has(stage: Callable[..., Stage]) -> None:
    s = stage()
    driver, worker = s.driver(), s.worker()
    function = driver.put(ev.Value(b"f"))
    data = driver.put(ev.Value(b"data"))

    def strength() -> str | None:
        change = told(s, driver)
        found = [r.strength for r in change.objects if r.id == data] if change else []
        return found[0] if found else None

    assert strength() == "alive"
    driver.submit(function, (data,), ())
    s.all_read()
    assert strength() == "resident"
    worker.finish((ev.Value(b"N"),), 0.1)
    s.all_read()
    assert strength() == "alive"


def test_nothing_is_noted_when_nobody_watches(stage: Callable[..., Stage]) -> None:
    s = stage()
    owner, watcher, other = s.driver(), s.driver(), s.driver()
    told(s, watcher)
    told(s, other)
    watcher.post(ev.Subscribe(3, on=False))
    s.leave(other)
    assert not s.session.subscriptions.is_open
    owner.put(ev.Value(b"x"))
    s.turn()
    assert s.session.state.catalog.touched is None


def history(s: Stage, watcher: Peer) -> tuple[Sample, ...]:
    change = told(s, watcher)
    assert change is not None
    return change.session.history


def test_the_history_goes_on_from_where_it_was_told(stage: Callable[..., Stage]) -> None:
    s = stage(capacity=8 * PAGE)
    owner, watcher = s.driver(), s.driver()
    s.turn(after=100.0)
    first = owner.put(ev.Value(b"x" * 10))
    s.turn()
    owner.put(ev.Value(b"x" * 5))
    s.turn(after=STEP)
    owner.drop(first)
    told_first = history(s, watcher)
    assert told_first[-2:] == (Sample(STEP, 10, 0, 1, 0, 0), Sample(0.0, 5, 0, 2, 1, 0))
    owner.put(ev.Value(b"x"))
    s.turn(after=STEP)
    assert [sample.puts for sample in history(s, watcher)] == [3]


def test_the_history_forgets(stage: Callable[..., Stage]) -> None:
    s = stage()
    owner, watcher = s.driver(), s.driver()
    for _ in range(int(2 * SPAN / STEP)):
        owner.put(ev.Value(b"x"))
        s.turn(after=STEP)
    samples = history(s, watcher)
    assert SPAN <= samples[0].age <= SPAN + 2 * STEP
    assert len(samples) <= SPAN / STEP + 4
