"""Random calls by lines and through the server: what the server knows late is late, never wrong.

Each call begins in its caller's order, at most as often as it may, and has one end, which is the
same whoever asks: whatever dies, at any moment, and however late anybody reads.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.unit.core.conftest import Stage
from tests.unit.core.peers import Peer
from tests.unit.core.spec import plain
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import Left, WorkerExited

T = TypeVar("T")

NONE = ev.Value(b"N")
PICK = st.integers(0, 1000)
TOLD = None
"""What a line says of a result that the server will tell."""


def pick(choices: Iterable[T], n: int) -> T:
    found = list(choices)
    return found[n % len(found)]


@dataclass(eq=False)
class Wire:
    """A line's socket: what is on its way, and whether each end is open."""

    number: int
    actor: int = 0
    calls: deque[int] = field(default_factory=deque)
    answers: deque[tuple[int, ev.Value | None]] = field(default_factory=deque)
    is_granted: bool = False
    is_detached: bool = False


@dataclass(eq=False)
class Record:
    """A call by a line, as its caller knows it."""

    wire: Wire
    submit: ev.Submit
    answer: ev.Value | None = None
    is_said: bool = False
    is_dropped: bool = False


@dataclass(eq=False)
class Caller:
    peer: Peer
    ledger: list[Record] = field(default_factory=list)  # not said yet
    records: dict[int, Record] = field(default_factory=dict)
    wires: dict[int, Wire] = field(default_factory=dict)  # by actor
    last: dict[int, int] = field(default_factory=dict)  # by actor: calls not by a line
    handles: set[int] = field(default_factory=set)  # of actors
    ends: dict[int, ev.Value] = field(default_factory=dict)

    def say(self) -> None:
        """All that the server isn't to hear any later. What nobody can ask for isn't said."""
        ledger, self.ledger = self.ledger, []
        for record in ledger:
            task = record.submit.task
            record.is_said = True
            if record.answer is not None and record.is_dropped:
                continue
            self.peer.post(record.submit)
            if record.answer is not None:
                self.peer.post(ev.Settled(task, record.answer))
            if record.is_dropped:
                self.peer.drop(task)

    def post(self, event: ev.Event) -> None:
        self.say()
        self.peer.post(event)

    def ended(self, task: int, value: ev.Value) -> None:
        before = self.ends.setdefault(task, value)
        assert plain(before) == plain(value), "two ends"

    def read_line(self, wire: Wire) -> None:
        while wire.answers:
            task, value = wire.answers.popleft()
            record = self.records[task]
            if value is TOLD:
                self.say()
                continue
            self.ended(task, value)
            record.answer = value
            if record.is_said:
                self.post(ev.Settled(task, value))

    def read(self) -> None:
        message = self.peer.inbox.popleft()
        match message:
            case do.Ready(object, value):
                self.ended(object, value)
            case do.Offer(line, actor):
                wire = next(w for w in MACHINE[0].wires.values() if w.number == line)
                wire.actor = actor
                good = len(self.wires) < 2
                if good:
                    self.wires[actor] = wire
                self.post(ev.Attached(line, good))
            case do.Grant(line, last):
                for actor, wire in self.wires.items():
                    if wire.number == line:
                        wire.is_granted = last == self.last[actor]
            case do.LineEnded(line):
                wire = next(w for w in self.wires.values() if w.number == line)
                self.read_line(wire)
                del self.wires[wire.actor]
                self.post(ev.LineClosed(line))
            case ev.Relay(line, data):
                for wire in self.wires.values():
                    if wire.number == line:
                        self.read_line(wire)
                        wire.answers.append((int(data), NONE))
                        self.read_line(wire)
            case do.Forget(objects):
                self.post(ev.Unview(tuple((id, 0) for id in objects)))


MACHINE: list[LineMachine] = []


