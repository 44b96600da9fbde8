"""What the machines of lines and of leases share: steps at random, around one session.

Everybody reads, says and does what there is as late as chance wants it. A walk ends with everybody
doing what they owe: then each task has its end, and nothing is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random
from typing import ClassVar, Generic, TypeVar

from tests.unit.core.conftest import Stage
from tests.unit.core.line_peers import CANCELLED, Caller, Process, Wire
from tests.unit.core.peers import Peer
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.entry import READY
from workbench.core.loop_events import Copied, Left, WorkerExited

T = TypeVar("T")
C = TypeVar("C", bound=Caller)
P = TypeVar("P", bound=Process)

NONE = ev.Value(b"N")
HOW = ("direct", "direct", "direct", "told", "relay")


class Nothing(Exception):  # noqa: N818
    """There is nothing to do this with: the step ends."""


class Arrivals(Stage):
    """``left``: what it was told to do when somebody came, and hasn't done yet."""

    def __init__(self, workers: int) -> None:
        self.left: list[do.Anything] = []
        super().__init__(workers, 1 << 20, spills=True)

    def connect(self, worker: int = 0, linger: float = 0.0, admin: bool = False) -> Peer:
        peer = self.meet(worker, linger, admin)
        self.left += self.turn()
        peer.inbox.popleft()
        return peer


