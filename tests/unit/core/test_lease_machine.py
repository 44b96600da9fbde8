"""Random tasks by leases and through the server: what the server knows late is late, never wrong.

Each task begins at most as often as it may, after all that its driver had said before it, and has
one end; nothing waits behind what came by a lease; whoever waits for a worker gets it, whatever
dies, at any moment, and however late anybody reads. And the machine sees the faults that it is
there for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import TypeVar

import pytest

from tests.patience import THOROUGH
from tests.unit.core.conftest import Stage
from tests.unit.core.lease_faults import FAULTS
from tests.unit.core.lease_peers import NO_ACTOR, Driver, PoolProcess, Wire, new_lease
from tests.unit.core.line_peers import CANCELLED
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import Left, WorkerExited

T = TypeVar("T")
NONE = ev.Value(b"N")
HOW = ["direct", "direct", "direct", "told", "relay"]


def pick(chance: Random, choices: Iterable[T]) -> T:
    found = list(choices)
    return found[chance.randrange(len(found))]


class LeaseMachine:
    """Two drivers, others that are killed, a pool of one worker or two, and two functions."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.stage = Stage(chance.choice([1, 1, 2]), 1 << 20)
        self.wires: dict[int, Wire] = {}
        self.drivers = [self.newcomer() for _ in range(2)]
        self.processes: dict[int, PoolProcess] = {}
        self.functions = [self.drivers[0].peer.put(ev.Value(b"a function")) for _ in range(2)]
        self.drivers[1].peer.borrow(tuple(self.functions))
        self.tasks: dict[int, Driver] = {}
        self.retries: dict[int, int] = {}
        self.times: Counter[int] = Counter()
        self.leases = 0
        for number in list(self.stage.starting):
            self.obey([do.Fork(number)])
        self.turn()
        self.one_by_one(self.drivers[0], self.functions[0])

    def newcomer(self) -> Driver:
        return Driver(self.stage.driver(linger=5.0), self.wires)

    def turn(self) -> None:
        self.obey(self.stage.turn())

    def obey(self, out: list[do.Anything]) -> None:
        for instruction in out:
            match instruction:
                case do.Fork(worker):
                    self.stage.starting.remove(worker)
                    peer = self.stage.connect(worker)
                    self.processes[worker] = PoolProcess(peer, self.wires)
                case do.Connect(line, worker):
                    self.leases += 1
                    self.wires[line] = new_lease(line)
                    self.stage.peers[worker].inbox.append(do.Attach(line))
                case do.Kill(worker) if worker in self.processes:
                    self.dies(worker)
                case do.Hangup(client, reason):
                    gone = [n for n, p in self.processes.items() if p.peer.number == client]
                    assert gone, reason
                    assert reason == "not needed any more", reason
                    for worker in gone:
                        self.dies(worker)

    def dies(self, worker: int) -> None:
        process = self.processes.pop(worker)
        del self.stage.peers[process.peer.number]
        self.stage.post(0, WorkerExited(worker, -9, running=process.latest))
        process.peer.post(Left())
        self.turn()

    # -- steps ------------------------------------------------------------------------------------

    def walk(self, steps: int) -> None:
        ways = [
            self.somebody_submits, self.somebody_submits, self.somebody_submits_much,
            self.one_after_the_other, self.somebody_needs_a_result, self.somebody_speaks,
            self.somebody_cancels, self.a_driver_says, self.a_driver_reads, self.a_driver_reads,
            self.a_driver_reads_its_lease, self.a_driver_reads_its_lease, self.a_result_is_dropped,
            self.a_worker_reads, self.a_worker_reads, self.a_worker_reads_its_leases,
            self.a_task_begins, self.a_task_begins, self.a_task_ends, self.a_task_ends,
            self.a_task_waits, self.a_lease_is_used, self.a_lease_is_used, self.a_worker_dies,
            self.a_driver_is_killed, self.all_is_read, self.come_to_an_end,
        ]  # fmt: skip
        for _ in range(steps):
            pick(self.chance, ways)()
            self.turn()

    def submit(self, driver: Driver, function: int, deps: tuple[int, ...] = ()) -> int:
        retries = self.chance.randrange(2)
        task = driver.submit(function, deps, retries)
        self.tasks[task], self.retries[task] = driver, retries
        return task

    def somebody_submits(self) -> None:
        self.submit(pick(self.chance, self.drivers), pick(self.chance, self.functions))

    def somebody_submits_much(self) -> None:
        driver, function = pick(self.chance, self.drivers), pick(self.chance, self.functions)
        for _ in range(self.chance.randrange(2, 6)):
            self.submit(driver, function)

    def one_after_the_other(self) -> None:
        self.one_by_one(pick(self.chance, self.drivers), pick(self.chance, self.functions))

    def one_by_one(self, driver: Driver, function: int) -> None:
        """What makes leases: tasks, each over before the next."""
        for _ in range(self.chance.choice([4, 6])):
            self.all_is_read()
            if driver in self.drivers:
                task = self.submit(driver, function)
                self.turn()
                self.work(self.chance.choice([HOW, ["direct"]]))
                if self.chance.randrange(2) and driver in self.drivers and driver.has(task):
                    driver.drop(task)

    def a_lease_is_used(self) -> None:
        """And what happens then, before the server hears of it."""
        chance, driver = self.chance, pick(self.chance, self.drivers)
        function = pick(chance, self.functions)
        if driver.lease_for(function) is None and chance.randrange(2):
            self.one_by_one(driver, function)
            self.all_is_read()
        for _ in range(chance.randrange(1, 5) if driver in self.drivers else 0):
            wire = driver.wires.get(NO_ACTOR)
            if chance.randrange(6) == 0:
                driver.speak()
            task = self.submit(driver, function)
            if wire is None or all(number != task for *_, number in wire.calls):
                return
            if chance.randrange(3) == 0:
                self.turn()
            process = next((p for p in self.processes.values() if wire in p.wires.values()), None)
            if process is None:
                return
            process.drain()
            if chance.randrange(2):
                driver.say()
                self.turn()
            if not process.can_begin:
                return
            self.begins(process)
            match chance.randrange(6):
                case 0:
                    self.dies(process.peer.worker)
                    return
                case 1:
                    process.waits_for_one(function)
                    if chance.randrange(2):
                        driver.say()
                    return
                case _ if process.can_end:
                    self.ends(process, ["direct"])
                    driver.read_line(wire)
            if chance.randrange(3) == 0 and driver.has(task):
                driver.drop(task)

    def somebody_needs_a_result(self) -> None:
        if self.held:
            task, driver = pick(self.chance, self.held)
            other = pick(self.chance, self.drivers)
            driver.say()
            if other is not driver:
                other.say()
                other.peer.borrow((task,))
            self.submit(other, self.functions[0], (task,))

    def somebody_speaks(self) -> None:
        pick(self.chance, self.drivers).speak()

    def somebody_cancels(self) -> None:
        if self.held:
            task, driver = pick(self.chance, self.held)
            driver.spoken += 1
            driver.post(ev.Cancel(task, force=self.chance.randrange(3) == 0))

    def a_driver_says(self) -> None:
        pick(self.chance, self.drivers).say()

    def a_driver_reads(self) -> None:
        driver = pick(self.chance, self.drivers)
        if driver.peer.inbox:
            driver.read()

    def a_driver_reads_its_lease(self) -> None:
        driver = pick(self.chance, self.drivers)
        for wire in list(driver.wires.values()):
            driver.read_line(wire)

    @property
    def held(self) -> list[tuple[int, Driver]]:
        return [(t, d) for t, d in self.tasks.items() if d in self.drivers and d.has(t)]

    def a_result_is_dropped(self) -> None:
        if self.held:
            task, driver = pick(self.chance, self.held)
            driver.drop(task)

    def a_worker_reads(self) -> None:
        reading = [p for p in self.processes.values() if p.peer.inbox]
        if reading:
            pick(self.chance, reading).read()

    def a_worker_reads_its_leases(self) -> None:
        if self.processes:
            pick(self.chance, self.processes.values()).drain()

    def a_task_begins(self) -> None:
        able = [p for p in self.processes.values() if p.can_begin]
        if able:
            self.begins(pick(self.chance, able))

    def begins(self, process: PoolProcess) -> None:
        task, wire = process.queue.pop(0)
        process.running.append((task, wire))
        process.latest = task
        if task not in self.tasks:
            return
        driver = self.tasks[task]
        self.times[task] += 1
        assert self.times[task] <= 1 + self.retries[task], "run too often"
        if driver in self.drivers and driver.serializer:
            told = process.told.get(driver.serializer, 0)
            assert told >= driver.registered_by[task], "before what its driver had said"

    def a_task_ends(self) -> None:
        able = [p for p in self.processes.values() if p.can_end]
        if able:
            self.ends(pick(self.chance, able), HOW)

    def ends(self, process: PoolProcess, how: list[str]) -> None:
        task, wire = process.running.pop(0)
        stopped = task in process.stopped
        value = CANCELLED if stopped else NONE
        process.answer(task, wire, value, "direct" if stopped else self.chance.choice(how))

    def a_task_waits(self) -> None:
        able = [p for p in self.processes.values() if p.can_end and not p.stopped]
        if able and len(self.processes) < 6:
            process = pick(self.chance, able)
            process.waits_for_one(self.functions[1])

    def a_worker_dies(self) -> None:
        if self.processes and self.chance.randrange(3) == 0:
            self.dies(pick(self.chance, self.processes))

    def a_driver_is_killed(self) -> None:
        """With what it hasn't said. Another one comes."""
        if self.chance.randrange(4) == 0:
            driver = self.drivers.pop(self.chance.randrange(2))
            self.drivers.append(self.newcomer())
            self.drivers[1].peer.borrow(tuple(self.functions))
            if self.chance.randrange(2):
                driver.say()
            self.obey(self.stage.leave(driver.peer))

    # -- all of them ------------------------------------------------------------------------------

    def all_is_read(self) -> None:
        for _ in range(200):
            for driver in self.drivers:
                for wire in list(driver.wires.values()):
                    driver.read_line(wire)
                for _ in range(len(driver.peer.inbox)):
                    driver.read()
            for process in list(self.processes.values()):
                process.drain()
                while process.peer.inbox:
                    process.read()
            self.turn()
            peers = [d.peer for d in self.drivers] + [p.peer for p in self.processes.values()]
            if not any(peer.inbox for peer in peers):
                callers = [*self.drivers, *(p.caller for p in self.processes.values())]
                owing = [c for c in callers if c.owes]
                if not owing:
                    return
                for caller in owing:  # a tick
                    caller.say()
                self.turn()
        raise AssertionError("they never come to an end")

    def work(self, how: list[str] = HOW) -> None:
        """All that can run does, without a driver's doing."""
        for _ in range(500):
            self.all_is_read()
            busy = [p for p in self.processes.values() if p.can_begin or p.can_end]
            if not busy:
                return
            for process in busy:
                if process.can_end:
                    self.ends(process, how)
                elif process.can_begin:
                    self.begins(process)
            self.turn()

    def come_to_an_end(self) -> None:
        """Everything runs, and every task has its end."""
        for _ in range(2):
            for driver in self.drivers:
                driver.say()
            self.turn()
            self.work()
        scheduler = self.stage.session.state.scheduler
        assert not scheduler.tasks, "a task was forgotten"
        for task, driver in self.held:
            assert task in driver.ends, "a task without an end"
        for driver in self.drivers:
            assert not any(wire.unanswered for wire in driver.wires.values()), "never answered"
        lent = {w.client for w in scheduler.pool.values() if w.lease is not None}
        leases = {line.worker.client for line in self.stage.session.lines.leases.values()}
        assert lent == leases, "lent to nobody"

    def teardown(self) -> None:
        self.come_to_an_end()
        for driver in list(self.drivers):
            self.drivers.remove(driver)
            driver.say()
            self.obey(self.stage.leave(driver.peer))
        self.work()
        session = self.stage.session
        assert not session.lines._lines
        assert not session.lines.leases
        assert not session.state.catalog, list(session.state.catalog.values())
        assert all(w.idle and w.lease is None for w in session.state.scheduler.pool.values())


def walk(seed: int, steps: int = 60) -> int:
    machine = LeaseMachine(Random(seed))
    machine.walk(steps)
    machine.teardown()
    return machine.leases


def walks(number: int) -> int:
    return sum(walk(seed) for seed in range(number))


def test_walks() -> None:
    number = 4000 if THOROUGH else 60
    assert walks(number) > number  # leases were made


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        walks(120)
