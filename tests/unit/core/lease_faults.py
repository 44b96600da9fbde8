"""Deliberate faults of the core and of leases' ends: what `test_lease_machine` is there to find."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.core.lease_peers import Driver, Lease, PoolProcess, Wire
from tests.unit.core.line_peers import Process
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.blocking import Blocking
from workbench.core.catalog import Catalog
from workbench.core.entry import Entry
from workbench.core.leases import LeaseManager
from workbench.core.lines import LineManager
from workbench.core.scheduler import Scheduler
from workbench.core.spilling import Spilling
from workbench.core.state import ClientState
from workbench.core.task_manager import TaskManager
from workbench.core.tasks import Line, Task, Worker


def a_worker_that_is_lent_looks_idle(patch: pytest.MonkeyPatch) -> None:
    def lend(scheduler: Scheduler, worker: Worker, line: Line) -> None:
        before(scheduler, worker, line)
        assert worker.client is not None
        scheduler.idle[worker.client] = worker

    before = Scheduler.lend
    patch.setattr(Scheduler, "lend", lend)


def nobody_gets_a_lent_worker_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseManager, "_wanted", lambda *_: None)


def a_lease_counts_as_returned_when_asked_for(patch: pytest.MonkeyPatch) -> None:
    def take_back(leases: LeaseManager, line: Line) -> None:
        before(leases, line)
        line.is_returned = True
        leases._scheduler.look(line.worker)

    before = LeaseManager._take_back
    patch.setattr(LeaseManager, "_take_back", take_back)


def a_worker_returns_a_lease_while_it_works(patch: pytest.MonkeyPatch) -> None:
    def give_back(process: PoolProcess, wire: Wire) -> None:
        if wire in process.closing - process.returned:
            process.returned.add(wire)
            process.peer.post(ev.Returned(wire.number))

    patch.setattr(PoolProcess, "give_back", give_back)


def what_was_on_its_way_is_lost_with_the_lease(patch: pytest.MonkeyPatch) -> None:
    def read(process: PoolProcess) -> None:
        message = process.peer.inbox[0]
        if isinstance(message, do.TakeBack) and message.line in process.wires:
            process.wires[message.line].calls.clear()
        before(process)

    before = PoolProcess.read
    patch.setattr(PoolProcess, "read", read)


def what_a_dead_worker_had_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TaskManager, "_lease_closed", lambda *_: None)


def what_a_dead_worker_had_always_runs_again(patch: pytest.MonkeyPatch) -> None:
    def closed(tasks: TaskManager, line: Line) -> None:
        lost = list(line.tasks.values())
        for task in lost:
            line.leave(task)
        tasks._give_back(lost)

    patch.setattr(TaskManager, "_lease_closed", closed)


def a_task_overtakes_what_its_driver_said(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseManager, "spoke", lambda *_: None)

    def lease_for(driver: Driver, function: int, deps: tuple[int, ...] = ()) -> Lease | None:
        wire = driver.wires.get(0)
        usable = isinstance(wire, Lease) and not (wire.unanswered or wire.is_shut)
        good = usable and function in wire.functions  # type: ignore[union-attr]
        return wire if good and not deps else None  # type: ignore[return-value]

    patch.setattr(Driver, "lease_for", lease_for)


def a_lease_counts_that_was_made_before_its_driver_spoke(patch: pytest.MonkeyPatch) -> None:
    def goes(driver: Driver, task: int) -> None:
        driver.fresh_after = driver.spoken

    patch.setattr(Driver, "goes_through_server", goes)
    patch.setattr(LeaseManager, "spoke", lambda *_: None)


def two_tasks_at_a_time(patch: pytest.MonkeyPatch) -> None:
    def lease_for(driver: Driver, function: int, deps: tuple[int, ...] = ()) -> Lease | None:
        wire = driver.wires.get(0)
        if not isinstance(wire, Lease) or not wire.is_granted or wire.is_shut:
            return None
        good = function in wire.functions and driver.fresh_after == driver.spoken
        return wire if good and not deps else None

    patch.setattr(Driver, "lease_for", lease_for)


def a_task_that_is_not_known_yet_lends_no_slot(patch: pytest.MonkeyPatch) -> None:
    def may_run(_: Blocking, worker: Worker, task: int) -> bool:
        return worker.running is not None and worker.running.submit.task == task

    patch.setattr(Blocking, "_may_run", may_run)


def a_task_whose_driver_is_gone_lends_no_slot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LineManager, "is_in_use", lambda *_: True)


def nobody_is_asked_to_report(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LineManager, "_report", lambda *_: None)


def a_killed_drivers_lease_is_never_over(patch: pytest.MonkeyPatch) -> None:
    def read(process: PoolProcess) -> None:
        message = process.peer.inbox[0]
        if isinstance(message, do.Detach):
            process.closing.add(process.wires[message.line])
        before(process)

    before = PoolProcess.read
    patch.setattr(PoolProcess, "read", read)


def the_end_of_an_older_task_ends_a_newer_ones_wait(patch: pytest.MonkeyPatch) -> None:
    def unsend(scheduler: Scheduler, worker: Worker, task: Task) -> None:
        if worker.waits and worker.running is task:
            scheduler._waits.end_all(worker)
            scheduler.look(worker)
        before(scheduler, worker, task)

    before: Any = Scheduler._unsend
    patch.setattr(Scheduler, "_unsend", unsend)


def what_is_lent_goes_when_it_is_dropped(patch: pytest.MonkeyPatch) -> None:
    def settle(catalog: Catalog, entry: Entry) -> None:
        lent, catalog.lent = catalog.lent, {}
        before(catalog, entry)
        catalog.lent = {id: n for id, n in lent.items() if id in catalog}

    before = Catalog.settle
    patch.setattr(Catalog, "settle", settle)
    patch.setattr(Catalog, "unlend", lambda catalog, one: catalog.lent.pop(one, None))


def what_is_lent_moves(patch: pytest.MonkeyPatch) -> None:
    def settle(spilling: Spilling) -> None:
        lent, spilling._catalog.lent = spilling._catalog.lent, {}
        before(spilling)
        spilling._catalog.lent = lent

    before = Spilling.settle
    patch.setattr(Spilling, "settle", settle)


def what_is_lent_is_free_as_soon_as_it_is_asked_for(patch: pytest.MonkeyPatch) -> None:
    def take_back(leases: LeaseManager, line: Line) -> None:
        before(leases, line)
        leases._lines._unlend(line)

    before = LeaseManager._take_back
    patch.setattr(LeaseManager, "_take_back", take_back)


def a_worker_says_nothing_of_what_it_still_reads(patch: pytest.MonkeyPatch) -> None:
    def returned(lines: LineManager, client: ClientState, event: ev.Returned) -> None:
        before(lines, client, msgspec.structs.replace(event, kept=()))

    before = LineManager.returned
    patch.setattr(LineManager, "returned", returned)


def what_a_killed_driver_was_lent_is_free_at_once(patch: pytest.MonkeyPatch) -> None:
    def detach(lines: LineManager, line: Line) -> None:
        lines._unlend(line)
        before(lines, line)

    before = LineManager._detach
    patch.setattr(LineManager, "_detach", detach)


def what_was_dropped_is_never_asked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseManager, "_object_wanted", lambda *_: None)


def what_a_dead_worker_was_lent_stays(patch: pytest.MonkeyPatch) -> None:
    def lost(lines: LineManager, worker: Worker, crash: str, words: str, running: int) -> None:
        lending, lines._state.lending = lines._state.lending, {}
        before(lines, worker, crash, words, running)
        lines._state.lending = lending

    before = LineManager.lost
    patch.setattr(LineManager, "lost", lost)


def a_worker_reads_memory_that_it_was_not_sent(patch: pytest.MonkeyPatch) -> None:
    def connect(lines: LineManager, *what: Any) -> Line:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(type(lines._state), "share", lambda *_: None)
            return before(lines, *what)

    before = LineManager.connect
    patch.setattr(LineManager, "connect", connect)


def an_array_that_outlives_its_task_is_never_heard_of(patch: pytest.MonkeyPatch) -> None:
    def keeps(process: Process, id: int, value: ev.Value) -> None:
        process.shows.append((id, value))

    patch.setattr(Process, "keeps", keeps)


def a_driver_gives_what_it_was_not_lent(patch: pytest.MonkeyPatch) -> None:
    def lease_for(driver: Driver, function: int, deps: tuple[int, ...] = ()) -> Lease | None:
        return before(driver, function)

    before = Driver.lease_for
    patch.setattr(Driver, "lease_for", lease_for)


FAULTS = [
    what_is_lent_goes_when_it_is_dropped, what_is_lent_moves,
    what_is_lent_is_free_as_soon_as_it_is_asked_for, a_worker_says_nothing_of_what_it_still_reads,
    what_a_killed_driver_was_lent_is_free_at_once, what_was_dropped_is_never_asked_for,
    what_a_dead_worker_was_lent_stays, a_worker_reads_memory_that_it_was_not_sent,
    an_array_that_outlives_its_task_is_never_heard_of, a_driver_gives_what_it_was_not_lent,
    a_worker_that_is_lent_looks_idle, nobody_gets_a_lent_worker_back,
    a_lease_counts_as_returned_when_asked_for, a_worker_returns_a_lease_while_it_works,
    what_was_on_its_way_is_lost_with_the_lease, what_a_dead_worker_had_is_forgotten,
    what_a_dead_worker_had_always_runs_again, a_task_overtakes_what_its_driver_said,
    a_lease_counts_that_was_made_before_its_driver_spoke, two_tasks_at_a_time,
    a_task_that_is_not_known_yet_lends_no_slot, a_task_whose_driver_is_gone_lends_no_slot,
    nobody_is_asked_to_report,
    a_killed_drivers_lease_is_never_over, the_end_of_an_older_task_ends_a_newer_ones_wait,
]  # fmt: skip