class DirectMachine(Generic[C, P]):
    """Two drivers, others that are killed, and workers that tasks come to by lines."""

    GOODBYE: ClassVar[str]

    def __init__(self, chance: Random, workers: int) -> None:
        self.chance = chance
        self.stage = Arrivals(workers)
        self.wires: dict[int, Wire] = {}
        self.processes: dict[int, P] = {}
        self.asked: dict[int, C | Caller] = {}  # by task: who wants it
        self.retries: dict[int, int] = {}
        self.times: Counter[int] = Counter()
        self.objects: set[int] = set()  # that tasks have as arguments
        self.memory: dict[tuple[int, int], int] = {}  # whose bytes are where
        self.copies: list[do.Copy] = []  # to be made
        self.by_reference = 0  # tasks that came by a line and read an object
        self.drivers: list[C] = [self.newcomer() for _ in range(2)]

    def newcomer(self) -> C:
        raise NotImplementedError

    def joins(self, worker: int, peer: Peer) -> None:
        raise NotImplementedError

    def new_wire(self, number: int) -> Wire:
        return Wire(number)

    def kill(self, driver: C) -> None:
        raise NotImplementedError

    def reader(self) -> tuple[C, P, int]:
        """A driver, a worker that has got a task from it by a line, and what that is to read."""
        raise NotImplementedError

    def result(self, process: P, task: int, wire: Wire | None, size: int) -> ev.Value:
        return NONE

    def makes_more(self) -> bool:
        """Whether somebody else has done something that tasks wait for."""
        return False

    @property
    def ways(self) -> list[Callable[[], object]]:
        return [
            self.somebody_says_what_it_owes, self.somebody_reads, self.somebody_reads_its_line,
            self.somebody_cancels, self.a_result_is_dropped, self.a_driver_is_killed,
            self.a_worker_reads, self.a_worker_reads_its_lines, self.a_task_begins,
            self.a_task_ends, self.a_worker_dies, self.an_object_is_dropped, self.a_copy_is_made,
            self.a_view_ends, self.a_task_reads_what_others_let_go_of, self.all_is_read,
            self.come_to_an_end,
        ]  # fmt: skip

    def walk(self, steps: int) -> int:
        """Up to the end; how many tasks that came by a line have read an object."""
        for _ in range(steps):
            with suppress(Nothing):
                self.pick(self.ways)()
            self.turn()
        self.end()
        return self.by_reference

    def pick(self, choices: Iterable[T]) -> T:
        found = list(choices)
        if not found:
            raise Nothing
        return found[self.chance.randrange(len(found))]

    def once_in(self, times: int) -> bool:
        return self.chance.randrange(times) == 0

    def turn(self) -> None:
        self.obey(self.stage.turn())
        while self.stage.left:
            left, self.stage.left = self.stage.left, []
            self.obey(left)

    def obey(self, out: list[do.Anything]) -> None:
        ended: list[int] = []
        for instruction in out:
            match instruction:
                case do.Fork(worker):
                    self.stage.starting.remove(worker)
                    self.joins(worker, self.stage.connect(worker))
                case do.Connect(line, worker):
                    self.wires[line] = self.new_wire(line)
                    self.stage.peers[worker].inbox.append(do.Attach(line))
                case do.Copy():
                    self.copies.append(instruction)
                case do.Send(to, do.Release(extents)) if to in self.stage.peers:
                    self.freed(self.stage.peers[to].segment, extents)
                case do.Punch(segment, extents):
                    self.freed(segment, extents)
                case do.Discard(segment):
                    self.memory = {k: v for k, v in self.memory.items() if k[0] != segment}
                case do.Kill(worker):
                    ended.append(worker)
                case do.Hangup(client, reason):
                    assert reason == self.GOODBYE, reason
                    ended += [n for n, p in self.processes.items() if p.peer.number == client]
        for worker in ended:  # only now: it is told meanwhile what the same batch has for it
            if worker in self.processes:
                self.dies(worker)

    def freed(self, segment: int, extents: Iterable[tuple[int, int]]) -> None:
        for offset, _ in extents:
            self.memory.pop((segment, offset), None)

    def dies(self, worker: int) -> None:
        process = self.processes.pop(worker)
        del self.stage.peers[process.peer.number]
        how = WorkerExited(worker, -9, running=process.latest, begun=process.remains())
        self.stage.post(0, how)
        process.peer.post(Left())
        process.peer.fall_silent()
        self.turn()

    @property
    def callers(self) -> list[C | Caller]:
        return [*self.drivers, *(process.caller for process in self.processes.values())]

    @property
    def held(self) -> list[tuple[int, C | Caller]]:
        """Results, and who has them."""
        callers = self.callers
        return [(t, c) for t, c in self.asked.items() if c in callers and c.has(t)]

    def at(self, wire: Wire | None) -> P:
        """The worker at the other end."""
        return self.pick(p for p in self.processes.values() if wire in p.wires.values())

    def is_alive(self, process: P) -> bool:
        return process in self.processes.values()

    def can_begin(self, process: P) -> bool:
        worker = self.stage.session.state.scheduler.by_client.get(process.peer.number)
        most = 1 if worker is None or worker.actor is None else worker.actor.concurrency
        return len(process.running) < most and len(process.queue) > 0

    def can_end(self, process: P) -> bool:
        return bool(process.running) and not process.waits

    def somebody_says_what_it_owes(self) -> None:
        self.pick(self.callers).say()

    def somebody_reads(self) -> None:
        caller = self.pick(c for c in self.callers if c.peer.inbox)
        caller.read()
        if not self.once_in(3):  # mostly a tick comes next
            caller.say()

    def somebody_reads_its_line(self) -> None:
        lines = [(c, w) for c in self.callers for w in c.wires.values() if w.answers]
        caller, wire = self.pick(lines)
        caller.read_line(wire)

    def somebody_cancels(self) -> None:
        task, caller = self.pick(self.held)
        caller.post(ev.Cancel((task,), force=self.once_in(4)))

    def a_result_is_dropped(self) -> None:
        task, caller = self.pick(self.held)
        caller.drop(task)

    def a_driver_is_killed(self) -> None:
        """With what it hasn't said, or just after it has said that. Another one comes."""
        if self.once_in(3):
            self.kill(self.pick(self.drivers))

    def a_worker_reads(self) -> None:
        self.pick(p for p in self.processes.values() if p.peer.inbox).read()

    def a_worker_reads_its_lines(self) -> None:
        self.pick(self.processes.values()).drain()

    def a_worker_dies(self) -> None:
        if self.once_in(2):
            self.dies(self.pick(self.processes))

    def a_task_begins(self) -> None:
        self.begins(self.pick(p for p in self.processes.values() if self.can_begin(p)))

    def begins(self, process: P) -> None:
        task, wire = process.queue.pop(0)
        process.running.append((task, wire))
        self.look(process)
        if wire is not None and self.objects.intersection(process.reads(task, wire)):
            self.by_reference += 1
        self.times[task] += 1
        most = 1 + self.retries.get(task, 1)
        assert self.times[task] <= most or task not in self.asked, "run too often"
        self.began(process, task, wire)

    def began(self, process: P, task: int, wire: Wire | None) -> None:
        raise NotImplementedError

    def a_task_ends(self) -> None:
        process = self.pick(p for p in self.processes.values() if self.can_end(p))
        self.ends(process, HOW, self.chance.choice([1, 40]))

    def ends(self, process: P, how: tuple[str, ...] = ("direct",), size: int = 1) -> None:
        self.look(process)
        task, wire = process.running.pop(0)
        for id, value in process.reads(task, wire).items():
            if id in self.objects and self.once_in(4):
                process.keeps(id, value)
        if task in process.stopped:
            process.answer(task, wire, CANCELLED, "direct")
        else:
            value = self.result(process, task, wire, size)
            process.answer(task, wire, value, self.chance.choice(how))

    def look(self, process: P) -> None:
        """What its tasks read, and its views show, is what they were given."""
        seen = list(process.shows)
        for task, wire in process.running:
            seen += process.reads(task, wire).items()
        for id, value in seen:
            if id in self.objects:
                assert value.segment in process.segments, "memory that it wasn't sent"
                assert self.memory.get((value.segment, value.offset)) == id, "another's bytes"

    def objects_of(self, driver: C) -> list[int]:
        return [id for id in sorted(self.objects) if driver.peer.holds[id]]

    def an_object_is_put(self, driver: C) -> int:
        value = driver.peer.value(1)
        if value is None:
            self.all_is_read()
            value = driver.peer.value(1) if driver in self.drivers else None
        if value is None:
            raise Nothing
        driver.say()
        id = driver.peer.put(value)
        self.objects.add(id)
        self.memory[value.segment, value.offset] = id  # over what was there
        self.turn()
        return id

    def an_object_of(self, driver: C) -> int:
        """A new one, or one that it has."""
        held = self.objects_of(driver)
        return self.an_object_is_put(driver) if self.once_in(3) or not held else self.pick(held)

    def an_object_is_dropped(self) -> None:
        driver, id = self.pick((d, id) for d in self.drivers for id in self.objects_of(d))
        driver.say()
        if self.once_in(4):
            driver.post(ev.Free((id,)))
        driver.peer.drop(id)
        if self.once_in(2):  # its room is used anew, if it is free
            self.turn()
            self.all_is_read()
            if driver in self.drivers:
                self.an_object_is_put(driver)

    def a_copy_is_made(self) -> None:
        if self.copies:
            copy = self.copies.pop(0)
            # Of one that was freed meanwhile, anything may be copied: nobody will read that.
            self.memory[copy.target] = self.memory.get(copy.source, 0)
            self.stage.post(0, Copied(copy.object, 1))

    def a_view_ends(self) -> None:
        self.pick(p for p in self.processes.values() if p.shows).lets_go()

    def a_task_reads_what_others_let_go_of(self) -> None:
        """Nobody but its caller and its worker knows of it."""
        driver, process, id = self.reader()
        process.drain()
        if self.can_begin(process):
            self.begins(process)
        self.is_let_go_of(driver, process, id)
        for _ in range(3):
            self.turn()
            self.all_is_read()
            self.a_copy_is_made()
            if self.is_alive(process):
                self.look(process)
        if self.is_alive(process) and self.can_end(process) and self.once_in(2):
            self.ends(process, HOW, self.chance.choice([1, 40]))

    def is_let_go_of(self, driver: C, process: P, id: int) -> None:
        match self.chance.randrange(5):
            case 0:
                self.kill(driver)
            case 1:  # its worker is the last that reads
                driver.peer.post(ev.Ask(1, "spill", id))
                self.turn()
                self.a_copy_is_made()
                self.turn()
                while driver.peer.inbox:
                    driver.read()
                self.turn()
            case 2:
                next(d for d in self.drivers if d is not driver).post(ev.Free((id,)))
            case _:
                driver.say()
                driver.peer.drop(id)
                if self.once_in(2):
                    self.turn()
                    self.all_is_read()
                    if driver in self.drivers:
                        self.an_object_is_put(driver)

    def read_all(self, process: P) -> None:
        process.drain()
        while process.peer.inbox:
            process.read()

    def all_is_read(self) -> None:
        for _ in range(200):
            for caller in self.callers:
                for way in self.chance.sample([caller.read_all, caller.read_lines], 2):
                    way()
            for process in self.processes.values():
                self.read_all(process)
            self.turn()
            if not any(caller.peer.inbox for caller in self.callers):
                owing = [caller for caller in self.callers if caller.owes]
                if not owing:
                    return
                for caller in owing:  # a tick
                    caller.say()
                self.turn()
        raise AssertionError("they never come to an end")

    def work(self, how: tuple[str, ...] = ("direct",)) -> None:
        """All that can run does, without a driver's doing."""
        for _ in range(2000):
            more = self.makes_more()
            self.all_is_read()
            able = [p for p in self.processes.values() if self.can_end(p) or self.can_begin(p)]
            if not (able or more):
                return
            for process in able:
                if self.can_end(process):
                    self.ends(process, how)
                else:
                    self.begins(process)
            self.turn()

    def come_to_an_end(self) -> None:
        """Everything runs, and every task has its end."""
        for _ in range(2):
            for caller in self.callers:
                caller.say()
            self.turn()
            self.work()
        while self.copies:
            self.a_copy_is_made()
            self.all_is_read()
        state = self.stage.session.state
        assert not state.scheduler.tasks, "a task was forgotten"
        for task, caller in self.held:
            assert task in caller.ends, "a task without an end"
        for caller in self.callers:
            assert not any(wire.unanswered for wire in caller.wires.values()), "never answered"
        for process in self.processes.values():
            self.look(process)
        lent = [state.catalog[id] for id in state.catalog.lent]
        assert all(entry.state is READY for entry in lent), "its room is never free"
        assert not state.moves, "it never moves"

    def all_go(self) -> None:
        """After that nothing is left."""
        raise NotImplementedError

    def end(self) -> None:
        self.come_to_an_end()
        self.all_go()
        session = self.stage.session
        assert not session.lines._lines
        assert not session.state.lending
        assert not session.state.catalog, list(session.state.catalog.values())
