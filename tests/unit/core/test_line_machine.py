"""Random calls by lines and through the server: what the server knows late is late, never wrong.

Each call begins in its caller's order, at most as often as it may, and has one end, which is the
same whoever asks: whatever dies, at any moment, and however late anybody reads. What results take
of their workers' leave is counted once. Objects that are arguments lie where a call was told, until
it is over. And the machine sees the faults that it is there for.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from functools import wraps
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.patience import THOROUGH
from tests.unit.core.conftest import Stage
from tests.unit.core.line_faults import FAULTS
from tests.unit.core.line_peers import CANCELLED, Caller, Process, Record, Wire, WorkerCaller
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.entry import READY
from workbench.core.loop_events import Copied, Left, WorkerExited

T = TypeVar("T")
Step = Callable[["LineMachine", Random], None]

NONE = ev.Value(b"N")
HOW = ["direct", "direct", "direct", "told", "relay"]
STEPS: list[tuple[Callable[[LineMachine], object], Step]] = []


def step(possible: Callable[[LineMachine], object], seldom: int = 1) -> Callable[[Step], Any]:
    """A rule of the machine, and a step of `walk`; ``seldom``: once in so many times."""

    def decorate(function: Step) -> Any:
        @wraps(function)
        def perform(machine: LineMachine, chance: Random) -> None:
            if chance.randrange(seldom) == 0:
                function(machine, chance)

        STEPS.append((possible, perform))
        ruled = rule(chance=st.randoms(use_true_random=False))(perform)
        return precondition(lambda machine: bool(possible(machine)))(ruled)

    return decorate


def always(_: LineMachine) -> bool:
    return True


def pick(chance: Random, choices: Iterable[T]) -> T:
    found = list(choices)
    return found[chance.randrange(len(found))]


class LineMachine(RuleBasedStateMachine):
    """Two drivers that stay, others that are killed, a pool of one worker, and actors, whose
    workers call actors, too."""

    @initialize(chance=st.randoms(use_true_random=False))
    def begin(self, chance: Random) -> None:
        self.stage = Stage(1, 1 << 20, spills=True)
        self.objects: set[int] = set()  # that calls have as arguments
        self.memory: dict[tuple[int, int], int] = {}  # what lies where
        self.copies: list[do.Copy] = []  # to be made
        self.by_reference = 0  # calls by lines that read one
        self.keeps_views = chance.randrange(4) == 0  # of arguments, when a call is over
        self.wires: dict[int, Wire] = {}
        self.processes: dict[int, Process] = {}
        self.drivers = [self.newcomer() for _ in range(2)]
        self.maker = self.stage.worker()
        self.cls = self.callers[0].peer.put(ev.Value(b"a class"))
        self.callers[1].peer.borrow((self.cls,))
        self.actors: list[int] = []
        self.restarts: dict[int, int] = {}
        self.unordered: set[int] = set()  # of those: two calls at a time, begun as they come
        self.calls: dict[int, tuple[int, Caller]] = {}
        self.order: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.retries: dict[int, int] = {}
        self.times: Counter[int] = Counter()
        self.turn()
        self.make(self.callers[0], chance.choice([0, 1, -1, -1]), chance.randrange(4) > 0)
        self.one_by_one(chance, self.callers[0], self.actors[0])
        if chance.randrange(2):
            self.pass_on(self.actors[0], self.callers[1])
            self.one_by_one(chance, self.callers[1], self.actors[0])
        if chance.randrange(3):  # by chance alone it takes many steps to come about
            self.objects_are_arguments(chance)
            if self.lending:
                self.a_call_reads_what_others_let_go_of(chance)

    @property
    def callers(self) -> list[Caller]:
        return [*self.drivers, *(process.caller for process in self.processes.values())]

    def newcomer(self) -> Caller:
        return Caller(self.stage.driver(linger=5.0), self.wires)

    def turn(self) -> None:
        self.obey(self.stage.turn())
        tasks = self.stage.session.state.scheduler.tasks.values()
        calls = [t for t in tasks if t.actor is not None and not t.is_creation and t.line is None]
        unfinished = Counter((t.actor, t.owner) for t in calls)
        for actor in self.stage.session.state.scheduler.actors.values():
            its_own = {owner: n for (each, owner), n in unfinished.items() if each is actor}
            assert actor.unfinished == Counter(its_own)
        for process in self.processes.values():
            assert self.counted(process) <= process.spent, "counted twice"
        catalog = self.stage.session.state.catalog
        for entry in catalog.values():
            if entry.value is not None:
                assert all(map(catalog.get, entry.value.contains)), "what is returned isn't known"

    def counted(self, process: Process) -> int:
        """Bytes of results that the server has heard of."""
        return -self.stage.session.state.budget._inline_left.get(process.peer.number, 0)

    def obey(self, out: list[do.Anything]) -> None:
        killed: list[int] = []
        for instruction in out:
            match instruction:
                case do.Fork(worker):
                    self.stage.starting.remove(worker)
                    peer = self.stage.connect(worker)
                    self.processes[worker] = Process(peer, self.wires)
                    if self.stage.session.state.catalog.get(self.cls):
                        peer.borrow((self.cls,))
                case do.Connect(line, worker):
                    self.wires[line] = Wire(line)
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
                    killed.append(worker)
                case do.Hangup(client, reason):
                    gone = [n for n, p in self.processes.items() if p.peer.number == client]
                    assert reason == "its actor has ended", reason
                    killed += gone
        for worker in killed:  # only now: it is told meanwhile what the same batch has for it
            if worker in self.processes:
                self.dies(worker)

    def dies(self, worker: int) -> None:
        process = self.processes.pop(worker)
        self.not_counted(process.caller)
        del self.stage.peers[process.peer.number]
        begun = tuple(process.noted.items())
        self.stage.post(0, WorkerExited(worker, -9, running=process.latest, begun=begun))
        process.peer.post(Left())
        process.peer._post = lambda *_: None
        self.turn()

    @property
    def holders(self) -> list[tuple[Caller, int]]:
        return [(c, a) for c in self.callers for a in sorted(c.handles)]

    @property
    def granted(self) -> list[tuple[Caller, Wire]]:
        wires = [(c, w) for c in self.callers for w in c.wires.values()]
        return [(c, w) for c, w in wires if w.is_granted and w.actor in c.handles]

    # -- callers ----------------------------------------------------------------------------------

    @step(lambda self: len(self.actors) < 3, seldom=2)
    def somebody_makes_an_actor(self, chance: Random) -> None:
        self.make(pick(chance, self.callers), chance.choice([0, 1, -1]), chance.randrange(2) > 0)

    def make(self, caller: Caller, restarts: int, in_order: bool) -> None:
        caller.say()
        actor = caller.peer.put(ev.Value(b"described"))
        self.spends(caller, len(b"described"))
        creation = ev.Submit(actor, self.cls, b"", (), (), 0, "A", 0, 0, actor, "__init__")
        limits = (restarts, 1 if in_order else 2)
        caller.post(ev.Create(creation, *limits, in_order=in_order))
        if not in_order:
            self.unordered.add(actor)
        caller.handles.add(actor)
        caller.last[actor] = 0
        self.actors.append(actor)
        self.restarts[actor] = restarts
        self.turn()

    @step(lambda self: self.holders)
    def a_handle_is_passed_on(self, chance: Random) -> None:
        _, actor = pick(chance, self.holders)
        self.pass_on(actor, pick(chance, self.callers))

    def pass_on(self, actor: int, other: Caller) -> None:
        if actor not in other.handles:
            other.say()
            other.peer.borrow((actor,))
            other.handles.add(actor)
            other.last[actor] = 0
        self.turn()

    @step(lambda self: self.holders)
    def somebody_calls(self, chance: Random) -> None:
        caller, actor = pick(chance, self.holders)
        for _ in range(chance.randrange(1, 5)):
            self.call(caller, actor, chance.randrange(6) == 0, chance.randrange(2))
        if chance.randrange(2):
            self.turn()

    def submit(self, caller: Caller, deps: tuple[int, ...]) -> int:
        """A task for the pool."""
        self.spends(caller, len(b"args"))
        return caller.peer.submit(self.cls, deps, ())[0]

    def spends(self, caller: Caller, nbytes: int) -> None:
        if isinstance(caller, WorkerCaller):
            caller.process.spent += nbytes

    def call(
        self, caller: Caller, actor: int, waits: bool, retries: int = 0, given: tuple[int, ...] = ()
    ) -> int:
        """``waits``: an argument isn't there yet; ``given``: others, which are."""
        if isinstance(caller, WorkerCaller) and caller not in self.callers:
            return caller.peer.id()  # it is gone by now
        wire = None if waits else caller.line_of(actor)
        if wire is None or not {*wire.objects}.issuperset(given):
            wire = None
            caller.say()
        deps = (self.submit(caller, ()),) if waits else given
        task = caller.peer.id()
        caller.peer.holds[task] += 1
        self.calls[task] = actor, caller
        self.order[actor, caller.peer.number].append(task)
        self.retries[task] = retries
        what = task, 0, b"", deps, (), 1, "call", 0, retries, actor, "m", None
        running = caller.process.running if isinstance(caller, WorkerCaller) else []
        parent = running[0][0] if running else 0
        if wire is not None:
            caller.call(wire, ev.Submit(*what, wire.number, parent))
        else:
            caller.call_through_server(ev.Submit(*what, parent=parent))
        return task

    @step(always)
    def a_caller_says_what_it_owes(self, chance: Random) -> None:
        pick(chance, self.callers).say()
        self.turn()

    @step(lambda self: any(c.peer.inbox for c in self.callers))
    def a_caller_reads(self, chance: Random) -> None:
        caller = pick(chance, [c for c in self.callers if c.peer.inbox])
        caller.read()
        if chance.randrange(3):  # mostly a tick comes next
            caller.say()
        self.turn()

    @step(lambda self: any(w.answers for c in self.callers for w in c.wires.values()))
    def a_caller_reads_its_line(self, chance: Random) -> None:
        found = [(c, w) for c in self.callers for w in c.wires.values() if w.answers]
        caller, wire = pick(chance, found)
        caller.read_line(wire)
        self.turn()

    @step(lambda self: self.held)
    def a_result_is_dropped(self, chance: Random) -> None:
        task, caller = pick(chance, self.held)
        caller.drop(task)
        self.turn()

    @property
    def held(self) -> list[tuple[int, Caller]]:
        """Results of calls, and who has them."""
        return [(t, c) for t, (_, c) in self.calls.items() if c in self.callers and c.has(t)]

    @step(lambda self: self.held)
    def somebody_else_has_a_result(self, chance: Random) -> None:
        task, caller = pick(chance, self.held)
        other = pick(chance, self.callers)
        caller.say()
        if other is not caller:
            other.say()
            other.peer.borrow((task,))
            other.peer.post(ev.Want((task,)))
        else:  # it is an argument
            self.submit(caller, (task,))
        self.turn()

    @step(lambda self: self.calls)
    def somebody_cancels(self, chance: Random) -> None:
        task = pick(chance, self.calls)
        if self.calls[task][1] in self.callers:
            self.calls[task][1].post(ev.Cancel(task))
        self.turn()

    @step(lambda self: self.actors, seldom=2)
    def somebody_kills(self, chance: Random) -> None:
        actor = pick(chance, self.actors)
        pick(chance, self.callers).post(ev.KillActor(actor, chance.randrange(2) == 0))
        self.turn()

    @step(lambda self: len(self.order) < 40, seldom=3)
    def a_driver_is_killed(self, chance: Random) -> None:
        """With what it hasn't said, or just after it has said that. Another one comes."""
        self.kill_driver(chance, pick(chance, self.drivers))

    def kill_driver(self, chance: Random, caller: Caller) -> None:
        granted = self.granted
        self.drivers.remove(caller)
        self.not_counted(caller)
        newcomer = self.newcomer()
        newcomer.peer.borrow((self.cls,))
        self.drivers.append(newcomer)
        for actor in sorted(caller.handles):
            for other in self.drivers:
                if self.stage.session.state.catalog.get(actor):
                    self.pass_on(actor, other)
        if chance.randrange(2):
            for wire in [w for c, w in granted if c is caller]:
                self.call(caller, wire.actor, False)
            caller.say()
        self.obey(self.stage.leave(caller.peer))

    def not_counted(self, caller: Caller) -> None:
        """Nobody else knows what results it got."""
        for process in self.processes.values():
            process.is_counted = process.is_counted and caller not in self.callers_of(process)

    def callers_of(self, process: Process) -> list[Caller]:
        """Also those that have just been killed."""
        callers = {caller for _, caller in self.calls.values()} | {*self.callers}
        return [c for c in callers if any(w in process.answered for w in c.wires.values())]

    @step(lambda self: self.holders, seldom=3)
    def a_handle_is_dropped(self, chance: Random) -> None:
        self.drop_handle(*pick(chance, self.holders))
        self.turn()

    def drop_handle(self, caller: Caller, actor: int) -> None:
        caller.handles.discard(actor)
        caller.say()
        caller.peer.drop(actor)

    # -- workers ----------------------------------------------------------------------------------

    @step(lambda self: any(p.peer.inbox for p in self.processes.values()))
    def a_worker_reads(self, chance: Random) -> None:
        pick(chance, [p for p in self.processes.values() if p.peer.inbox]).read()
        self.turn()

    @step(lambda self: self.processes)
    def a_worker_reads_its_lines(self, chance: Random) -> None:
        pick(chance, self.processes.values()).drain()

    @step(lambda self: any(p.packed for p in self.processes.values()))
    def a_worker_sends_its_results(self, chance: Random) -> None:
        pick(chance, [p for p in self.processes.values() if p.packed]).flush()

    @step(lambda self: self.granted)
    def a_caller_sends_its_calls(self, chance: Random) -> None:
        caller, wire = pick(chance, self.granted)
        caller.push(wire)

    @step(lambda self: self.granted)
    def a_run_of_calls(self, chance: Random) -> None:
        """All answered before its caller says a word of them."""
        caller, wire = pick(chance, self.granted)
        wire.room = 4
        for _ in range(chance.randrange(2, 5)):
            if caller.line_of(wire.actor) is wire:
                self.call(caller, wire.actor, False)
        caller.push(wire)
        for process in [p for p in self.processes.values() if wire in p.wires.values()]:
            process.drain()
            while process.running or self.is_able_to_begin(process):
                if process.running:
                    self.ends(process, size=chance.choice([1, 40]))
                else:
                    self.begins(process)
            process.flush()
        caller.read_line(wire)
        caller.say()
        self.turn()

    @step(lambda self: self.granted, seldom=2)
    def a_line_is_full(self, chance: Random) -> None:
        """For the calls to come."""
        _, wire = pick(chance, self.granted)
        wire.room = chance.randrange(3)

    @step(lambda self: self.able_to_begin)
    def a_call_begins(self, chance: Random) -> None:
        self.begins(pick(chance, self.able_to_begin))

    @property
    def able_to_begin(self) -> list[Process]:
        return [p for p in self.processes.values() if self.is_able_to_begin(p)]

    def is_able_to_begin(self, process: Process) -> bool:
        worker = self.stage.session.state.scheduler.by_client.get(process.peer.number)
        most = 1 if worker is None or worker.actor is None else worker.actor.concurrency
        return len(process.running) < most and len(process.queue) > 0

    def begins(self, process: Process) -> None:
        task, wire = process.queue.pop(0)
        process.running.append((task, wire))
        self.look(process)
        if wire is not None and self.objects.intersection(process.reads(task, wire)):
            self.by_reference += 1
        if wire is not None:  # what ran for the server's callers is over, as it knows then
            process.caller.say()
        if task not in self.calls:
            process.latest = task
            return
        actor, caller = self.calls[task]
        self.times[task] += 1
        assert self.times[task] <= 1 + self.retries[task], "run too often"
        process.begun.add(task)
        if wire is not None:
            process.noted[wire.number] = process.numbers[task]
        if actor in self.unordered:
            return
        process.latest = task
        known = self.stage.session.state.scheduler.tasks
        unsaid = {r.submit.task for r in caller.ledger if isinstance(r, Record)}
        for earlier in self.order[actor, caller.peer.number]:
            if earlier == task:
                return
            if earlier in known or earlier in unsaid:
                over = earlier in known and known[earlier].final_value is not None
                assert over or earlier in process.begun, "out of its caller's order"

    @step(lambda self: any(p.running for p in self.processes.values()))
    def a_call_ends(self, chance: Random) -> None:
        process = pick(chance, [p for p in self.processes.values() if p.running])
        self.ends(process, chance.choice(HOW), chance.choice([1, 40]))
        self.turn()

    def ends(self, process: Process, how: str = "direct", size: int = 1) -> None:
        self.look(process)
        task, wire = process.running.pop(0)
        for id, place in process.reads(task, wire).items():
            if id in self.objects and self.keeps_views:
                process.keeps(id, place)
        value = NONE if task not in self.calls else ev.Value(b"N" * size)
        made = list(self.calls)  # later ones: no result is in itself
        later = made[made.index(task) :] if task in self.calls else []
        inside = [t for t in later[1:] if self.calls[t][1] is process.caller]
        inside = [t for t in inside if process.caller.has(t)]
        if inside and (wire is None or how == "told"):
            value = ev.Value(b"N" * size, contains=(inside[-1],))
        if task in process.stopped:
            value, how = CANCELLED, "direct"
        process.answer(task, wire, value, how)

    @step(always)
    def an_argument_is_made(self, chance: Random) -> None:
        self.make_argument()

    def make_argument(self) -> None:
        while self.maker.inbox:
            self.maker.read()
        if self.maker.runs:
            self.maker.finish((NONE,), 0.01)
        self.turn()

    @step(lambda self: self.processes, seldom=2)
    def a_worker_dies(self, chance: Random) -> None:
        self.dies(pick(chance, self.processes))

    @step(lambda self: self.granted)
    def a_worker_dies_in_the_middle(self, chance: Random) -> None:
        """With calls in its line, in its queue, running, answered and not, said and not."""
        caller, wire = pick(chance, self.granted)
        retries = chance.randrange(2)
        late = [False, *(chance.randrange(4) == 0 for _ in range(chance.randrange(1, 4)))]
        for waits in late:
            self.call(caller, wire.actor, waits, retries)
        self.turn()
        for _ in late * chance.randrange(2):
            self.make_argument()
        process = next((p for p in self.processes.values() if wire in p.wires.values()), None)
        if process is None:
            return
        self.read_all(process)
        for _ in range(chance.randrange(3)):
            if process.running:
                self.ends(process)
            if process.queue:
                self.begins(process)
        if chance.randrange(2):
            caller.say()
            self.turn()
        if chance.randrange(2):
            caller.post(ev.KillActor(wire.actor, True))
            self.turn()
        for number in [n for n, p in self.processes.items() if p is process]:
            self.dies(number)
        if chance.randrange(2) and wire.actor in caller.handles:
            for waits in (True, False):
                self.call(caller, wire.actor, waits)
            self.make_argument()
            self.make_argument()
        first = chance.choice(["worker", "both", ""])
        if first == "worker":  # the next one begins before the caller has heard of anything
            for _ in range(2):
                for process in list(self.processes.values()):
                    self.read_all(process)
                    if process.running:
                        self.ends(process)
                    if self.is_able_to_begin(process):
                        self.begins(process)
                self.turn()
        elif first:
            self.work(chance)

    @step(lambda self: self.granted)
    def an_actor_is_busy(self, chance: Random) -> None:
        """Much about one line: what the server hears late is mostly about what has just been."""
        caller, wire = pick(chance, self.granted)
        process = next((p for p in self.processes.values() if wire in p.wires.values()), None)
        mine: deque[int] = deque(maxlen=4)
        talks = chance.randrange(2) == 0  # else most calls are over before the server hears of them
        for _ in range(chance.randrange(60)):
            match chance.randrange(16):
                case 0 | 1 | 2:
                    mine.append(self.call(caller, wire.actor, False))
                case 3 if talks:
                    mine.append(self.call(caller, wire.actor, True))
                case 4 | 5 if mine and caller.has(mine[0]):
                    caller.drop(mine.popleft())
                case 6 if talks:
                    caller.say()
                case 7 if caller.peer.inbox:
                    caller.read()
                case 8 | 9:
                    caller.read_line(wire)
                case 10 if process is not None and process.peer.inbox:
                    process.read()
                case 11 if process is not None:
                    process.drain()
                case 12 | 13 if process in self.able_to_begin:
                    self.begins(process)
                case 14 if process is not None and process.running:
                    self.ends(process, chance.choice(HOW), 40)
                case 15:
                    self.make_argument()
            self.turn()
            if process not in self.processes.values():
                process = None
        if chance.randrange(2):
            self.come_to_an_end(chance)

    @step(lambda self: self.granted)
    def results_are_dropped_at_once(self, chance: Random) -> None:
        """The server doesn't hear of most such calls."""
        caller, wire = pick(chance, self.granted)
        for _ in range(chance.randrange(1, 6)):
            task = self.call(caller, wire.actor, False)
            for process in [p for p in self.processes.values() if wire in p.wires.values()]:
                process.drain()
                while process.running or process.queue:
                    if not process.running:
                        self.begins(process)
                    self.ends(process, "direct", 40)
            caller.read_line(wire)
            caller.drop(task)
        self.turn()

    @step(lambda self: self.granted)
    def a_grant_comes_late(self, chance: Random) -> None:
        """Its caller has called again, or not all of its calls are over."""
        caller, wire = pick(chance, self.granted)
        for _ in range(chance.randrange(1, 3)):
            self.call(caller, wire.actor, True)
        self.do_all(wire)
        if chance.randrange(2):
            self.call(caller, wire.actor, True)
            self.turn()
        while caller.peer.inbox:
            caller.read()
        if wire.actor in caller.handles:
            self.call(caller, wire.actor, False)
        self.do_all(wire)

    def do_all(self, wire: Wire) -> None:
        """What an actor can, and one argument more."""
        self.turn()
        self.make_argument()
        for process in [p for p in self.processes.values() if wire in p.wires.values()]:
            self.read_all(process)
            while process.running or process.queue:
                if not process.running:
                    self.begins(process)
                self.ends(process)
            process.caller.say()
        self.turn()

    def read_all(self, process: Process) -> None:
        process.drain()
        while process.peer.inbox:
            process.read()

    @step(lambda self: self.processes and self.holders, seldom=2)
    def an_actor_calls_another(self, chance: Random) -> None:
        """By a line, and ends with the results of that."""
        caller = pick(chance, self.processes.values()).caller
        _, actor = pick(chance, self.holders)
        self.pass_on(actor, caller)
        self.one_by_one(chance, caller, actor)
        own = self.stage.session.state.scheduler.by_client.get(caller.peer.number)
        for other, its in self.holders:
            if own is not None and own.actor is not None and its == own.actor.id:
                self.call(other, its, False)
                other.say()
                break
        self.turn()
        process, wire = caller.process, caller.line_of(actor)
        if wire is None or caller not in self.callers or actor not in caller.handles:
            return
        self.read_all(process)
        if self.is_able_to_begin(process):
            self.begins(process)
        if process.running:
            for _ in range(chance.randrange(1, 4)):
                self.call(caller, actor, False)
            self.ends(process, chance.choice(HOW))
            self.turn()

    # -- arguments by reference -------------------------------------------------------------------

    def look(self, process: Process) -> None:
        """What its calls read, and its views show, is what they were given."""
        seen = list(process.shows)
        for task, wire in process.running:
            seen += process.reads(task, wire).items()
        for id, value in seen:
            if id in self.objects:
                assert value.segment in process.segments, "memory that it wasn't sent"
                assert self.memory.get((value.segment, value.offset)) == id, "another's bytes"

    def an_object_of(self, chance: Random, caller: Caller) -> tuple[int, ...]:
        """A new one, or one that it has; none if there is no room."""
        held = [id for id in sorted(self.objects) if caller.peer.holds[id]]
        if held and chance.randrange(3):
            return (pick(chance, held),)
        value = caller.peer.value(1)
        if value is None:
            self.all_is_read(chance)
            value = caller.peer.value(1) if caller in self.drivers else None
        if value is None:
            return ()
        caller.say()
        id = caller.peer.put(value)
        self.objects.add(id)
        self.memory[value.segment, value.offset] = id  # over what was there
        self.turn()
        return (id,)

    @property
    def lending(self) -> list[tuple[Caller, Wire]]:
        """Lines by which their callers may give objects that they have."""
        return [(c, w) for c, w in self.granted if any(c.peer.holds[id] for id in w.objects)]

    @step(lambda self: [c for c, _ in self.holders if c in self.drivers])
    def objects_are_arguments(self, chance: Random) -> None:
        """Of one call after the other, until some of them go by the line."""
        caller, actor = pick(chance, [(c, a) for c, a in self.holders if c in self.drivers])
        if caller.line_of(actor) is None:
            self.one_by_one(chance, caller, actor)
        given = self.an_object_of(chance, caller) if caller in self.drivers else ()
        self.one_by_one(chance, caller, actor, given)

    @step(lambda self: self.lending)
    def calls_read_an_object(self, chance: Random) -> None:
        caller, wire = pick(chance, self.lending)
        given = tuple(id for id in wire.objects if caller.peer.holds[id])[:2]
        for _ in range(chance.randrange(1, 4)):
            self.call(caller, wire.actor, False, chance.randrange(2), given)
            if chance.randrange(3) == 0:
                self.call(caller, wire.actor, False)
        if chance.randrange(2):
            self.drop_object(chance, caller, given[0])
        self.turn()

    @step(lambda self: self.lending)
    def a_call_reads_what_others_let_go_of(self, chance: Random) -> None:
        """Nobody but its caller and its worker knows of it."""
        self.work(chance)
        if not self.lending:
            return
        caller, wire = pick(chance, self.lending)
        given = tuple(id for id in wire.objects if caller.peer.holds[id])[:1]
        process = next((p for p in self.processes.values() if wire in p.wires.values()), None)
        wire.room = 4
        self.call(caller, wire.actor, False, 1, given)
        if process is None:
            return
        process.drain()
        if self.is_able_to_begin(process):
            self.begins(process)
        match chance.randrange(4):
            case 0 if caller in self.drivers:
                self.kill_driver(chance, caller)
            case 1 if caller in self.drivers:
                caller.peer.post(ev.Ask(1, "spill", given[0]))
                self.turn()
                self.make_copy()
                while caller.peer.inbox:
                    caller.read()
                self.turn()
                self.look(process)
            case 2:
                self.drop_object(chance, caller, given[0])
            case _:
                next(d for d in self.drivers if d is not caller).post(ev.Free(given))
        self.turn()
        if chance.randrange(3) == 0:
            for number in [n for n, p in self.processes.items() if p is process]:
                self.dies(number)
        for _ in range(3):
            self.all_is_read(chance)
            self.make_copy()
            if process in self.processes.values():
                self.look(process)
        if process in self.processes.values() and process.running and chance.randrange(2):
            self.ends(process, chance.choice(HOW), chance.choice([1, 40]))
        self.turn()

    def drop_object(self, chance: Random, caller: Caller, id: int) -> None:
        caller.say()
        caller.peer.drop(id)
        self.turn()
        if chance.randrange(2) and caller in self.drivers:  # its room is used anew, if it is free
            self.all_is_read(chance)
            if caller in self.drivers:
                self.an_object_of(chance, caller)

    @step(lambda self: any(d.peer.holds[id] for d in self.drivers for id in self.objects))
    def an_object_is_dropped(self, chance: Random) -> None:
        drivers, objects = self.drivers, sorted(self.objects)
        found = [(d, id) for d in drivers for id in objects if d.peer.holds[id]]
        self.drop_object(chance, *pick(chance, found))

    @step(lambda self: self.copies)
    def a_copy_is_made(self, _: Random) -> None:
        self.make_copy()

    def make_copy(self) -> None:
        if self.copies:
            copy = self.copies.pop(0)
            # Of one that was freed meanwhile, anything may be copied: nobody will read that.
            self.memory[copy.target] = self.memory.get(copy.source, 0)
            self.stage.post(0, Copied(copy.object, 1))
        self.turn()

    @step(lambda self: any(p.shows for p in self.processes.values()))
    def a_view_ends(self, chance: Random) -> None:
        pick(chance, [p for p in self.processes.values() if p.shows]).lets_go()
        self.turn()

    # -- all of them ------------------------------------------------------------------------------

    @step(always)
    def all_is_read(self, chance: Random) -> None:
        for _ in range(100):
            for caller in self.callers:
                ways: list[Callable[[], object]] = [
                    lambda caller=caller: [caller.read() for _ in range(len(caller.peer.inbox))],
                    lambda caller=caller: [caller.read_line(w) for w in [*caller.wires.values()]],
                ]
                chance.shuffle(ways)
                for way in ways:
                    way()
            for process in list(self.processes.values()):
                self.read_all(process)
            self.turn()
            quiet = not any(c.peer.inbox for c in self.callers)
            if quiet and not any(p.peer.inbox for p in self.processes.values()):
                owing = [c for c in self.callers if c.owes]
                if not owing:
                    return
                for caller in owing:  # a tick
                    caller.say()
                self.turn()
        raise AssertionError("they never come to an end")

    @step(lambda self: self.holders)
    def one_after_the_other(self, chance: Random) -> None:
        self.one_by_one(chance, *pick(chance, self.holders))

    def one_by_one(
        self, chance: Random, caller: Caller, actor: int, given: tuple[int, ...] = ()
    ) -> None:
        """What makes lines: calls, each over before the next."""
        for _ in range(3):
            self.all_is_read(chance)
            if caller not in self.callers or actor not in caller.handles:
                return
            given = tuple(id for id in given if caller.peer.holds[id])
            self.call(caller, actor, False, given=given)
            self.turn()
            self.all_is_read(chance)
            self.work(chance)

    def work(self, chance: Random) -> None:
        for _ in range(2000):
            self.make_argument()
            self.all_is_read(chance)
            running = [p for p in self.processes.values() if p.running]
            if running:
                self.ends(running[0])
            elif self.able_to_begin:
                self.begins(self.able_to_begin[0])
            elif not (self.maker.runs or self.maker.inbox):
                break

    @step(always, seldom=2)
    def nobody_owes_anything(self, chance: Random) -> None:
        self.come_to_an_end(chance)

    def come_to_an_end(self, chance: Random) -> None:
        """Every call has its end, and every byte of a result is counted."""
        for _ in range(2):
            for caller in self.callers:
                caller.say()
            self.work(chance)
        scheduler = self.stage.session.state.scheduler
        assert not scheduler.tasks, "a call was forgotten"
        for task, caller in self.held:
            assert task in caller.ends, "a call without an end"
            entry = self.stage.session.state.catalog.get(task)
            assert entry is not None, "its caller has a handle"
            assert caller.peer.number in entry.holds, "its caller has a handle"
            header, restarts = caller.ends[task].header, self.restarts[self.calls[task][0]]
            unbegun = b"had not begun" in header
            assert not (unbegun and self.times[task]), "said not to have begun, and did"
            ended = b"had ended" in header
            assert self.times[task] or not ended, "said to have ended, and never began"
            first = {0: b"!actor", 1: b"!unavailable"}.get(restarts, b"-")  # it came by the line
            if task in caller.records and header.startswith(first):
                assert self.times[task] or unbegun, "may have begun, and never did"
        for caller in self.callers:
            assert not any(wire.unanswered for wire in caller.wires.values()), "never answered"
        while self.copies:
            self.make_copy()
            self.all_is_read(chance)
        catalog, lending = self.stage.session.state.catalog, self.stage.session.state.lending
        assert all(catalog[id].state is READY for id in catalog.lent), "its room is never free"
        assert all(line.lent for line in lending.values()), "it is never over"
        assert not self.stage.session.state.moves, "it never moves"
        for process in self.processes.values():
            self.look(process)
            worker = scheduler.by_client[process.peer.number]
            assert not process.reported | worker.reported, "asked for and not told"
            wires = [w for c in self.callers for w in c.wires.values()]
            silent = sum(w.unheard for w in wires if w in process.answered)
            if process.is_counted:
                assert self.counted(process) + silent == process.spent, "not counted"

    def teardown(self) -> None:
        """Everybody does what they owe: every call has its end, and nothing is left."""
        if not hasattr(self, "stage"):
            return
        chance = Random(0)
        self.come_to_an_end(chance)
        session = self.stage.session
        for caller, actor in self.holders:
            self.drop_handle(caller, actor)
        for caller in self.callers:
            for id in list(+caller.peer.holds):
                while caller.has(id):
                    caller.peer.drop(id)
        self.work(chance)
        while self.maker.inbox:
            self.maker.read()
        self.turn()
        assert not session.state.scheduler.actors
        assert not self.processes
        assert not session.state.catalog, list(session.state.catalog.values())
        assert not session.lines._lines
        assert not session.state.lending


TestLines = LineMachine.TestCase
TestLines.settings = settings(max_examples=settings().max_examples // 2)


def walk(seed: int, steps: int = 40) -> int:
    """The same at random, without Hypothesis, which takes ten times as long."""
    chance, machine = Random(seed), LineMachine()
    machine.begin(chance)
    for _ in range(steps):
        _, perform = pick(chance, [each for each in STEPS if each[0](machine)])
        perform(machine, chance)
    machine.teardown()
    return machine.by_reference


@pytest.mark.parametrize(
    "seeds", [range(n, n + 25) for n in range(0, 2000 if THOROUGH else 50, 25)]
)
def walks(number: int) -> int:
    return sum(map(walk, range(number)))


def test_walks() -> None:
    number = 4000 if THOROUGH else 60
    assert walks(number) > number, "hardly any call reads an object"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        walks(120)
