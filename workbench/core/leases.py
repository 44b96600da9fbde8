"""Component: leases, by which a driver's short tasks go straight to a worker: who has one.

A lease is a line (`core.lines`) to a worker of the pool. A driver gets one that submits short tasks
one after the other; what it submits while one is on its way there goes through the server, so
nothing ever waits behind it. Tasks have no order: a lease only must not overtake what its driver
has said about the session (`spoke`), so that ends it.

Tasks may have arguments by reference: such objects as its tasks had before, and which are there
when the lease is made. They are lent with it: the worker has been told their places, and their
bytes stay there until it has said that nothing of the lease reads them, whatever becomes of the
driver and its handles. If one is dropped, or is to move, the lease is taken back.

An actor's line gets objects in the same way: one that calls which went through the server had
before, with a call that is sent there. If one is wanted back, the line is taken back, and there is
another one after the next call.

The worker counts as busy until it has said that nothing more of the lease runs (`Returned`). It is
asked to give the lease back as soon as anybody waits for a worker. Nothing expires: a lease that
nobody uses costs nothing, and whoever wants the worker has it within a message each way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.entry import READY
from workbench.core.lines import LineManager
from workbench.core.ordering import SPOKEN
from workbench.core.state import ClientState, Handler, State
from workbench.core.tasks import Actor, Line, Task, Worker

STREAK = 3
"""So many short tasks of a driver, each over before the next, and it gets a lease."""

LONGEST_STREAK = 24
"""... at most, if others want its workers again and again."""

LASTED = 1.0
"""Seconds after which a lease was worth making, whoever wants its worker."""

MOST_FUNCTIONS = 16
"""Of one lease."""

MOST_OBJECTS = 16
"""Of one line, as arguments of what goes by it."""


@dataclass(slots=True)
class Borrower:
    """A driver. ``streak``: its short tasks, each over before the next, since it had a lease."""

    streak: int = 0
    needed: int = STREAK
    functions: dict[int, None] = field(default_factory=dict)  # of such tasks, the last ones
    objects: dict[int, None] = field(default_factory=dict)  # that its tasks had as arguments last
    since: float = 0.0  # that it has its lease


class LeaseManager:
    """See the module. ``last``: by driver, the last usual task that it has submitted here."""

    def __init__(self, state: State, lines: LineManager) -> None:
        self._state = state
        self._scheduler = state.scheduler
        self._lines = lines
        self._borrowers: dict[int, Borrower] = {}
        state.catalog.on_lent = self._object_wanted
        self._candidates: dict[int, Worker] = {}  # who ran its last task, by driver
        self.last: dict[int, int] = {}

    @property
    def has_work(self) -> bool:
        return bool(self._candidates or (self._lines.leases and self._waiting))

    @property
    def _waiting(self) -> Task | None:
        """One of the tasks for which there is no worker."""
        if self._scheduler.queue.size:
            return self._scheduler.queue.first
        ahead = next(iter(self._scheduler.ahead.values()), None)
        return None if ahead is None else ahead.running

    def finished(self, task: Task, worker: Worker) -> None:
        """The last task that its driver has submitted here is over."""
        if worker.actor is not None or worker.lease is not None:
            return
        borrower = self._borrowers.setdefault(task.owner, Borrower())
        line, function = self._lines.leases.get(task.owner), task.submit.function
        if line is not None and not line.is_open:
            return  # it had none to go by
        if not self._scheduler.durations.is_short(function):
            borrower.streak = 0
            return
        if not self._knows_arguments(borrower, task) or task.submit.contains:
            return  # by a lease it couldn't have gone
        borrower.streak += 1
        borrower.functions.pop(function, None)
        borrower.functions[function] = None
        if len(borrower.functions) > MOST_FUNCTIONS:
            del borrower.functions[next(iter(borrower.functions))]
        if borrower.streak >= borrower.needed:
            self._candidates[task.owner] = worker

    def _knows_arguments(self, borrower: Borrower, task: Task) -> bool:
        """Whether another task had them before. From now on it is so."""
        deps, objects = task.submit.deps, borrower.objects
        known = objects.keys() >= set(deps)
        for id in deps[:MOST_OBJECTS]:
            objects.pop(id, None)
            objects[id] = None
        while len(objects) > MOST_OBJECTS:
            del objects[next(iter(objects))]
        return known

    def _lendable(self, id: int) -> ev.Value | None:
        """An object's place, if it can stay there."""
        state, entry = self._state, self._state.catalog.get(id)
        if entry is None or entry.state is not READY or entry.value is None:
            return None
        value = entry.value
        moves = value.digest or id in state.moves or id in state.stale_copies
        return None if moves or value.failed or value.contains else value

    def lend_arguments(self, task: Task, actor: Actor) -> None:
        """A call is about to be sent to its actor. The worker hears first of what is lent: the
        caller may use that when this call is over."""
        line = actor.lines.get(task.owner)
        if line is None or not line.is_open or line.has_ended or line.asked_at is not None:
            return
        objects, seen = dict[int, ev.Value](), line.seen
        for id in task.submit.deps[:MOST_OBJECTS]:
            times = seen.pop(id, 0)
            seen[id] = times + 1  # behind those that were seen before
            value = self._lendable(id) if times >= actor.needed.get(task.owner, 1) else None
            has_room = len(line.objects) + len(objects) < MOST_OBJECTS
            if value is not None and has_room and id not in line.objects:
                objects[id] = value
        while len(seen) > MOST_OBJECTS:
            del seen[next(iter(seen))]
        if objects:
            line.since = self._state.now
            self._lines.lend(line, objects)

    def settle(self) -> None:
        """Lend whom nobody wants, and take back whom somebody waits for."""
        candidates, self._candidates = self._candidates, {}
        waiting, leases = self._waiting, self._lines.leases
        for driver, worker in candidates.items():
            line = leases.get(driver)
            if line is not None:  # it has no use for that any more
                self._take_back(line)
            elif waiting is None and worker.client in self._scheduler.idle:
                self._lend(driver, worker)
        if waiting is not None:
            for line in leases.values():
                self._wanted(line, waiting.owner)

    def _lend(self, driver: int, worker: Worker) -> None:
        state, borrower = self._state, self._borrowers[driver]
        if driver not in state.clients or worker.leaving or not self._lines.has_room(driver):
            return
        known = state.functions
        functions = [
            function
            for function in borrower.functions
            if worker.client in known.get(function, ())
            and self._scheduler.durations.is_short(function)
        ]
        places = {id: self._lendable(id) for id in borrower.objects}
        objects = {id: value for id, value in places.items() if value is not None}
        line = self._lines.connect(None, worker, driver, functions, objects)
        line.last = self.last[driver]
        self._lines.leases[driver] = line
        borrower.streak, borrower.since = 0, state.now
        self._scheduler.lend(worker, line)

    def _wanted(self, line: Line, owner: int) -> None:
        """Somebody waits for a worker. If that comes again soon, it was of little use."""
        if line.asked_at is not None:
            return
        borrower = self._borrowers[line.caller]
        if self._state.now - borrower.since > LASTED:
            borrower.needed = STREAK
        elif owner != line.caller:
            borrower.needed = min(2 * borrower.needed, LONGEST_STREAK)
        self._take_back(line)

    def _take_back(self, line: Line) -> None:
        borrower = self._borrowers.get(line.caller)
        if line.actor is None and borrower is not None:  # else it is gone, and its worker reads on
            borrower.streak = 0
        if line.asked_at is None and line.worker.client is not None:
            line.asked_at = self._state.now
            self._state.send(line.worker.client, do.TakeBack(line.number))

    def _object_wanted(self, id: int) -> None:
        """Its room is: it was dropped, or moves."""
        now = self._state.now
        for line in [line for line in self._state.lending.values() if id in line.lent]:
            if line.actor is not None and line.asked_at is None:
                needed = line.actor.needed
                soon = min(2 * needed.get(line.caller, 1), LONGEST_STREAK)
                needed[line.caller] = 1 if now - line.since > LASTED else soon
            self._take_back(line)

    def take_back_all(self) -> bool:
        """Nobody seems to use them; whether there are any."""
        for line in list(self._lines.leases.values()):
            self._take_back(line)
        return bool(self._lines.leases)

    def hearing(self, handlers: dict[type, Handler]) -> dict[type, Handler]:
        """These, but that a lease hears first of what tasks are not to overtake."""
        return handlers | {kind: self._behind(handlers[kind]) for kind in SPOKEN}

    def _behind(self, handler: Handler) -> Handler:
        def handle(client: ClientState, event: Any) -> None:
            self.spoke(client)
            handler(client, event)

        return handle

    def spoke(self, client: ClientState) -> None:
        borrower, line = self._borrowers.get(client.number), self._lines.leases.get(client.number)
        if line is not None:
            self._take_back(line)
        elif borrower is not None:
            borrower.streak = 0

    def left(self, client: int) -> None:
        self._borrowers.pop(client, None)
        self.last.pop(client, None)
        self._candidates.pop(client, None)
