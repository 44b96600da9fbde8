"""Component: leases, by which a driver's short tasks go straight to a worker: who gets one.

A lease is a line (`core.lines`) to a worker of the pool. A driver that submits short tasks one
after the other gets one. While a task is on its way there, the driver's others go through the
server, so nothing waits behind it. Tasks have no order, but must not overtake their driver's
messages about the session, so such a message ends the lease (`wrap_handlers`).

Tasks may have arguments by reference: objects that the driver's earlier tasks had, and that are
ready when the lease is made. They are lent with it: the worker is told their places, and their
bytes stay there until it says that no task of the lease reads them, whatever happens to the driver
and its handles. If one is dropped, or has to move, the lease is taken back.

An actor's line gets objects in the same way: an object that earlier calls through the server had,
when another call with it is sent. If one is wanted back, the line is taken back, and another line
is made after the next call.

The worker counts as busy until no task of the lease runs (`Returned`). It is asked to return the
lease as soon as a task waits for a worker. Leases don't expire: an unused one costs nothing, and
getting the worker back takes one message each way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.entry import READY
from workbench.core.lines import LineManager
from workbench.core.state import ClientState, Handler, State
from workbench.core.tasks import Actor, Line, Task, Worker

STREAK = 3
"""Short tasks of a driver, each over before the next, after which it gets a lease."""

LONGEST_STREAK = 24
"""The same, at most, if others want its workers again and again."""

WORTH_MAKING = 1.0
"""Seconds after which a lease was worth making."""

MOST_FUNCTIONS = 16
"""Functions of one lease."""

MOST_OBJECTS = 16
"""Objects lent with one line."""


@dataclass(slots=True)
class Borrower:
    """A driver. ``short_tasks_in_a_row``: since its last lease, each over before the next."""

    short_tasks_in_a_row: int = 0
    streak_for_lease: int = STREAK
    functions: dict[int, None] = field(default_factory=dict)  # of these tasks, the last ones
    objects: dict[int, None] = field(default_factory=dict)  # arguments of its last tasks
    since: float = 0.0  # when its lease was made


class LeaseManager:
    """See the module. ``last``: by driver, its last submitted task that could go by a lease."""

    def __init__(self, state: State, lines: LineManager) -> None:
        self._state = state
        self._scheduler = state.scheduler
        self._lines = lines
        self._borrowers: dict[int, Borrower] = {}
        state.catalog.on_lent = self._object_wanted
        self._candidates: dict[int, Worker] = {}  # driver → worker that ran its last task
        self.last: dict[int, int] = {}

    @property
    def has_work(self) -> bool:
        return bool(self._candidates or (self._lines.leases and self._waiting))

    @property
    def _waiting(self) -> Task | None:
        """One of the tasks that wait for a worker; None if there is none."""
        if self._scheduler.queue.size:
            return self._scheduler.queue.first
        ahead = next(iter(self._scheduler.ahead.values()), None)
        return None if ahead is None else ahead.running

    def finished(self, task: Task, worker: Worker) -> None:
        """Count a driver's last submitted task, now over, toward a lease if it was short."""
        if worker.actor is not None or worker.lease is not None:
            return
        borrower = self._borrowers.setdefault(task.owner, Borrower())
        line, function = self._lines.leases.get(task.owner), task.submit.function
        if line is not None and not line.is_open:
            return  # the lease wasn't open yet
        if not self._scheduler.durations.is_short(function):
            borrower.short_tasks_in_a_row = 0
            return
        if not self._knows_arguments(borrower, task) or task.submit.contains:
            return  # it couldn't have gone by a lease
        borrower.short_tasks_in_a_row += 1
        borrower.functions.pop(function, None)
        borrower.functions[function] = None
        if len(borrower.functions) > MOST_FUNCTIONS:
            del borrower.functions[next(iter(borrower.functions))]
        if borrower.short_tasks_in_a_row >= borrower.streak_for_lease:
            self._candidates[task.owner] = worker

    def _knows_arguments(self, borrower: Borrower, task: Task) -> bool:
        """True if earlier tasks had all the task's arguments. Notes them for later tasks."""
        deps, objects = task.submit.deps, borrower.objects
        known = objects.keys() >= set(deps)
        for id in deps[:MOST_OBJECTS]:
            objects.pop(id, None)
            objects[id] = None
        while len(objects) > MOST_OBJECTS:
            del objects[next(iter(objects))]
        return known

    def _lendable(self, id: int) -> ev.Value | None:
        """Return an object's value if it can stay where it is, else None."""
        state, entry = self._state, self._state.catalog.get(id)
        if entry is None or entry.state is not READY or entry.value is None:
            return None
        value = entry.value
        moves = value.digest or id in state.moves or id in state.stale_copies
        return None if moves or value.failed or value.contains else value

    def lend_arguments(self, task: Task, actor: Actor) -> None:
        """Lend arguments to the caller's line, if earlier calls had them, before a call is sent."""
        line = actor.lines.get(task.owner)
        if line is None or not line.is_open or line.has_ended or line.asked_at is not None:
            return
        objects, seen = dict[int, ev.Value](), line.seen
        for id in task.submit.deps[:MOST_OBJECTS]:
            times = seen.pop(id, 0)
            seen[id] = times + 1  # the most recent last
            value = self._lendable(id) if times >= actor.needed.get(task.owner, 1) else None
            has_room = len(line.objects) + len(objects) < MOST_OBJECTS
            if value is not None and has_room and id not in line.objects:
                objects[id] = value
        while len(seen) > MOST_OBJECTS:
            del seen[next(iter(seen))]
        if objects:
            line.since = self._state.now
            self._lines.lend(line, objects)

    def end_batch(self) -> None:
        """Lend idle workers to candidates; take leases back if tasks wait for workers."""
        candidates, self._candidates = self._candidates, {}
        waiting, leases = self._waiting, self._lines.leases
        for driver, worker in candidates.items():
            line = leases.get(driver)
            if line is not None:  # it sends tasks past its lease
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
        borrower.short_tasks_in_a_row, borrower.since = 0, state.now
        self._scheduler.lend(worker, line)

    def _wanted(self, line: Line, owner: int) -> None:
        """Take a lease back for a waiting task; after a short one, the next needs a longer
        streak."""
        if line.asked_at is not None:
            return
        borrower = self._borrowers[line.caller]
        if self._state.now - borrower.since > WORTH_MAKING:
            borrower.streak_for_lease = STREAK
        elif owner != line.caller:
            borrower.streak_for_lease = min(2 * borrower.streak_for_lease, LONGEST_STREAK)
        self._take_back(line)

    def _take_back(self, line: Line) -> None:
        borrower = self._borrowers.get(line.caller)
        if line.actor is None and borrower is not None:  # else the driver is gone
            borrower.short_tasks_in_a_row = 0
        if line.asked_at is None and line.worker.client is not None:
            line.asked_at = self._state.now
            self._state.send(line.worker.client, do.TakeBack(line.number))

    def _object_wanted(self, id: int) -> None:
        """Take back the lines with a lent object that was dropped or has to move."""
        now = self._state.now
        for line in [line for line in self._state.lending.values() if id in line.lent]:
            if line.actor is not None and line.asked_at is None:
                needed = line.actor.needed
                soon = min(2 * needed.get(line.caller, 1), LONGEST_STREAK)
                needed[line.caller] = 1 if now - line.since > WORTH_MAKING else soon
            self._take_back(line)

    def take_back_all(self) -> bool:
        for line in list(self._lines.leases.values()):
            self._take_back(line)
        return bool(self._lines.leases)

    def wrap_handlers(self, handlers: dict[type, Handler]) -> dict[type, Handler]:
        """Return the handlers; those of messages that tasks must not overtake end leases first."""
        return handlers | {kind: self._behind(handlers[kind]) for kind in ev.MUST_NOT_OVERTAKE}

    def _behind(self, handler: Handler) -> Handler:
        def handle(client: ClientState, event: Any) -> None:
            self.end_lease_of(client)
            handler(client, event)

        return handle

    def end_lease_of(self, client: ClientState) -> None:
        borrower, line = self._borrowers.get(client.number), self._lines.leases.get(client.number)
        if line is not None:
            self._take_back(line)
        elif borrower is not None:
            borrower.short_tasks_in_a_row = 0

    def on_client_left(self, client: int) -> None:
        self._borrowers.pop(client, None)
        self.last.pop(client, None)
        self._candidates.pop(client, None)
