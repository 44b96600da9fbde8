"""Who looks on is told all that changes, nothing twice, at its own pace; and the history. One
object, or the session, at a glance: right, and no dearer when there are many objects."""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Drivers, Make, Pair, Stage
from tests.unit.core.peers import Peer, of, runs
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.descriptions import ObjectDescription, TaskRecord
from workbench.core.history import STEP
from workbench.core.snapshot import HISTORY_SECONDS, Change, ClientRecord, Sample, Snapshot
from workbench.core.snapshot_builder import MOST_NAMED, names_with, take_snapshot
from workbench.core.subscriptions import MOST
from workbench.format import OWN
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


def asked(s: Stage, peer: Peer, what: str, id: int = 0, name: str = "") -> do.Answer:
    peer.inbox.clear()
    s.say(peer, ev.Ask(7, what, id, name))
    (answer,) = of(do.Answer, peer.inbox)
    assert answer.request == 7
    return answer


def described(s: Stage, peer: Peer, id: int) -> ObjectDescription:
    description = asked(s, peer, "describe", id).description
    assert description is not None
    return description


def test_an_object_and_who_holds_it(drivers: Drivers) -> None:
    s, (owner, asker, _bystander) = drivers(3)
    id = s.hears(owner.put(ev.Value(b"x"), "name"))
    asker.borrow((id,))
    found = described(s, asker, id)
    record = found.object
    assert (record.id, record.state, record.names, record.size) == (id, "ready", ("name",), 1)
    assert found.clients == (
        ClientRecord(owner.number, 1000 + owner.number, "driver", "", owner.number),
        ClientRecord(asker.number, 1000 + asker.number, "driver", "", asker.number),
    )
    assert found.task is None
    assert found.actor is None


def test_what_is_not_there_and_what_was_freed(drivers: Drivers) -> None:
    s, (driver,) = drivers()
    assert asked(s, driver, "describe", 99).description is None
    freed, dropped = driver.put(ev.Value(b"x")), driver.put(ev.Value(b"x"))
    driver.post(ev.Free((freed,)))
    assert described(s, driver, freed).object.state == "freed"
    described(s, driver, dropped)
    driver.drop(dropped)
    assert asked(s, driver, "describe", dropped).description is None, "asking pins nothing"


def test_the_task_that_is_to_make_it(pair: Pair) -> None:
    s, driver, worker = pair(workers=1)
    function = s.function(driver)
    running = driver.submit(function, (), (), returns=2, name="runs")
    queued = driver.submit(function, (), (), name="queued")
    waiting = s.hears(driver.submit(function, (running[0],), (), name="waits"))
    for id, expected in (
        (running[0], TaskRecord("runs", "running", worker.worker)),
        (running[1], TaskRecord("runs", "running", worker.worker)),
        (queued[0], TaskRecord("queued", "queued")),
        (waiting[0], TaskRecord("waits", "waiting")),
    ):
        found = described(s, driver, id)
        assert found.task == expected
        assert found.object.state == "pending"


def test_what_was_sent_ahead_is_not_called_running(pair: Pair) -> None:
    s, driver, worker = pair(workers=1)
    function = s.function(driver, seconds=1e-6)
    tasks = s.hears([driver.submit(function, (), (), name="f")[0] for _ in range(2)])
    assert runs(worker) == tasks
    for id, state in zip(tasks, ("running", "queued"), strict=True):
        assert described(s, driver, id).task == TaskRecord("f", state, worker.worker)


def test_an_actor_by_its_handle(drivers: Drivers) -> None:
    s, (driver,) = drivers()
    handle = driver.create(s.function(driver), restarts=2, name="actor:tally")
    actor = described(s, driver, handle).actor
    assert actor is not None
    assert (actor.cls, actor.names, actor.restarts) == ("Actor", ("actor:tally",), 2)


def overview(s: Stage, peer: Peer) -> Snapshot:
    snapshot = asked(s, peer, "overview").snapshot
    assert snapshot is not None
    return snapshot


def test_an_overview_lists_what_has_a_name_and_counts_the_rest(drivers: Drivers) -> None:
    s, (driver,) = drivers(workers=2)
    for _ in range(100):
        driver.put(ev.Value(b"x"))
    named = driver.put(ev.Value(b"x"), "one")
    driver.post(ev.Bind("another", named))
    found = overview(s, driver)
    assert [record.names for record in found.objects] == [("one", "another")]
    assert found.count == 101
    whole = take_snapshot(s.session.state)
    assert whole.count == len(whole.objects) == 101
    assert (found.capacity, found.workers, found.clients) == (
        whole.capacity, whole.workers, whole.clients,
    )  # fmt: skip
    for n in range(2 * MOST_NAMED):
        driver.put(ev.Value(b"x"), f"name {n}")
    found = overview(s, driver)
    assert len(found.objects) <= MOST_NAMED
    assert found.names == 2 * MOST_NAMED + 2


def test_workbenchs_own_objects_are_not_counted(drivers: Drivers) -> None:
    s, (driver,) = drivers()
    own = driver.put(ev.Value(b"x"), about=ev.About(f"{OWN}run_cell", 1, 1, 0, 0.0, 0.0))
    driver.put(ev.Value(b"x"))
    assert overview(s, driver).count == 1
    driver.drop(own)
    assert overview(s, driver).count == 1


def test_names_by_their_beginning_and_not_very_many(drivers: Drivers) -> None:
    s, (driver,) = drivers()
    for name in ("train", "test", "trial"):
        driver.put(ev.Value(b"x"), name)
    assert asked(s, driver, "names", name="tr").names == ("train", "trial")
    assert len(asked(s, driver, "names").names) == 3
    assert names_with(s.session.state, "", most=2) == ("train", "test")


def test_why_takes_a_name_too(drivers: Drivers) -> None:
    s, (driver, other) = drivers(2)
    id = driver.put(ev.Value(b"x"), "name")
    driver.drop(id)
    account = asked(s, other, "why", name="name").account
    assert account is not None
    assert account.object.id == id
    assert asked(s, other, "why", name="nobody").account is None
