"""Both ends of leases, without sockets: a driver, a worker of the pool, and what is between them.

They do what `client.direct_calls`, `worker.incoming_calls` and `worker.executor` do, as late as the
test likes, and see for themselves that nothing waits behind a task that came by a lease.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.unit.core.line_peers import CANCELLED, Caller, Process, Wire
from workbench.core import events as ev
from workbench.core import instructions as do

NO_ACTOR = 0

SHORT = 0.0001
"""Seconds that each task takes."""


@dataclass(eq=False)
class Lease(Wire):
    functions: tuple[int, ...] = ()


@dataclass(eq=False)
class Driver(Caller):
    """``spoken``: how often it has said something that its later tasks must go behind."""

    spoken: int = 0
    registered: int = 0
    registered_by: dict[int, int] = field(default_factory=dict)  # by task, before it
    serializer: int = 0
    fresh: int = 0  # the first of its tasks since it spoke last, through the server
    fresh_after: int = 0

    def submit(self, function: int, deps: tuple[int, ...] = (), retries: int = 0) -> int:
        task = self.peer.id()
        wire = self.lease_for(function, deps)
        if wire is None:
            self.say()
        self.peer.holds[task] += 1
        self.registered_by[task] = self.registered
        what = task, function, b"", deps, (), 1, "task", 0, retries, 0, "", None
        if wire is not None:
            self.call(wire, ev.Submit(*what, wire.number))
        else:
            self.goes_through_server(task)
            self.post(ev.Submit(*what))
        return task

    def lease_for(self, function: int, deps: tuple[int, ...] = ()) -> Lease | None:
        wire = self.wires.get(NO_ACTOR)
        if not isinstance(wire, Lease) or not wire.is_granted or wire.unanswered:
            return None
        good = function in wire.functions and self.fresh_after == self.spoken
        good = good and set(wire.objects).issuperset(deps)
        return wire if good and not wire.is_shut else None

    def goes_through_server(self, task: int) -> None:
        if self.fresh_after != self.spoken:
            self.fresh_after, self.fresh = self.spoken, task
            if NO_ACTOR in self.wires:
                self.wires[NO_ACTOR].is_granted = False

    def post(self, event: ev.Event) -> None:
        self.spoken += isinstance(event, (ev.Register, ev.Cancel, ev.Free))
        super().post(event)

    def speak(self) -> None:
        self.registered += 1
        self.serializer = self.serializer or self.peer.id()
        self.post(ev.Register(self.serializer, b"%d" % self.registered))

    def read(self) -> None:
        message = self.peer.inbox[0]
        if isinstance(message, do.Offer) and not message.actor:
            self.peer.inbox.popleft()
            wire = self.all_wires[message.line]
            assert isinstance(wire, Lease)
            assert NO_ACTOR not in self.wires, "two leases"
            wire.functions, wire.is_granted = message.functions, message.last >= self.fresh
            wire.objects = message.objects
            self.wires[NO_ACTOR] = wire
            self.owe(ev.Attached(message.line))
        elif isinstance(message, do.Forget):
            self.say()
            self.peer.read()
        else:
            super().read()


@dataclass(eq=False)
class PoolProcess(Process):
    functions: set[int] = field(default_factory=set)
    told: dict[int, int] = field(default_factory=dict)  # by serializer
    waited: int = 0

    def remains(self) -> tuple[tuple[int, int], ...]:
        return ()

    def drain(self) -> None:
        open_ones = [w for w in self.wires.values() if w not in self.returned]
        held = {w.number: w for w in self.wires.values()}
        self.wires, all_wires = {w.number: w for w in open_ones}, held
        super().drain()
        self.wires = all_wires
        self.check()

    def check(self) -> None:
        tasks = [*self.running, *self.queue]
        if any(wire is not None for _, wire in tasks):
            assert len(tasks) == 1, "something waits behind a task that came by a lease"

    def read(self) -> None:
        message = self.peer.inbox[0]
        match message:
            case do.Run() as run:
                self.peer.inbox.popleft()
                self.drain()
                if len(run.values) > len(run.deps):
                    self.functions.add(run.function)
                assert run.function in self.functions, "told to run what it doesn't have"
                self.given[run.task] = dict(zip(run.deps, run.values, strict=False))
                if self.waits:
                    self.caller.post(ev.GaveBack((run.task,)))
                else:
                    self.queue.append((run.task, None))
            case do.Recall(count):
                self.peer.inbox.popleft()
                back = self.queue[len(self.queue) - count :] if count else []
                self.queue = self.queue[: len(self.queue) - len(back)]
                self.caller.post(ev.GaveBack(tuple(task for task, _ in back), asked=True))
            case ev.Register(serializer, payload):
                self.peer.inbox.popleft()
                self.drain()
                self.told[serializer] = int(payload or 0)
            case do.Detach(line):
                wire = self.wires[line]
                self.drain()
                super().read()
                self.stop_all(wire)
                self.close(wire)
            case do.Ready(object):
                self.peer.inbox.popleft()
                for number in [n for n, id in self.waits.items() if id == object]:
                    self.goes_on(number)
            case _:
                super().read()
        self.check()

    def stop_all(self, wire: Wire) -> None:
        """Of what the server hasn't heard."""
        for task in [t for t, w in self.coming.items() if w is wire and t not in self.reported]:
            if (task, wire) in self.queue:
                self.queue.remove((task, wire))
                self.answer(task, wire, CANCELLED, "direct")
            else:
                self.stopped.add(task)

    def tell(self, task: int, value: ev.Value) -> None:
        self.caller.post(ev.Done(task, (value,), SHORT))

    def waits_for_one(self, function: int) -> int:
        """The running task submits another, and waits for it."""
        task, wire = self.running[0]
        parent = task if wire is not None else 0
        self.caller.say()
        child = self.peer.submit(function, (), (), parent=parent)[0]
        self.waited += 1
        self.waits[self.waited] = child
        back = tuple(each for each, _ in self.queue)
        self.queue.clear()
        self.caller.post(ev.GaveBack(back))
        self.caller.post(ev.Blocked(task, self.waited, (child,)))
        return child

    def goes_on(self, number: int) -> None:
        self.caller.say()
        self.peer.drop(self.waits.pop(number))
        self.caller.post(ev.Unblocked(number))