@dataclass(eq=False)
class Process:
    """An actor's worker."""

    peer: Peer
    wires: dict[int, Wire] = field(default_factory=dict)
    queue: list[tuple[int, Wire | None]] = field(default_factory=list)
    running: tuple[int, Wire | None] | None = None
    latest: int = 0
    begun: set[int] = field(default_factory=set)
    kept: dict[int, ev.Value] = field(default_factory=dict)  # results that went by a line
    reported: set[int] = field(default_factory=set)
    stopped: set[int] = field(default_factory=set)

    def drain(self) -> None:
        for wire in self.wires.values():
            while wire.calls:
                self.queue.append((wire.calls.popleft(), wire))

    def read(self) -> None:
        message = self.peer.inbox.popleft()
        self.drain()
        match message:
            case do.Run() as run:
                self.queue.append((run.task, None))
            case do.Attach(line):
                self.wires[line] = MACHINE[0].wires[line]
                self.peer.post(ev.Attached(line))
            case do.Stop(task):
                for each in self.queue:
                    if each[0] == task:
                        self.queue.remove(each)
                        self.answer(*each, ev.error_value("cancelled", ""), "direct")
                        return
                if self.running is not None and self.running[0] == task:
                    self.stopped.add(task)
            case do.Report(_, task):
                if task in self.kept:
                    self.peer.post(ev.Done(task, (self.kept[task],), 0.1))
                else:
                    where = [*self.queue, self.running or (0, None)]
                    assert task in [t for t, _ in where], "what it doesn't know"
                    self.reported.add(task)
            case do.Detach(line):
                self.wires.pop(line).is_detached = True
            case do.Forget(objects):
                self.peer.post(ev.Unview(tuple((id, 0) for id in objects)))

    def answer(self, task: int, wire: Wire | None, value: ev.Value, how: str) -> None:
        if wire is None:
            self.peer.post(ev.Done(task, (value,), 0.1))
            return
        self.kept[task] = value
        if not wire.is_detached:
            if how == "relay" and not value.failed:
                self.peer.post(ev.Relay(wire.number, b"%d" % task))
            else:
                wire.answers.append((task, TOLD if how == "told" else value))
        if task in self.reported:
            self.peer.post(ev.Done(task, (value,), 0.1))


