"""Who looks on is told all that changes, nothing twice, at its own pace; and the history."""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Drivers, Make, Stage
from tests.unit.core.peers import Peer, of
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.history import STEP
from workbench.core.snapshot import HISTORY_SECONDS, Change, Sample
from workbench.core.subscriptions import MOST
from workbench.system.sizes import PAGE


def told(s: Stage, peer: Peer, asks: bool = True) -> Change | None:
    """What it is told next, if anything."""
    peer.inbox = type(peer.inbox)(m for m in peer.inbox if not isinstance(m, do.Changed))
    if asks:
        peer.post(ev.Subscribe(3))
    s.turn()
    changes = of(do.Changed, peer.inbox)
    assert len(changes) < 2
    assert all(message.request == 3 for message in changes)
    return changes[0].change if changes else None


def ids(change: Change | None) -> list[int]:
    assert change is not None
    return [record.id for record in change.objects]


def test_questions_change_nothing(drivers: Drivers) -> None:
    s, (asker, subscriber) = drivers(2)
    told(s, subscriber)
    told(s, subscriber)
    asker.post(ev.Ask(1, "overview"))
    asker.post(ev.Subscribe(1))
    assert told(s, subscriber, asks=False) is None


def test_much_comes_in_pieces(drivers: Drivers) -> None:
    s, (owner, subscriber) = drivers(2)
    all_of_them = [owner.put(ev.Value(b"x")) for _ in range(2 * MOST + 1)]
    found: list[int] = []
    for left in (MOST + 1, 1, 0):
        change = told(s, subscriber)
        assert change is not None
        assert change.left == left
        found += ids(change)
    assert found == all_of_them
    assert told(s, subscriber) is None


def test_nothing_is_noted_when_nobody_subscribes(drivers: Drivers) -> None:
    s, (owner, subscriber, other) = drivers(3)
    told(s, subscriber)
    told(s, other)
    subscriber.post(ev.Subscribe(3, on=False))
    s.leave(other)
    assert not s.session.subscriptions.subscribers
    s.hears(owner.put(ev.Value(b"x")))
    assert s.session.state.catalog.touched is None


def history(s: Stage, subscriber: Peer) -> tuple[Sample, ...]:
    change = told(s, subscriber)
    assert change is not None
    return change.session.history


def test_the_history_goes_on_from_where_it_was_told(drivers: Drivers) -> None:
    s, (owner, subscriber) = drivers(2, capacity=8 * PAGE)
    s.turn(after=100.0)
    first = s.hears(owner.put(ev.Value(b"x" * 10)))
    owner.put(ev.Value(b"x" * 5))
    s.turn(after=STEP)
    owner.drop(first)
    told_first = history(s, subscriber)
    assert told_first[-2:] == (Sample(STEP, 10, 0, 1, 0, 0), Sample(0.0, 5, 0, 2, 1, 0))
    owner.put(ev.Value(b"x"))
    s.turn(after=STEP)
    assert [sample.puts for sample in history(s, subscriber)] == [3]


def test_the_history_forgets(drivers: Drivers) -> None:
    s, (owner, subscriber) = drivers(2)
    for _ in range(int(2 * HISTORY_SECONDS / STEP)):
        owner.put(ev.Value(b"x"))
        s.turn(after=STEP)
    samples = history(s, subscriber)
    assert HISTORY_SECONDS <= samples[0].age <= HISTORY_SECONDS + 2 * STEP
    assert len(samples) <= HISTORY_SECONDS / STEP + 4


def looked(s: Stage, peer: Peer, search: ev.Search | None = None) -> Change:
    """The next part of a look at all there is."""
    peer.inbox.clear()
    s.say(peer, ev.Subscribe(5, once=True, search=search))
    (message,) = of(do.Changed, peer.inbox)
    assert message.request == 5
    return message.change


def test_a_look_tells_all_there_is_in_parts_and_no_changes(drivers: Drivers) -> None:
    s, (owner, looker) = drivers(2)
    first, *others = [owner.put(ev.Value(b"x")) for _ in range(MOST + 2)]
    parts = [looked(s, looker)]
    assert s.session.state.catalog.touched is None
    owner.drop(others[-1])  # gone before it was told
    owner.put(ev.Value(b"too late"))
    parts.append(looked(s, looker))
    assert [change.left for change in parts] == [2, 0]
    assert [record.id for change in parts for record in change.objects] == [first, *others[:-1]]
    assert parts[1].gone == ()
    assert looked(s, looker).left == 2  # begins anew


def test_a_look_that_nobody_goes_on_with_is_forgotten(drivers: Drivers) -> None:
    s, (owner, looker, other) = drivers(3)
    for _ in range(MOST + 1):
        owner.put(ev.Value(b"x"))
    assert looked(s, looker).left == looked(s, other).left == 1
    looker.post(ev.Subscribe(5, on=False))
    s.leave(other)
    assert not s.session.subscriptions.looks


def test_who_changes_or_goes_before_a_first_part_has_it(drivers: Drivers) -> None:
    s, (owner, subscriber) = drivers(2)
    *early, renamed, gone = [owner.put(ev.Value(b"x")) for _ in range(MOST + 2)]
    assert ids(told(s, subscriber)) == early
    owner.post(ev.Bind("name", renamed))
    owner.drop(gone)
    s.turn()
    change = told(s, subscriber)
    assert ids(change) == [renamed]
    assert change is not None
    assert change.objects[0].names == ("name",)
    assert (change.gone, change.left) == ((), 0)  # it never knew of that one


@pytest.mark.parametrize(
    ("search", "first"),
    [
        (ev.Search(most=2), [2, 3]),
        (ev.Search(order="age", most=2), [0, 1]),
        (ev.Search(order="name", most=2), [3, 1]),
        (ev.Search(order="type", most=1), [4]),
        (ev.Search("b*"), [1]),
        (ev.Search("arr*"), [4]),
        (ev.Search("th*", "name"), [3, 1, 0, 2]),
        (ev.Search("nothing"), []),
    ],
)
def test_a_search_finds_some_of_all(drivers: Drivers, search: ev.Search, first: list[int]) -> None:
    s, (owner,) = drivers()
    sizes, names = (1, 2, 9, 3, 2), ("", "b", "", "a", "c")
    about = ev.About("array", 2, 0, 0, 0.0, 0.0)
    there = [
        owner.put(ev.Value(b"x" * size), name, about if name == "c" else None)
        for size, name in zip(sizes, names, strict=True)
    ]
    s.turn()
    found = looked(s, owner, search)
    assert [there.index(record.id) for record in found.objects] == first
    assert found.left == 0
    if not search.pattern:
        assert found.others == 5 - len(first)
        assert found.others_size == sum(sizes) - sum(record.size for record in found.objects)


def test_a_search_goes_through_all_a_slice_at_a_time(stage: Make) -> None:
    s = stage()
    s.session.subscriptions.searched = 3
    owner = s.driver()
    there = [owner.put(ev.Value(b"x" * size)) for size in (5, 1, 4, 2, 3)]
    parts = [looked(s, owner, ev.Search(most=1)) for _ in range(2)]
    assert [ids(part) for part in parts] == [[there[0]], [there[4]]]
    assert [(part.left, part.others, part.others_size) for part in parts] == [(2, 2, 5), (0, 1, 2)]
