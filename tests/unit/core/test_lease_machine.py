"""Random tasks by leases and through the server: what the server knows late is late, never wrong.

Each task begins at most as often as it may, after all that its driver had said before it, and has
one end; nothing waits behind what came by a lease; whoever waits for a worker gets it, whatever
dies, at any moment, and however late anybody reads. And the machine sees the faults that it is
there for.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from tests.patience import THOROUGH
from tests.unit.core.direct_faults import FAULTS, Fault
from tests.unit.core.direct_machine import HOW, DirectMachine, Nothing
from tests.unit.core.lease_peers import Driver, Lease, PoolProcess
from tests.unit.core.line_peers import Wire
from tests.unit.core.peers import Peer
from workbench.core import events as ev
from workbench.core import instructions as do


class LeaseMachine(DirectMachine[Driver, PoolProcess]):
    """A pool of one worker or two, and two functions."""

    GOODBYE = "not needed any more"

    def __init__(self, chance: Random) -> None:
        super().__init__(chance, workers=chance.choice([1, 1, 2]))
        self.leases = 0
        first, second = self.drivers
        self.functions = [first.peer.put(ev.Value(b"a function")) for _ in range(2)]
        second.peer.borrow(tuple(self.functions))
        self.obey([do.Fork(worker) for worker in self.stage.starting])
        self.turn()
        self.one_by_one(first, self.functions[0])
        reads, waits = (  # first: by chance alone they take many steps to come about
            self.a_task_reads_what_others_let_go_of,
            self.a_task_waits_when_the_end_of_the_last_is_said,
        )
        with suppress(Nothing):
            self.pick([reads, reads, waits])()

    def newcomer(self) -> Driver:
        return Driver(self.stage.driver(linger=5.0), self.wires)

    def joins(self, worker: int, peer: Peer) -> None:
        self.processes[worker] = PoolProcess(peer, self.wires)

    def new_wire(self, number: int) -> Wire:
        self.leases += 1
        return Lease(number)

    @property
    def ways(self) -> list[Callable[[], object]]:
        return [
            *super().ways, self.somebody_submits, self.somebody_submits, self.one_after_the_other,
            self.somebody_needs_a_result, self.somebody_speaks, self.somebody_reads,
            self.somebody_reads_its_line, self.a_worker_reads, self.a_task_begins,
            self.a_task_ends, self.a_task_waits, *[self.a_lease_is_used] * 5,
            self.an_object_is_used, self.an_object_is_used,
            self.a_task_waits_when_the_end_of_the_last_is_said,
        ]  # fmt: skip

    def submit(self, driver: Driver, function: int, deps: tuple[int, ...] = ()) -> int:
        retries = self.chance.randrange(2)
        task = driver.submit(function, deps, retries)
        self.asked[task], self.retries[task] = driver, retries
        return task

    def somebody_submits(self) -> None:
        driver, function = self.pick(self.drivers), self.pick(self.functions)
        for _ in range(self.chance.choice([1, 1, 2, 3, 5])):
            self.submit(driver, function)

    def one_after_the_other(self) -> None:
        self.one_by_one(self.pick(self.drivers), self.pick(self.functions))

    def one_by_one(self, driver: Driver, function: int, deps: tuple[int, ...] = ()) -> None:
        """What makes leases: tasks, each over before the next."""
        for _ in range(self.chance.choice([4, 6])):
            self.all_is_read()
            if driver in self.drivers:
                deps = tuple(id for id in deps if driver.peer.holds[id])
                task = self.submit(driver, function, deps)
                self.turn()
                self.work(self.chance.choice([HOW, ("direct",)]))
                if self.once_in(2) and driver in self.drivers and driver.has(task):
                    driver.drop(task)

    def an_object_is_used(self) -> None:
        """By tasks, one after the other, until some of them go by a lease; others may have it."""
        driver, other = self.pick(self.drivers), self.pick(self.drivers)
        id = self.an_object_of(driver)
        may_borrow = other is not driver and other in self.drivers and not other.peer.holds[id]
        if may_borrow and self.once_in(3):
            driver.say()
            other.say()
            other.peer.borrow((id,))
        self.one_by_one(driver, self.pick(self.functions), (id,))
        self.a_lease_is_used()

    def reader(self) -> tuple[Driver, PoolProcess, int]:
        driver, function = self.pick(self.drivers), self.pick(self.functions)
        self.all_is_read()
        id = self.an_object_is_put(driver)
        self.one_by_one(driver, function, (id,))
        self.all_is_read()
        process = self.at(driver.lease_for(function, (id,)))
        self.submit(driver, function, (id,))
        return driver, process, id

    def is_let_go_of(self, driver: Driver, process: PoolProcess, id: int) -> None:
        super().is_let_go_of(driver, process, id)
        if driver not in self.drivers and self.once_in(2):
            self.may_wait(process)

    def may_wait(self, process: PoolProcess) -> None:
        alive = self.is_alive(process) and len(self.processes) < 6
        if alive and self.can_end(process) and not process.stopped:
            process.waits_for_one(self.pick(self.functions))

    def a_lease_is_used(self) -> None:
        """And what happens then, before the server hears of it."""
        chance, driver, function = self.chance, self.pick(self.drivers), self.pick(self.functions)
        if driver.lease_for(function) is None and self.once_in(2):
            self.one_by_one(driver, function)
            self.all_is_read()
        lease = driver.lease_for(function)
        if lease is None or driver not in self.drivers:
            return
        given = lease.objects[:2] if chance.randrange(3) else ()
        for _ in range(chance.randrange(1, 5)):
            if self.once_in(6):
                driver.speak()
            deps = tuple(id for id in given if driver.peer.holds[id])
            task = self.submit(driver, function, deps)
            if deps and self.once_in(4):
                driver.say()
                driver.peer.drop(deps[0])
            if all(number != task for *_, number in lease.calls):
                return
            if self.once_in(3):
                self.turn()
            process = self.at(lease)
            process.drain()
            if self.once_in(2):
                driver.say()
                self.turn()
            if not self.can_begin(process):
                return
            self.begins(process)
            match chance.randrange(6):
                case 0:
                    self.dies(process.peer.worker)
                    return
                case 1 | 2:
                    process.waits_for_one(function)
                    if self.once_in(2):
                        driver.say()
                    return
                case _ if self.can_end(process):
                    self.ends(process)
                    driver.read_line(lease)
            if self.once_in(3) and driver.has(task):
                driver.drop(task)

    def a_task_waits_when_the_end_of_the_last_is_said(self) -> None:
        driver, function = self.pick(self.drivers), self.pick(self.functions)
        self.one_by_one(driver, function)
        self.all_is_read()
        wire = driver.lease_for(function)
        process = self.at(wire)
        if wire is None or driver not in self.drivers or len(self.processes) > 5:
            return
        for is_last in (False, True):
            self.submit(driver, function)
            process.drain()
            if not self.can_begin(process):
                return
            self.begins(process)
            if is_last:
                process.waits_for_one(function)
            else:
                driver.say()
                self.turn()
                self.ends(process)
                driver.read_line(wire)
            self.turn()
        driver.say()

    def somebody_needs_a_result(self) -> None:
        task, driver = self.pick(self.held)
        other = self.pick(self.drivers)
        driver.say()
        if other is not driver:
            other.say()
            other.peer.borrow((task,))
        self.submit(other, self.functions[0], (task,))

    def somebody_speaks(self) -> None:
        self.pick(self.drivers).speak()

    def began(self, process: PoolProcess, task: int, wire: Wire | None) -> None:
        process.latest = task
        driver = self.asked.get(task)
        if isinstance(driver, Driver) and driver in self.drivers and driver.serializer:
            told = process.told.get(driver.serializer, 0)
            assert told >= driver.registered_by[task], "before what its driver had said"

    def a_task_waits(self) -> None:
        self.may_wait(self.pick(self.processes.values()))

    def kill(self, driver: Driver) -> None:
        self.turn()
        if self.once_in(2):
            driver.say()
        self.drivers.remove(driver)
        self.drivers.append(self.newcomer())
        self.drivers[1].peer.borrow(tuple(self.functions))
        self.obey(self.stage.leave(driver.peer))

    def come_to_an_end(self) -> None:
        super().come_to_an_end()
        session = self.stage.session
        lent = {w.client for w in session.state.scheduler.pool.values() if w.lease is not None}
        leases = {line.worker.client for line in session.lines.leases.values()}
        assert lent == leases, "lent to nobody"

    def all_go(self) -> None:
        for driver in list(self.drivers):
            self.drivers.remove(driver)
            driver.say()
            self.obey(self.stage.leave(driver.peer))
        self.work()
        for process in list(self.processes.values()):
            while process.shows:
                process.lets_go()
        self.work()
        session = self.stage.session
        assert not session.lines.leases
        assert all(w.idle and w.lease is None for w in session.state.scheduler.pool.values())


def walks(number: int) -> tuple[int, int]:
    """Returns how many leases there were, and how many tasks by them read an object."""
    leases = by_reference = 0
    for seed in range(number):
        machine = LeaseMachine(Random(seed))
        by_reference += machine.walk(60)
        leases += machine.leases
    return leases, by_reference


def test_walks() -> None:
    number = 4000 if THOROUGH else 8
    leases, by_reference = walks(number)
    assert leases > number
    assert by_reference > number


@pytest.mark.extended
@pytest.mark.parametrize("fault", FAULTS["leases"])
def test_a_fault_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        walks(300)
