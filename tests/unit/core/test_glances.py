"""One object, or the session, at a glance: right, and no dearer when there are many objects."""

from __future__ import annotations

from tests.unit.core.conftest import Drivers, Pair, Stage
from tests.unit.core.peers import Peer, of, runs
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.descriptions import ObjectDescription, TaskRecord
from workbench.core.snapshot import ClientRecord, Snapshot
from workbench.core.snapshot_builder import MOST_NAMED, names_with, take_snapshot
from workbench.format import OWN


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
