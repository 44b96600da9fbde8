"""Both ends of lines, without sockets: a caller, an actor's worker, and what is between them.

They do what `client.direct_calls` and `worker.incoming_calls` do, as late as a test likes, and see
for themselves that no call has two ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

from tests.unit.core.peers import Peer
from tests.unit.core.spec import plain
from workbench.core import events as ev
from workbench.core import instructions as do

AHEAD = 6
"""Calls on a line without an answer, at most."""

UNHEARD = 60
"""Bytes of results that the server may be told of later; see `ev.Unheard`."""

CANCELLED = ev.error_value("cancelled", "")

TOLD = None
"""What a line says of a result that the server will tell."""


def taken(value: ev.Value) -> int:
    """Bytes of its maker's leave for results in messages."""
    return 0 if value.failed or len(value.header) <= 1 else len(value.header)


@dataclass(eq=False)
class Wire:
    """A line's socket: what is on its way. And what its caller knows of it."""

    number: int
    actor: int = 0
    calls: deque[tuple[int, int, int]] = field(default_factory=deque)  # (number, known, task)
    answers: deque[tuple[int, ev.Value | None]] = field(default_factory=deque)
    packed: list[Record] = field(default_factory=list)  # calls to be sent together
    room: int = 4  # calls that the socket takes
    has_ended: bool = False
    is_granted: bool = False
    records: deque[Record] = field(default_factory=deque)  # until the server knows of their ends
    sent: int = 0
    known: int = 0
    unanswered: int = 0
    unheard: int = 0
    objects: tuple[int, ...] = ()  # that may be arguments, as its caller knows
    deps: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by task
    is_shut: bool = False  # its worker lets nothing more come


@dataclass(eq=False)
class Record:
    """A call by a line, as its caller knows it."""

    wire: Wire
    submit: ev.Submit
    number: int
    answer: ev.Value | None = None
    is_said: bool = False
    is_dropped: bool = False
    is_known: bool = False  # the server has heard all of it


