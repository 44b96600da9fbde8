"""Random calls by lines and through the server: what the server knows late is late, never wrong.

Each call begins in its caller's order, at most as often as it may, and has one end, which is the
same whoever asks: whatever dies, at any moment, and however late anybody reads. What results take
of their workers' leave is counted once. Objects that are arguments lie where a call was told, until
it is over. And the machine sees the faults that it is there for.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from msgspec.structs import replace

from tests.patience import THOROUGH
from tests.unit.core.direct_faults import FAULTS, Fault
from tests.unit.core.direct_machine import HOW, NONE, DirectMachine, Nothing
from tests.unit.core.line_peers import Caller, Process, Record, Wire, WorkerCaller
from tests.unit.core.peers import Peer
from workbench.core import events as ev


class LineMachine(DirectMachine[Caller, Process]):
    """A pool of one worker, and actors, whose workers call actors, too."""

    GOODBYE = "its actor has ended"

    def __init__(self, chance: Random) -> None:
        super().__init__(chance, workers=1)
        self.maker = self.stage.worker()
        first, second = self.drivers
        self.cls = first.peer.put(ev.Value(b"a class"))
        second.peer.borrow((self.cls,))
        self.restarts: dict[int, int] = {}  # by actor
        self.unordered: set[int] = set()  # actors: two calls at a time, begun as they come
        self.actor_of: dict[int, int] = {}  # by call
        self.order: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.turn()
        self.make(first, chance.choice([0, 1, -1, -1]), chance.randrange(4) > 0)
        (actor,) = self.restarts
        self.one_by_one(first, actor)
        if self.once_in(2):
            self.pass_on(actor, second)
            self.one_by_one(second, actor)
        if chance.randrange(3):  # by chance alone it takes many steps to come about
            with suppress(Nothing):
                self.objects_are_arguments()
                self.a_task_reads_what_others_let_go_of()

    def newcomer(self) -> Caller:
        return Caller(self.stage.driver(linger=5.0), self.wires)

    def joins(self, worker: int, peer: Peer) -> None:
        self.processes[worker] = Process(peer, self.wires)
        if self.stage.session.state.catalog.get(self.cls):
            peer.borrow((self.cls,))

    @property
    def ways(self) -> list[Callable[[], object]]:
        return [
            *super().ways, self.somebody_makes_an_actor, self.a_handle_is_passed_on,
            self.somebody_calls, self.somebody_else_has_a_result, self.somebody_kills,
            self.a_handle_is_dropped, self.a_worker_sends_its_results,
            self.a_caller_sends_its_calls, self.a_run_of_calls, self.a_line_is_full,
            self.makes_more, self.a_worker_dies_in_the_middle, self.an_actor_is_busy,
            self.results_are_dropped_at_once, self.a_grant_comes_late,
            self.an_actor_calls_another, self.objects_are_arguments, self.calls_read_an_object,
            self.one_after_the_other,
        ]  # fmt: skip

    def turn(self) -> None:
        super().turn()
        state = self.stage.session.state
        tasks = state.scheduler.tasks.values()
        calls = [t for t in tasks if t.actor is not None and not t.is_creation and t.line is None]
        unfinished = Counter((t.actor, t.owner) for t in calls)
        for actor in state.scheduler.actors.values():
            its_own = {owner: n for (each, owner), n in unfinished.items() if each is actor}
            assert actor.unfinished == Counter(its_own)
        for process in self.processes.values():
            assert self.counted(process) <= process.spent, "counted twice"
        for entry in state.catalog.values():
            if entry.value is not None:
                assert all(map(state.catalog.get, entry.value.contains)), "it isn't known"

    def counted(self, process: Process) -> int:
        """Bytes of results that the server has heard of."""
        return -self.stage.session.state.budget.inline_left.get(process.peer.number, 0)

    def dies(self, worker: int) -> None:
        self.not_counted(self.processes[worker].caller)
        super().dies(worker)

    @property
    def holders(self) -> list[tuple[Caller, int]]:
        return [(c, a) for c in self.callers for a in sorted(c.handles)]

    @property
    def granted(self) -> list[tuple[Caller, Wire]]:
        wires = [(c, w) for c in self.callers for w in c.wires.values()]
        return [(c, w) for c, w in wires if w.is_granted and w.actor in c.handles]

    def somebody_makes_an_actor(self) -> None:
        if len(self.restarts) < 3 and self.once_in(2):
            self.make(self.pick(self.callers), self.chance.choice([0, 1, -1]), not self.once_in(2))

    def make(self, caller: Caller, restarts: int, in_order: bool) -> None:
        caller.say()
        actor = caller.peer.create(
            self.cls, restarts=restarts, concurrency=1 if in_order else 2, in_order=in_order
        )
        self.spends(caller, len(b"described"))
        if not in_order:
            self.unordered.add(actor)
        self.restarts[actor] = restarts
        caller.handles.add(actor)
        caller.last[actor] = 0
        self.turn()

    def a_handle_is_passed_on(self) -> None:
        _, actor = self.pick(self.holders)
        self.pass_on(actor, self.pick(self.callers))

    def pass_on(self, actor: int, other: Caller) -> None:
        if actor not in other.handles:
            other.say()
            other.peer.borrow((actor,))
            other.handles.add(actor)
            other.last[actor] = 0
        self.turn()

    def somebody_calls(self) -> None:
        caller, actor = self.pick(self.holders)
        for _ in range(self.chance.randrange(1, 5)):
            self.call(caller, actor, self.once_in(6), self.chance.randrange(2))

    def submit(self, caller: Caller, deps: tuple[int, ...]) -> int:
        """A task for the pool."""
        self.spends(caller, len(b"args"))
        return caller.peer.submit(self.cls, deps, ())[0]

    def spends(self, caller: Caller, nbytes: int) -> None:
        if isinstance(caller, WorkerCaller):
            caller.process.spent += nbytes

    def call(
        self,
        caller: Caller,
        actor: int,
        waits: bool = False,
        retries: int = 0,
        given: tuple[int, ...] = (),
    ) -> int:
        """``waits``: an argument isn't there yet; ``given``: others, which are."""
        if caller not in self.callers:
            return caller.peer.id()  # it is gone by now
        wire = None if waits else caller.line_of(actor)
        if wire is None or not {*wire.objects}.issuperset(given):
            wire = None
            caller.say()
        deps = (self.submit(caller, ()),) if waits else given
        task = caller.peer.id()
        caller.peer.holds[task] += 1
        self.asked[task], self.actor_of[task], self.retries[task] = caller, actor, retries
        self.order[actor, caller.peer.number].append(task)
        running = caller.process.running if isinstance(caller, WorkerCaller) else []
        parent = running[0][0] if running else 0
        what = ev.Submit(
            task, 0, b"", deps, name="call", retries=retries, actor=actor, method="m", parent=parent
        )
        if wire is not None:
            caller.call(wire, replace(what, line=wire.number))
        else:
            caller.call_through_server(what)
        return task

    def somebody_else_has_a_result(self) -> None:
        task, caller = self.pick(self.held)
        other = self.pick(self.callers)
        caller.say()
        if other is not caller:
            other.say()
            other.peer.borrow((task,))
            other.peer.post(ev.Want((task,)))
        else:  # it is an argument
            self.submit(caller, (task,))

    def somebody_kills(self) -> None:
        if self.once_in(2):
            actor = self.pick(self.restarts)
            self.pick(self.callers).post(ev.KillActor(actor, self.once_in(2)))

    def kill(self, driver: Caller) -> None:
        wires = [w for c, w in self.granted if c is driver]
        self.drivers.remove(driver)
        self.not_counted(driver)
        newcomer = self.newcomer()
        newcomer.peer.borrow((self.cls,))
        self.drivers.append(newcomer)
        for actor in sorted(driver.handles):
            for other in self.drivers:
                if self.stage.session.state.catalog.get(actor):
                    self.pass_on(actor, other)
        if self.once_in(2):
            self.drivers.append(driver)
            for wire in wires:
                self.call(driver, wire.actor)
            self.drivers.remove(driver)
            driver.say()
        self.obey(self.stage.leave(driver.peer))

    def not_counted(self, caller: Caller) -> None:
        """Nobody else knows what results it got."""
        for process in self.processes.values():
            its_own = any(wire in process.answered for wire in caller.wires.values())
            process.is_counted = process.is_counted and not its_own

    def a_handle_is_dropped(self) -> None:
        if self.once_in(3):
            self.drop_handle(*self.pick(self.holders))

    def drop_handle(self, caller: Caller, actor: int) -> None:
        caller.handles.discard(actor)
        caller.say()
        caller.peer.drop(actor)

    def a_worker_sends_its_results(self) -> None:
        self.pick(p for p in self.processes.values() if p.packed).flush()

    def a_caller_sends_its_calls(self) -> None:
        caller, wire = self.pick(self.granted)
        caller.push(wire)

    def a_run_of_calls(self) -> None:
        """All answered before its caller says a word of them."""
        caller, wire = self.pick(self.granted)
        wire.room = 4
        for _ in range(self.chance.randrange(2, 5)):
            if caller.line_of(wire.actor) is wire:
                self.call(caller, wire.actor)
        caller.push(wire)
        self.does_all(self.at(wire), [1, 40])
        caller.read_line(wire)
        caller.say()

    def does_all(self, process: Process, sizes: list[int]) -> None:
        """What came by its lines."""
        process.drain()
        while process.running or self.can_begin(process):
            if process.running:
                self.ends(process, size=self.chance.choice(sizes))
            else:
                self.begins(process)
        process.flush()

    def a_line_is_full(self) -> None:
        """For the calls to come."""
        _, wire = self.pick(self.granted)
        if self.once_in(2):
            wire.room = self.chance.randrange(3)

    def began(self, process: Process, task: int, wire: Wire | None) -> None:
        if wire is not None:  # what ran for the server's callers is over, as it knows then
            process.caller.say()
            process.noted[wire.number] = process.numbers[task]
        actor = self.actor_of.get(task, 0)
        if actor not in self.unordered:
            process.latest = task
        process.begun.add(task)
        if not actor or actor in self.unordered:
            return
        caller = self.asked[task]
        known = self.stage.session.state.scheduler.tasks
        unsaid = {r.submit.task for r in caller.ledger if isinstance(r, Record)}
        earlier = self.order[actor, caller.peer.number]
        for each in earlier[: earlier.index(task)]:
            if each in known or each in unsaid:
                over = each in known and known[each].final_value is not None
                assert over or each in process.begun, "out of its caller's order"

    def result(self, process: Process, task: int, wire: Wire | None, size: int) -> ev.Value:
        if task not in self.asked:
            return NONE
        made = list(self.asked)  # later ones: no result is in itself
        later = made[made.index(task) + 1 :]
        caller = process.caller
        inside = [each for each in later if self.asked[each] is caller and caller.has(each)]
        return ev.Value(b"N" * size, contains=() if wire is not None else tuple(inside[-1:]))

    def makes_more(self) -> bool:
        """An argument."""
        works = bool(self.maker.inbox or self.maker.runs)
        self.maker.read_all()
        if self.maker.runs:
            self.maker.finish((NONE,), 0.01)
        self.turn()
        return works

    def a_worker_dies_in_the_middle(self) -> None:
        """With calls in its line, in its queue, running, answered and not, said and not."""
        chance = self.chance
        caller, wire = self.pick(self.granted)
        retries = chance.randrange(2)
        late = [False, *(self.once_in(4) for _ in range(chance.randrange(1, 4)))]
        for waits in late:
            self.call(caller, wire.actor, waits, retries)
        self.turn()
        for _ in late * chance.randrange(2):
            self.makes_more()
        process = self.at(wire)
        self.read_all(process)
        for _ in range(chance.randrange(3)):
            if process.running:
                self.ends(process)
            if process.queue:
                self.begins(process)
        if self.once_in(2):
            caller.say()
            self.turn()
        if self.once_in(2):
            caller.post(ev.KillActor(wire.actor, True))
            self.turn()
        for number in [n for n, p in self.processes.items() if p is process]:
            self.dies(number)
        if self.once_in(2) and wire.actor in caller.handles:
            for waits in (True, False):
                self.call(caller, wire.actor, waits)
            self.makes_more()
            self.makes_more()
        first = chance.choice(["worker", "both", ""])
        if first == "worker":  # the next one begins before the caller has heard of anything
            for _ in range(2):
                for process in list(self.processes.values()):
                    self.read_all(process)
                    if process.running:
                        self.ends(process)
                    if self.can_begin(process):
                        self.begins(process)
                self.turn()
        elif first:
            self.work()

    def an_actor_is_busy(self) -> None:
        """Much about one line: what the server hears late is mostly about what has just been."""
        caller, wire = self.pick(self.granted)
        process = self.at(wire)
        mine: deque[int] = deque(maxlen=4)
        talks = self.once_in(2)  # else most calls are over before the server hears of them
        for _ in range(self.chance.randrange(60)):
            match self.chance.randrange(16):
                case 0 | 1 | 2:
                    mine.append(self.call(caller, wire.actor))
                case 3 if talks:
                    mine.append(self.call(caller, wire.actor, waits=True))
                case 4 | 5 if mine and caller.has(mine[0]):
                    caller.drop(mine.popleft())
                case 6 if talks:
                    caller.say()
                case 7 if caller.peer.inbox:
                    caller.read()
                case 8 | 9:
                    caller.read_line(wire)
                case 10 if process.peer.inbox:
                    process.read()
                case 11:
                    process.drain()
                case 12 | 13 if self.can_begin(process):
                    self.begins(process)
                case 14 if process.running:
                    self.ends(process, HOW, 40)
                case 15:
                    self.makes_more()
            self.turn()
            if not self.is_alive(process) or caller not in self.callers:
                break
        if self.once_in(2):
            self.come_to_an_end()

    def results_are_dropped_at_once(self) -> None:
        """The server doesn't hear of most such calls."""
        caller, wire = self.pick(self.granted)
        for _ in range(self.chance.randrange(1, 6)):
            task = self.call(caller, wire.actor)
            self.does_all(self.at(wire), [40])
            caller.read_line(wire)
            caller.drop(task)

    def a_grant_comes_late(self) -> None:
        """Its caller has called again, or not all of its calls are over."""
        caller, wire = self.pick(self.granted)
        for _ in range(self.chance.randrange(1, 3)):
            self.call(caller, wire.actor, waits=True)
        self.do_all(wire)
        if self.once_in(2):
            self.call(caller, wire.actor, waits=True)
            self.turn()
        while caller.peer.inbox:
            caller.read()
        if wire.actor in caller.handles:
            self.call(caller, wire.actor)
        self.do_all(wire)

    def do_all(self, wire: Wire) -> None:
        """What an actor can, and one argument more."""
        self.turn()
        self.makes_more()
        process = self.at(wire)
        self.read_all(process)
        self.does_all(process, [1])
        process.caller.say()
        self.turn()

    def an_actor_calls_another(self) -> None:
        """By a line, and ends with the results of that."""
        process = self.pick(self.processes.values())
        caller, (_, actor) = process.caller, self.pick(self.holders)
        self.pass_on(actor, caller)
        self.one_by_one(caller, actor)
        own = self.stage.session.state.scheduler.by_client.get(caller.peer.number)
        for other, its in self.holders:
            if own is not None and own.actor is not None and its == own.actor.id:
                self.call(other, its)
                other.say()
                break
        self.turn()
        alive = caller in self.callers and actor in caller.handles
        if not alive or caller.line_of(actor) is None:
            return
        self.read_all(process)
        if self.can_begin(process):
            self.begins(process)
        if process.running:
            for _ in range(self.chance.randrange(1, 4)):
                self.call(caller, actor)
            self.ends(process, HOW)

    @property
    def lending(self) -> list[tuple[Caller, Wire, list[int]]]:
        """Lines by which drivers may give objects that they have."""
        found = [(c, w, [id for id in w.objects if c.peer.holds[id]]) for c, w in self.granted]
        return [(c, w, given) for c, w, given in found if given and c in self.drivers]

    def objects_are_arguments(self) -> None:
        """Of one call after the other, until some of them go by the line."""
        driver, actor = self.pick((d, a) for d in self.drivers for a in sorted(d.handles))
        if driver.line_of(actor) is None:
            self.one_by_one(driver, actor)
        if driver in self.drivers:
            self.one_by_one(driver, actor, (self.an_object_of(driver),))

    def calls_read_an_object(self) -> None:
        caller, wire, given = self.pick(self.lending)
        for _ in range(self.chance.randrange(1, 4)):
            self.call(caller, wire.actor, False, self.chance.randrange(2), tuple(given[:2]))
            if self.once_in(3):
                self.call(caller, wire.actor)
        if self.once_in(2):
            caller.say()
            caller.peer.drop(given[0])

    def reader(self) -> tuple[Caller, Process, int]:
        self.work()
        caller, wire, given = self.pick(self.lending)
        wire.room = 4
        self.call(caller, wire.actor, False, 1, tuple(given[:1]))
        return caller, self.at(wire), given[0]

    def is_let_go_of(self, driver: Caller, process: Process, id: int) -> None:
        super().is_let_go_of(driver, process, id)
        self.turn()
        if self.once_in(3):
            for number in [n for n, p in self.processes.items() if p is process]:
                self.dies(number)

    def one_after_the_other(self) -> None:
        self.one_by_one(*self.pick(self.holders))

    def one_by_one(self, caller: Caller, actor: int, given: tuple[int, ...] = ()) -> None:
        """What makes lines: calls, each over before the next."""
        for _ in range(3):
            self.all_is_read()
            if caller not in self.callers or actor not in caller.handles:
                return
            given = tuple(id for id in given if caller.peer.holds[id])
            self.call(caller, actor, given=given)
            self.turn()
            self.work()

    def come_to_an_end(self) -> None:
        """... and every byte of a result is counted."""
        super().come_to_an_end()
        state = self.stage.session.state
        for task, caller in self.held:
            assert caller.peer.number in state.catalog[task].holds, "its caller has a handle"
            header, restarts = caller.ends[task].header, self.restarts[self.actor_of[task]]
            unbegun = b"had not begun" in header
            assert not (unbegun and self.times[task]), "said not to have begun, and did"
            ended = b"had ended" in header
            assert self.times[task] or not ended, "said to have ended, and never began"
            first = {0: b"!actor", 1: b"!unavailable"}.get(restarts, b"-")  # it came by the line
            if task in caller.records and header.startswith(first):
                assert self.times[task] or unbegun, "may have begun, and never did"
        assert all(line.lent for line in state.lending.values()), "it is never over"
        wires = [wire for caller in self.callers for wire in caller.wires.values()]
        for process in self.processes.values():
            worker = state.scheduler.by_client[process.peer.number]
            assert not process.reported | worker.reported, "asked for and not told"
            silent = sum(wire.unheard for wire in wires if wire in process.answered)
            if process.is_counted:
                assert self.counted(process) + silent == process.spent, "not counted"

    def all_go(self) -> None:
        for caller, actor in self.holders:
            self.drop_handle(caller, actor)
        for caller in self.callers:
            for id in list(+caller.peer.holds):
                while caller.has(id):
                    caller.peer.drop(id)
        self.work()
        self.maker.read_all()
        self.turn()
        assert not self.stage.session.state.scheduler.actors
        assert not self.processes


def walks(number: int) -> int:
    """Returns how many calls by lines read an object."""
    return sum(LineMachine(Random(seed)).walk(40) for seed in range(number))


def test_walks() -> None:
    number = 4000 if THOROUGH else 15
    assert walks(number) > number, "hardly any call reads an object"


@pytest.mark.extended
@pytest.mark.parametrize("fault", FAULTS["lines"])
def test_a_fault_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        walks(300)