class LineMachine(RuleBasedStateMachine):
    """Two drivers that stay, others that are killed, a pool of one worker, and actors."""

    @initialize(restarts=st.sampled_from([0, 1, -1, -1]), both=st.booleans())
    def begin(self, restarts: int, both: bool) -> None:
        MACHINE[:] = [self]
        self.stage = Stage(1, 1 << 20)
        self.callers = [Caller(self.stage.driver(linger=5.0)) for _ in range(2)]
        self.maker = self.stage.worker()
        self.wires: dict[int, Wire] = {}
        self.processes: dict[int, Process] = {}
        self.cls = self.callers[0].peer.put(ev.Value(b"a class"))
        self.callers[1].peer.borrow((self.cls,))
        self.actors: list[int] = []
        self.calls: dict[int, tuple[int, Caller]] = {}
        self.order: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.retries: dict[int, int] = {}
        self.times: Counter[int] = Counter()
        self.turn()
        self.creates(0, restarts)
        self.one_after_the_other(0)
        if both:
            self.a_handle_is_passed_on(0, 1)
            self.one_after_the_other(1)

    def turn(self) -> None:
        self.obey(self.stage.turn())
        tasks = self.stage.session.state.scheduler.tasks.values()
        calls = [t for t in tasks if t.actor is not None and not t.is_creation and t.line is None]
        unfinished = Counter((t.actor, t.owner) for t in calls)
        for actor in self.stage.session.state.scheduler.actors.values():
            its_own = {owner: n for (each, owner), n in unfinished.items() if each is actor}
            assert actor.unfinished == Counter(its_own)

    def obey(self, out: list[do.Anything]) -> None:
        for instruction in out:
            match instruction:
                case do.Fork(worker):
                    self.stage.starting.remove(worker)
                    self.processes[worker] = Process(self.stage.connect(worker))
                case do.Connect(line, worker):
                    self.wires[line] = Wire(line)
                    self.stage.peers[worker].inbox.append(do.Attach(line))
                case do.Kill(worker) if worker in self.processes:
                    self.dies(worker)
                case do.Hangup(client, reason):
                    gone = [n for n, p in self.processes.items() if p.peer.number == client]
                    assert gone or reason == "its actor has ended", reason
                    for worker in gone:
                        self.dies(worker)

    def dies(self, worker: int) -> None:
        process = self.processes.pop(worker)
        del self.stage.peers[process.peer.number]
        self.stage.post(0, WorkerExited(worker, -9, running=process.latest))
        process.peer.post(Left())
        self.turn()

    @property
    def holders(self) -> list[tuple[Caller, int]]:
        return [(c, a) for c in self.callers for a in sorted(c.handles)]

    # -- what happens -----------------------------------------------------------------------------

    @precondition(lambda self: len(self.actors) < 3)
    @rule(n=PICK, restarts=st.sampled_from([0, 1, -1]))
    def creates(self, n: int, restarts: int) -> None:
        caller = pick(self.callers, n)
        caller.say()
        actor = caller.peer.put(ev.Value(b"described"))
        creation = ev.Submit(actor, self.cls, b"", (), (), 0, "A", 0, 0, actor, "__init__")
        caller.post(ev.Create(creation, restarts))
        caller.handles.add(actor)
        caller.last[actor] = 0
        self.actors.append(actor)
        self.turn()

    @precondition(lambda self: self.holders)
    @rule(n=PICK, d=PICK)
    def a_handle_is_passed_on(self, n: int, d: int) -> None:
        caller, actor = pick(self.holders, n)
        other = pick(self.callers, d)
        caller.say()
        if actor not in other.handles:
            other.say()
            other.peer.borrow((actor,))
            other.handles.add(actor)
            other.last[actor] = 0
        self.turn()

    @precondition(lambda self: self.holders)
    @rule(n=PICK, late=st.lists(st.sampled_from([False] * 5 + [True]), min_size=1, max_size=4),
          retries=st.integers(0, 1), at_once=st.booleans())  # fmt: skip
    def calls_it(self, n: int, late: list[bool], retries: int, at_once: bool = True) -> None:
        caller, actor = pick(self.holders, n)
        for waits in late:
            wire = caller.wires.get(actor)
            by_line = not waits and wire is not None and wire.is_granted
            if not by_line:
                caller.say()
            deps = (caller.peer.submit(self.cls, (), ())[0],) if waits else ()
            task = caller.peer.id()
            caller.peer.holds[task] += 1
            self.calls[task] = actor, caller
            self.order[actor, caller.peer.number].append(task)
            self.retries[task] = retries
            submit = ev.Submit(task, 0, b"", deps, (), 1, "call", 0, retries, actor, "m")
            if by_line:
                assert wire is not None
                submit = ev.Submit(
                    task, 0, b"", (), (), 1, "call", 0, retries, actor, "m", None, wire.number
                )
                record = caller.records[task] = Record(wire, submit)
                wire.calls.append(task)
                caller.ledger.append(record)
            else:
                caller.last[actor] = task
                if wire is not None:
                    wire.is_granted = False
                caller.post(submit)
        if at_once:
            self.turn()

    @rule(n=PICK)
    def a_caller_says_what_it_owes(self, n: int) -> None:
        pick(self.callers, n).say()
        self.turn()

    @precondition(lambda self: any(c.peer.inbox for c in self.callers))
    @rule(n=PICK)
    def a_caller_reads(self, n: int) -> None:
        pick([c for c in self.callers if c.peer.inbox], n).read()
        self.turn()

    @precondition(lambda self: any(w.answers for c in self.callers for w in c.wires.values()))
    @rule(n=PICK)
    def a_caller_reads_its_line(self, n: int) -> None:
        caller, wire = pick(
            [(c, w) for c in self.callers for w in c.wires.values() if w.answers], n
        )
        caller.read_line(wire)
        self.turn()

    @precondition(lambda self: any(p.peer.inbox for p in self.processes.values()))
    @rule(n=PICK)
    def a_worker_reads(self, n: int) -> None:
        pick([p for p in self.processes.values() if p.peer.inbox], n).read()
        self.turn()

    @precondition(lambda self: self.processes)
    @rule(n=PICK)
    def a_worker_reads_its_lines(self, n: int) -> None:
        pick(self.processes.values(), n).drain()

    @precondition(lambda self: any(p.queue and not p.running for p in self.processes.values()))
    @rule(n=PICK)
    def a_call_begins(self, n: int) -> None:
        self.begins(pick([p for p in self.processes.values() if p.queue and not p.running], n))

    def begins(self, process: Process) -> None:
        process.running = task, _ = process.queue.pop(0)
        process.latest = task
        if task not in self.calls:
            return
        actor, caller = self.calls[task]
        self.times[task] += 1
        assert self.times[task] <= 1 + self.retries[task], "run too often"
        process.begun.add(task)
        known = self.stage.session.state.scheduler.tasks
        unsaid = {record.submit.task for record in caller.ledger}
        for earlier in self.order[actor, caller.peer.number]:
            if earlier == task:
                return
            if earlier in known or earlier in unsaid:
                left = earlier in process.begun or (
                    known.get(earlier, None) is not None
                    and (known[earlier].final_value is not None)
                )
                assert left, "out of its caller's order"

    @precondition(lambda self: any(p.running for p in self.processes.values()))
    @rule(n=PICK, how=st.sampled_from(["direct", "direct", "told", "relay"]))
    def a_call_ends(self, n: int, how: str) -> None:
        process = pick([p for p in self.processes.values() if p.running], n)
        assert process.running is not None
        task, wire = process.running
        process.running = None
        value = NONE
        if task in process.stopped:
            value, how = ev.error_value("cancelled", ""), "direct"
        elif how == "told" and wire is not None:
            value = ev.Value(b"told")
        process.answer(task, wire, value, how)
        self.turn()

    @rule()
    def an_argument_is_made(self) -> None:
        while self.maker.inbox:
            self.maker.read()
        if self.maker.runs:
            self.maker.finish((NONE,), 0.01)
        self.turn()

    @precondition(lambda self: self.calls)
    @rule(n=PICK)
    def a_result_is_dropped(self, n: int) -> None:
        task = pick(self.calls, n)
        _, caller = self.calls[task]
        record = caller.records.get(task)
        if caller not in self.callers or not caller.peer.holds[task]:
            return
        if record is not None and not record.is_said:
            if not record.is_dropped:
                record.is_dropped = True
        elif record is None or not record.is_dropped:
            caller.say()
            caller.peer.drop(task)
            if record is not None:
                record.is_dropped = True
        self.turn()

    @precondition(lambda self: self.calls)
    @rule(n=PICK, d=PICK)
    def somebody_else_has_a_result(self, n: int, d: int) -> None:
        task = pick(self.calls, n)
        _, caller = self.calls[task]
        other = pick(self.callers, d)
        record = caller.records.get(task)
        dropped = record is not None and record.is_dropped
        if caller in self.callers and caller.peer.holds[task] and not dropped:
            caller.say()
            if other is not caller:
                other.say()
                other.peer.borrow((task,))
                other.peer.post(ev.Want((task,)))
            else:  # it is an argument
                caller.peer.submit(self.cls, (task,), ())
            self.turn()

    @precondition(lambda self: self.calls)
    @rule(n=PICK, d=PICK)
    def somebody_cancels(self, n: int, d: int) -> None:
        task = pick(self.calls, n)
        if self.calls[task][1] in self.callers:
            self.calls[task][1].post(ev.Cancel(task))
        self.turn()

    @precondition(lambda self: self.processes)
    @rule(n=PICK)
    def a_worker_dies(self, n: int) -> None:
        if n % 2:  # more often there is more to lose
            return
        self.dies(pick(self.processes, n))

    @precondition(lambda self: any(w.is_granted for c in self.callers for w in c.wires.values()))
    @rule(
        n=PICK,
        late=st.lists(st.sampled_from([False] * 3 + [True]), min_size=1, max_size=3),
        begun=st.integers(0, 2),
        said=st.booleans(),
        behind=st.booleans(),
        killed=st.booleans(),
        made=st.booleans(),
        first=st.sampled_from(["caller", "worker", "both", ""]),
    )
    def a_worker_dies_in_the_middle(
        self, n: int, late: list[bool], begun: int, said: bool, behind: bool, killed: bool,
        made: bool, first: str,
    ) -> None:  # fmt: skip
        """With calls in its line, in its queue, running, answered and not, said and not."""
        granted = [(c, w) for c in self.callers for w in c.wires.values() if w.is_granted]
        caller, wire = pick(granted, n)
        place = self.holders.index((caller, wire.actor)) if wire.actor in caller.handles else n
        if not self.holders:
            return
        self.calls_it(place, [False, *late], n % 2)
        if made:
            for _ in late:
                self.an_argument_is_made()
        found = [p for p in self.processes.values() if wire in p.wires.values()]
        for process in found:
            process.drain()
            while process.peer.inbox:
                process.read()
            for _ in range(begun):
                if process.running:
                    self.a_call_ends(list(self.processes.values()).index(process), "direct")
                if process.queue:
                    self.begins(process)
        if said:
            caller.say()
            self.turn()
        if killed:
            caller.post(ev.KillActor(wire.actor, True))
            self.turn()
        for number, process in list(self.processes.items()):
            if process in found:
                self.dies(number)
        if behind and self.holders:
            self.calls_it(place, [True, False], 0)
            self.an_argument_is_made()
            self.an_argument_is_made()
        if first == "worker":  # the next one begins before the caller has heard of anything
            for process in list(self.processes.values()):
                while process.peer.inbox:
                    process.read()
                if process.queue and not process.running:
                    self.begins(process)
                    self.a_call_ends(0, "direct")
                self.turn()
                while process.peer.inbox:
                    process.read()
                if process.queue and not process.running:
                    self.begins(process)
        elif first:
            self.work()

    @precondition(lambda self: self.actors)
    @rule(n=PICK, d=PICK, restart=st.booleans())
    def somebody_kills(self, n: int, d: int, restart: bool) -> None:
        if n % 2:
            return
        pick(self.callers, d).post(ev.KillActor(pick(self.actors, n), restart))
        self.turn()

    @precondition(lambda self: len(self.order) < 40)
    @rule(n=PICK)
    def a_driver_is_killed(self, n: int) -> None:
        """With what it hasn't said. Another one comes."""
        if n % 3:
            return
        caller = self.callers.pop(n % 2)
        newcomer = Caller(self.stage.driver(linger=5.0))
        newcomer.peer.borrow((self.cls,))
        self.callers.append(newcomer)
        for other in self.callers:
            for actor in sorted(caller.handles):
                if self.stage.session.state.catalog.get(actor) and actor not in other.handles:
                    other.say()
                    other.peer.borrow((actor,))
                    other.handles.add(actor)
                    other.last[actor] = 0
        self.obey(self.stage.leave(caller.peer))

    @precondition(lambda self: self.holders)
    @rule(n=PICK)
    def a_handle_is_dropped(self, n: int) -> None:
        if n % 3:
            return
        caller, actor = pick(self.holders, n)
        self.drop(caller, actor)
        self.turn()

    def drop(self, caller: Caller, actor: int) -> None:
        caller.handles.discard(actor)
        caller.say()
        caller.peer.drop(actor)

    @rule()
    def all_is_read(self) -> None:
        for _ in range(100):
            for caller in self.callers:
                while caller.peer.inbox:
                    caller.read()
                for wire in list(caller.wires.values()):
                    caller.read_line(wire)
            for process in list(self.processes.values()):
                while process.peer.inbox:
                    process.read()
                process.drain()
            self.turn()
            quiet = not any(c.peer.inbox for c in self.callers)
            if quiet and not any(p.peer.inbox for p in self.processes.values()):
                return
        raise AssertionError("they never come to an end")

    @rule(n=PICK)
    def one_after_the_other(self, n: int) -> None:
        """What makes lines: calls, each over before the next."""
        if not self.holders:
            return
        for _ in range(3):
            self.all_is_read()
            if not self.holders:
                return
            self.calls_it(n, [False], 0)
            self.all_is_read()
            self.work()

    def work(self) -> None:
        for _ in range(2000):
            self.an_argument_is_made()
            self.all_is_read()
            if any(p.running for p in self.processes.values()):
                self.a_call_ends(0, "direct")
            elif any(p.queue for p in self.processes.values()):
                self.a_call_begins(0)
            elif not (self.maker.runs or self.maker.inbox):
                break

    # -- the end ----------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Everybody does what they owe: every call has its end, and nothing is left."""
        if not hasattr(self, "stage"):
            return
        for caller in self.callers:
            caller.say()
        self.work()
        session = self.stage.session
        assert not session.state.scheduler.tasks, "a call was forgotten"
        for task, (_, caller) in self.calls.items():
            record = caller.records.get(task)
            dropped = record is not None and record.is_dropped
            if caller in self.callers and caller.peer.holds[task] and not dropped:
                assert task in caller.ends, "a call without an end"
        for caller, actor in self.holders:
            self.drop(caller, actor)
        for caller in self.callers:
            for id in list(+caller.peer.holds):
                record = caller.records.get(id)
                if record is None or not record.is_dropped:
                    while caller.peer.holds[id]:
                        caller.peer.drop(id)
        self.work()
        while self.maker.inbox:
            self.maker.read()
        self.turn()
        assert not session.state.scheduler.actors
        assert not self.processes
        assert not session.state.catalog, list(session.state.catalog.values())
        assert not session.lines._lines


TestLines = LineMachine.TestCase
TestLines.settings = settings(max_examples=settings().max_examples)
