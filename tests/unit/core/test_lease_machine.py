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
from tests.unit.core.peers import Peer
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.entry import READY
from workbench.core.loop_events import Copied, Left, WorkerExited

T = TypeVar("T")
NONE = ev.Value(b"N")
HOW = ["direct", "direct", "direct", "told", "relay"]


def pick(chance: Random, choices: Iterable[T]) -> T:
    found = list(choices)
    return found[chance.randrange(len(found))]


class Arrivals(Stage):
    """``left``: what it was told to do when somebody came, and hasn't done yet."""

    left: list[do.Anything]

    def connect(self, worker: int = 0, linger: float = 0.0, admin: bool = False) -> Peer:
        peer = self.meet(worker, linger, admin)
        self.left = [*getattr(self, "left", ()), *self.turn()]
        peer.inbox.popleft()
        return peer


class LeaseMachine:
    """Two drivers, others that are killed, a pool of one worker or two, and two functions."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.stage = Arrivals(chance.choice([1, 1, 2]), 1 << 20, spills=True)
        self.wires: dict[int, Wire] = {}
        self.drivers = [self.newcomer() for _ in range(2)]
        self.processes: dict[int, PoolProcess] = {}
        self.functions = [self.drivers[0].peer.put(ev.Value(b"a function")) for _ in range(2)]
        self.drivers[1].peer.borrow(tuple(self.functions))
        self.tasks: dict[int, Driver] = {}
        self.retries: dict[int, int] = {}
        self.times: Counter[int] = Counter()
        self.leases = 0
        self.by_reference = 0  # tasks that went by a lease with arguments in memory
        self.objects: dict[int, Driver] = {}  # what tasks have as arguments
        self.memory: dict[tuple[int, int], int] = {}  # whose bytes are where
        self.copies: list[do.Copy] = []  # to be made
        for number in list(self.stage.starting):
            self.obey([do.Fork(number)])
        self.turn()
        self.one_by_one(self.drivers[0], self.functions[0])

    def newcomer(self) -> Driver:
        return Driver(self.stage.driver(linger=5.0), self.wires)

    def turn(self) -> None:
        self.obey(self.stage.turn())
        while self.stage.left:
            left, self.stage.left = self.stage.left, []
            self.obey(left)

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
                case do.Copy():
                    self.copies.append(instruction)
                case do.Send(to, do.Release(extents)) if to in self.stage.peers:
                    for offset, _ in extents:
                        self.memory.pop((self.stage.peers[to].segment, offset), None)
                case do.Punch(segment, extents):
                    for offset, _ in extents:
                        self.memory.pop((segment, offset), None)
                case do.Discard(segment):
                    self.memory = {k: v for k, v in self.memory.items() if k[0] != segment}
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
            self.a_task_waits, *[self.a_lease_is_used] * 5, self.a_worker_dies,
            self.a_driver_is_killed, self.all_is_read, self.come_to_an_end,
            self.an_object_is_used, self.an_object_is_used, self.an_object_is_dropped,
            self.an_object_moves, self.a_copy_is_made, self.a_view_ends,
            self.a_task_reads_what_others_let_go_of,
            self.a_task_waits_when_the_end_of_the_last_is_said,
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

    def one_by_one(self, driver: Driver, function: int, deps: tuple[int, ...] = ()) -> None:
        """What makes leases: tasks, each over before the next."""
        for _ in range(self.chance.choice([4, 6])):
            self.all_is_read()
            if driver in self.drivers:
                deps = tuple(id for id in deps if driver.peer.holds[id])
                task = self.submit(driver, function, deps)
                self.turn()
                self.work(self.chance.choice([HOW, ["direct"]]))
                if self.chance.randrange(2) and driver in self.drivers and driver.has(task):
                    driver.drop(task)

    # -- arguments by reference -------------------------------------------------------------------

    def has(self, driver: Driver) -> list[int]:
        """Objects that it may give to tasks."""
        return [id for id in self.objects if driver.peer.holds[id]]

    def an_object_is_put(self, driver: Driver) -> int | None:
        value = driver.peer.value(1)
        if value is None:
            self.all_is_read()
            value = driver.peer.value(1) if driver in self.drivers else None
        if value is None:
            return None
        driver.say()
        id = driver.peer.put(value)
        self.objects[id] = driver
        self.memory[value.segment, value.offset] = id  # over what was there
        self.turn()
        return id

    def an_object_is_used(self) -> None:
        """By tasks, one after the other, until some of them go by a lease; others may have it."""
        driver = pick(self.chance, self.drivers)
        if self.chance.randrange(3) == 0 or not self.has(driver):
            self.an_object_is_put(driver)
        held = self.has(driver) if driver in self.drivers else []
        if not held:
            return
        id, other = pick(self.chance, held), pick(self.chance, self.drivers)
        if other is not driver and not other.peer.holds[id] and self.chance.randrange(3) == 0:
            driver.say()
            other.say()
            other.peer.borrow((id,))
        self.one_by_one(driver, pick(self.chance, self.functions), (id,))
        self.a_lease_is_used()

    def a_task_reads_what_others_let_go_of(self) -> None:
        """Nobody but its driver and its worker knows of it."""
        chance, driver = self.chance, pick(self.chance, self.drivers)
        self.all_is_read()
        if driver not in self.drivers:
            return
        id = self.an_object_is_put(driver)
        if id is None or driver not in self.drivers:
            return
        function = pick(chance, self.functions)
        self.one_by_one(driver, function, (id,))
        self.all_is_read()
        wire = driver.lease_for(function, (id,)) if driver in self.drivers else None
        process = next((p for p in self.processes.values() if wire in p.wires.values()), None)
        if wire is None or process is None:
            return
        self.submit(driver, function, (id,))
        process.drain()
        if not process.can_begin:
            return
        self.begins(process)
        match chance.randrange(4):
            case 0:
                self.kill(driver)
                if chance.randrange(2) and process.can_end and len(self.processes) < 6:
                    process.waits_for_one(function)
            case 1:  # its worker is the last that reads
                driver.peer.post(ev.Ask(1, "spill", id))
                self.turn()
                self.a_copy_is_made()
                self.turn()
                while driver.peer.inbox:
                    driver.read()
                self.turn()
                self.look(process)
            case 2:
                next(d for d in self.drivers if d is not driver).post(ev.Free((id,)))
            case 3:
                driver.say()
                driver.peer.drop(id)
        for _ in range(3):
            self.all_is_read()
            self.a_copy_is_made()
            self.turn()
            self.look(process)
        if chance.randrange(2) and process.can_end:
            self.ends(process, HOW)

    def an_object_is_dropped(self) -> None:
        driver = pick(self.chance, self.drivers)
        if self.has(driver):
            id = pick(self.chance, self.has(driver))
            driver.say()
            if self.chance.randrange(4) == 0:
                driver.spoken += 1
                driver.peer.post(ev.Free((id,)))
            driver.peer.drop(id)
            if self.chance.randrange(2):  # its room is used anew, if it is free
                self.turn()
                self.all_is_read()
                if driver in self.drivers:
                    self.an_object_is_put(driver)

    def an_object_moves(self) -> None:
        driver = pick(self.chance, self.drivers)
        if self.has(driver):
            driver.post(ev.Ask(1, "spill", pick(self.chance, self.has(driver))))

    def a_copy_is_made(self) -> None:
        if self.copies:
            copy = self.copies.pop(0)
            # Of one that was freed meanwhile, anything may be copied: nobody will read that.
            self.memory[copy.target] = self.memory.get(copy.source, 0)
            self.stage.post(0, Copied(copy.object, 1))

    def a_view_ends(self) -> None:
        able = [p for p in self.processes.values() if p.shows]
        if able:
            pick(self.chance, able).lets_go()

    def look(self, process: PoolProcess) -> None:
        """What its tasks read, and its views show, is what they were given."""
        seen = list(process.shows)
        for task, wire in process.running:
            seen += process.reads(task, wire).items()
        for id, value in seen:
            if id in self.objects:
                assert value.segment in process.segments, "memory that it wasn't sent"
                assert self.memory.get((value.segment, value.offset)) == id, "another's bytes"

    # ---------------------------------------------------------------------------------------------

    def a_lease_is_used(self) -> None:
        """And what happens then, before the server hears of it."""
        chance, driver = self.chance, pick(self.chance, self.drivers)
        function = pick(chance, self.functions)
        if driver.lease_for(function) is None and chance.randrange(2):
            self.one_by_one(driver, function)
            self.all_is_read()
        deps: tuple[int, ...] = ()
        lease = driver.lease_for(function)
        if lease is not None and chance.randrange(3):
            deps = tuple(id for id in lease.objects if driver.peer.holds[id])[:2]
        for _ in range(chance.randrange(1, 5) if driver in self.drivers else 0):
            wire = driver.wires.get(NO_ACTOR)
            if chance.randrange(6) == 0:
                driver.speak()
            deps = tuple(id for id in deps if driver.peer.holds[id])
            task = self.submit(driver, function, deps)
            if deps and chance.randrange(4) == 0:
                driver.say()
                driver.peer.drop(deps[0])
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
                case 1 | 2:
                    process.waits_for_one(function)
                    if chance.randrange(2):
                        driver.say()
                    return
                case _ if process.can_end:
                    self.ends(process, ["direct"])
                    driver.read_line(wire)
            if chance.randrange(3) == 0 and driver.has(task):
                driver.drop(task)

    def a_task_waits_when_the_end_of_the_last_is_said(self) -> None:
        driver, function = pick(self.chance, self.drivers), pick(self.chance, self.functions)
        self.one_by_one(driver, function)
        self.all_is_read()
        wire = driver.lease_for(function) if driver in self.drivers else None
        process = next((p for p in self.processes.values() if wire in p.wires.values()), None)
        if wire is None or process is None or len(self.processes) > 5:
            return
        for is_last in (False, True):
            self.submit(driver, function)
            process.drain()
            if not process.can_begin:
                return
            self.begins(process)
            if is_last:
                process.waits_for_one(function)
            else:
                driver.say()
                self.turn()
                self.ends(process, ["direct"])
                driver.read_line(wire)
            self.turn()
        driver.say()

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
        self.look(process)
        if wire is not None and any(id in self.objects for id in process.reads(task, wire)):
            self.by_reference += 1
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
        self.look(process)
        task, wire = process.running.pop(0)
        for id, value in process.reads(task, wire).items():
            if id in self.objects and self.chance.randrange(4) == 0:
                process.keeps(id, value)
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
            driver = pick(self.chance, self.drivers)
            if self.chance.randrange(2):
                driver.say()
            self.kill(driver)

    def kill(self, driver: Driver) -> None:
        self.turn()
        self.drivers.remove(driver)
        self.drivers.append(self.newcomer())
        self.drivers[1].peer.borrow(tuple(self.functions))
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
        self.all_is_read()
        while self.copies:
            self.a_copy_is_made()
            self.all_is_read()
        for process in self.processes.values():
            self.look(process)
        catalog = self.stage.session.state.catalog
        assert all(catalog[id].state is READY for id in catalog.lent), "its room is never free"
        assert not self.stage.session.state.moves, "it never moves"
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
        for process in list(self.processes.values()):
            while process.shows:
                process.lets_go()
        self.work()
        session = self.stage.session
        assert not session.lines._lines
        assert not session.lines.leases
        assert not session.state.catalog, list(session.state.catalog.values())
        assert all(w.idle and w.lease is None for w in session.state.scheduler.pool.values())


def walk(seed: int, steps: int = 60) -> Counter[str]:
    machine = LeaseMachine(Random(seed))
    reads, waits = (  # first: by chance alone they take many steps to come about
        machine.a_task_reads_what_others_let_go_of,
        machine.a_task_waits_when_the_end_of_the_last_is_said,
    )
    pick(machine.chance, [reads, reads, waits])()
    machine.walk(steps)
    machine.teardown()
    return Counter(leases=machine.leases, by_reference=machine.by_reference)


def walks(number: int) -> Counter[str]:
    return sum((walk(seed) for seed in range(number)), Counter[str]())


def test_walks() -> None:
    number = 4000 if THOROUGH else 40
    happened = walks(number)
    assert happened["leases"] > number
    assert happened["by_reference"] > number


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        walks(120)