@dataclass(eq=False)
class Caller:
    peer: Peer
    all_wires: dict[int, Wire]  # by number: everybody's
    ledger: list[Record | ev.Event] = field(default_factory=list)  # not said yet, in order
    records: dict[int, Record] = field(default_factory=dict)
    wires: dict[int, Wire] = field(default_factory=dict)  # by actor
    last: dict[int, int] = field(default_factory=dict)  # by actor: calls not by a line
    handles: set[int] = field(default_factory=set)  # of actors
    ends: dict[int, ev.Value] = field(default_factory=dict)

    def line_of(self, actor: int) -> Wire | None:
        wire = self.wires.get(actor)
        usable = wire is not None and wire.is_granted and wire.unanswered < AHEAD
        return wire if usable else None

    def call(self, wire: Wire, submit: ev.Submit) -> None:
        while wire.records and wire.records[0].is_known:
            wire.known = wire.records.popleft().number
        wire.sent += 1
        wire.unanswered += 1
        wire.deps[submit.task] = submit.deps
        record = self.records[submit.task] = Record(wire, submit, wire.sent)
        wire.records.append(record)
        wire.packed.append(record)
        self.ledger.append(record)
        if wire.unanswered == len(wire.packed):
            self.push(wire)

    def push(self, wire: Wire) -> None:
        """Send what is packed; if it can't be, it goes through the server."""
        packed, wire.packed = wire.packed, []
        for number, record in enumerate(packed):
            if wire.has_ended or wire.is_shut or len(wire.calls) >= wire.room:
                self.withdraw(wire, packed[number:])
                return
            wire.calls.append((record.number, wire.known, record.submit.task))

    def withdraw(self, wire: Wire, records: list[Record]) -> None:
        wire.is_granted = False
        for record in records:
            del self.records[record.submit.task]
            wire.records.remove(record)
            wire.unanswered -= 1
            record.submit = msgspec.structs.replace(record.submit, line=0)
            self.last[wire.actor] = record.submit.task

    def call_through_server(self, submit: ev.Submit) -> None:
        self.last[submit.actor] = submit.task
        wire = self.wires.get(submit.actor)
        if wire is not None:
            wire.is_granted = False
        self.post(submit)

    def say(self) -> None:
        """All that the server isn't to hear any later. What nobody can ask for isn't said."""
        for wire in self.wires.values():
            self.push(wire)
        ledger, self.ledger = self.ledger, []
        run: list[Record] = []
        dropped: list[int] = []
        for record in ledger:
            if not isinstance(record, Record):
                self.tell(run)
                self.peer.post(record)
                if isinstance(record, ev.Settled):
                    self.records[record.task].is_known = True
                continue
            task = record.submit.task
            record.is_said = True
            if not record.submit.line:
                self.tell(run)
                self.peer.post(record.submit)
                continue
            if record.answer is not None and record.is_dropped:
                record.is_known = True
                self.keeps_silent(record.wire, taken(record.answer))
                continue
            if record.answer is None:
                self.tell(run)
                self.peer.post(record.submit)
            else:
                record.is_known = True
                if run and run[-1].wire is not record.wire:
                    self.tell(run)
                run.append(record)
            if record.is_dropped:
                dropped.append(task)
        self.tell(run)
        for task in dropped:  # a drop comes late, behind what its result is in
            self.peer.drop(task)

    def tell(self, run: list[Record]) -> None:
        """Of calls that are over, together."""
        if run:
            tasks = tuple(record.submit.task for record in run)
            values = tuple(record.answer for record in run if record.answer is not None)
            self.peer.post(ev.SettledCalls(run[0].wire.number, tasks, values))
            run.clear()

    def keeps_silent(self, wire: Wire, nbytes: int) -> None:
        if wire not in self.wires.values():
            return  # the worker is gone, too
        wire.unheard += nbytes
        if wire.unheard >= UNHEARD:
            self.peer.post(ev.Unheard(wire.number, wire.unheard))
            wire.unheard = 0

    def owe(self, event: ev.Event) -> None:
        """It is said with what comes next, or with a tick."""
        self.ledger.append(event)

    @property
    def owes(self) -> bool:
        """Whether a tick comes soon."""
        return not all(isinstance(each, Record) for each in self.ledger)

    def post(self, event: ev.Event) -> None:
        self.owe(event)
        self.say()

    def drop(self, task: int) -> None:
        """It lets go of a result."""
        record = self.records.get(task)
        if record is None or record.is_said:
            self.say()
            self.peer.drop(task)
        if record is not None:
            record.is_dropped = True

    def has(self, task: int) -> bool:
        """Whether it has a handle of a result."""
        record = self.records.get(task)
        return self.peer.holds[task] > 0 and (record is None or not record.is_dropped)

    def ended(self, task: int, value: ev.Value) -> None:
        before = self.ends.setdefault(task, value)
        assert plain(before) == plain(value), "two ends"

    def answered(self, record: Record, value: ev.Value) -> None:
        if record.answer is None:
            record.answer = value
            record.wire.unanswered -= 1
            assert record.wire.unanswered >= 0, "more answers than calls"

    def read_line(self, wire: Wire) -> None:
        while wire.answers:
            task, value = wire.answers.popleft()
            record = self.records[task]
            if value is TOLD:
                self.say()
            elif record.answer is None:
                self.ended(task, value)
                self.answered(record, value)
                if record.is_said:
                    self.owe(ev.Settled(task, value))

    def read(self) -> None:
        message = self.peer.inbox.popleft()
        match message:
            case do.Ready(object, value):
                record = self.records.get(object)
                if record is None or not record.is_dropped:
                    self.ended(object, value)
                if record is not None:
                    record.is_known = True
                    self.answered(record, value)
            case do.Offer(line, actor):
                wire = self.all_wires[line]
                wire.actor = actor
                good = len(self.wires) < 2
                if good:
                    self.wires[actor] = wire
                self.owe(ev.Attached(line, good))
            case do.Grant(line, last, objects):
                self.all_wires[line].objects = objects
                self.granted(line, last)
            case do.LineEnded(line, begun):
                wire = self.all_wires[line]
                wire.has_ended = True
                self.read_line(wire)
                self.say()
                if wire.unheard:
                    self.owe(ev.Unheard(line, wire.unheard))
                    wire.unheard = 0
                del self.wires[wire.actor]
                behind = [r for r in wire.records if r.answer is None and r.number > begun >= 0]
                self.owe(ev.LineClosed(line, behind[0].submit.task if behind else 0))
            case ev.Relay(line, data):
                wire = self.all_wires[line]
                if wire in self.wires.values():
                    self.read_line(wire)
                    task, _, header = data.partition(b" ")
                    wire.answers.append((int(task), ev.Value(header)))
                    self.read_line(wire)
            case do.Forget(objects):
                self.owe(ev.Unview(tuple((id, 0) for id in objects)))
            case do.Release() | do.Grown() | do.Moved():
                self.say()
                self.peer.inbox.appendleft(message)
                self.peer.read()

    def read_all(self) -> None:
        for _ in range(len(self.peer.inbox)):
            self.read()

    def read_lines(self) -> None:
        for wire in [*self.wires.values()]:
            self.read_line(wire)

    def granted(self, line: int, last: int) -> None:
        for actor, wire in self.wires.items():
            if wire.number == line:
                wire.is_granted = last == self.last[actor]


HEARD_BY_CALLERS = (do.Ready, do.Offer, do.Grant, do.LineEnded, ev.Relay)


class WorkerCaller(Caller):
    """An actor's worker that calls actors. What it says has one order."""

    process: Process

    def read(self) -> None:
        self.process.read()


@dataclass(eq=False)
class Process:
    """An actor's worker. ``spent``: bytes of its leave for results in messages; ``returned``: lines
    that it has said are over."""

    peer: Peer
    all_wires: dict[int, Wire]
    wires: dict[int, Wire] = field(default_factory=dict)
    queue: list[tuple[int, Wire | None]] = field(default_factory=list)
    running: list[tuple[int, Wire | None]] = field(default_factory=list)
    latest: int = 0
    noted: dict[int, int] = field(default_factory=dict)  # by line: the last call that began
    begun: set[int] = field(default_factory=set)
    coming: dict[int, Wire] = field(default_factory=dict)  # calls by lines that have no answer
    kept: dict[int, tuple[ev.Value, Wire, str]] = field(default_factory=dict)  # results
    answered: dict[Wire, deque[tuple[int, int]]] = field(default_factory=dict)  # (number, task)
    numbers: dict[int, int] = field(default_factory=dict)
    forgotten: set[int] = field(default_factory=set)
    packed: list[tuple[Wire, int, ev.Value | None]] = field(default_factory=list)  # results
    reported: set[int] = field(default_factory=set)
    stopped: set[int] = field(default_factory=set)
    closing: set[Wire] = field(default_factory=set)
    returned: set[Wire] = field(default_factory=set)
    segments: set[int] = field(default_factory=set)  # that it was sent
    lent: dict[int, dict[int, ev.Value]] = field(default_factory=dict)  # places, by line
    given: dict[int, dict[int, ev.Value]] = field(default_factory=dict)  # arguments, by task
    shows: list[tuple[int, ev.Value]] = field(default_factory=list)  # views that outlive tasks
    waits: dict[int, int] = field(default_factory=dict)  # by number: what its task waits for
    spent: int = 0
    is_counted: bool = True  # nobody was killed who hadn't said what it got

    def __post_init__(self) -> None:
        self.caller = WorkerCaller(self.peer, self.all_wires)
        self.caller.process = self

    def remains(self) -> tuple[tuple[int, int], ...]:
        """What its note says when it is dead: by line, the last call that began."""
        return tuple(self.noted.items())

    def drain(self) -> None:
        for wire in self.wires.values():
            while wire.calls:
                number, known, task = wire.calls.popleft()
                answered = self.answered[wire]
                while answered and answered[0][0] <= known:
                    _, old = answered.popleft()
                    self.kept.pop(old, None)
                    self.forgotten.add(old)
                self.numbers[task] = number
                self.coming[task] = wire
                self.queue.append((task, wire))

    def read(self) -> None:
        if isinstance(self.peer.inbox[0], HEARD_BY_CALLERS):
            Caller.read(self.caller)
            return
        message = self.peer.inbox.popleft()
        self.drain()
        match message:
            case do.Run() as run:
                self.given[run.task] = dict(zip(run.deps, run.values, strict=False))
                self.queue.append((run.task, None))
            case do.Shared(segment) | do.Unshare(segment):
                self.segments ^= {segment}
            case do.Lent(line, objects, values):
                self.lent.setdefault(line, {}).update(zip(objects, values, strict=True))
            case do.TakeBack(line):
                if line in self.wires:
                    self.close(self.wires[line])
            case do.Attach(line):
                wire = self.wires[line] = self.all_wires[line]
                self.answered[wire] = deque()
                self.noted[line] = 0
                self.caller.owe(ev.Attached(line))
            case do.Stop(task):
                for each in self.queue:
                    if each[0] == task:
                        self.queue.remove(each)
                        self.answer(*each, CANCELLED, "direct")
                        return
                if any(each == task for each, _ in self.running):
                    self.stopped.add(task)
            case do.Report(_, task):
                if task in self.coming:
                    self.reported.add(task)
                elif task in self.kept:
                    self.tell(task, self.kept.pop(task)[0])
                else:
                    assert task in self.forgotten, "what it doesn't know"
                    self.caller.owe(ev.Done(task, (), 0.0))
            case do.Detach(line):
                self.flush()
                wire = self.wires.pop(line)
                for task, (value, its, how) in list(self.kept.items()):
                    if its is wire:
                        self.let_go(task, value, how)
                if line in self.lent:
                    self.close(wire)
            case do.Forget(objects):
                self.caller.owe(ev.Unview(tuple((id, 0) for id in objects)))

    def close(self, wire: Wire) -> None:
        wire.is_shut = True
        if wire in self.closing:
            return
        self.closing.add(wire)
        kept = {id for t, w in self.coming.items() if w is wire for id in wire.deps[t]}
        if wire in self.coming.values() and self.lent.get(wire.number):
            self.caller.post(ev.Returned(wire.number, False, tuple(kept)))
        self.give_back(wire)

    def give_back(self, wire: Wire) -> None:
        if wire in self.closing - self.returned and wire not in self.coming.values():
            self.flush()
            self.returned.add(wire)
            self.caller.post(ev.Returned(wire.number))

    def reads(self, task: int, wire: Wire | None) -> dict[int, ev.Value]:
        """The arguments of a task, and where it was told that they are."""
        if wire is None:
            return self.given.get(task, {})
        return {id: self.lent[wire.number][id] for id in wire.deps[task]}

    def keeps(self, id: int, value: ev.Value) -> None:
        """An array of its argument outlives the task."""
        self.shows.append((id, value))
        self.caller.post(ev.View(id, value.segment))

    def lets_go(self) -> None:
        id, value = self.shows.pop()
        self.caller.post(ev.Unview(((id, value.segment),)))

    def let_go(self, task: int, value: ev.Value, how: str) -> None:
        """Nobody will ask for its result. What was never sent is not spent."""
        self.kept.pop(task, None)
        self.forgotten.add(task)
        self.spent -= taken(value) if how == "told" else 0

    def tell(self, task: int, value: ev.Value) -> None:
        self.caller.owe(ev.Done(task, (value,), 0.1))

    def answer(self, task: int, wire: Wire | None, value: ev.Value, how: str) -> None:
        self.spent += taken(value)
        if wire is None:
            self.tell(task, value)
            return
        del self.coming[task]
        is_open = wire in self.wires.values()
        if task in self.reported:
            self.reported.remove(task)
            self.forgotten.add(task)
            self.tell(task, value)
        elif not is_open:
            self.let_go(task, value, how)
        else:
            self.kept[task] = value, wire, how
            if how != "told":
                self.answered[wire].append((self.numbers[task], task))
        if is_open and how == "relay" and not value.failed:
            self.caller.post(ev.Relay(wire.number, b"%d %b" % (task, value.header)))
        elif is_open:
            self.packed.append((wire, task, TOLD if how == "told" else value))
            if not self.queue:
                self.flush()
        self.give_back(wire)

    def flush(self) -> None:
        """Send the results that are packed."""
        packed, self.packed = self.packed, []
        for wire, task, value in packed:
            wire.answers.append((task, value))
