"""Deliberate faults of the core and of the peers around it: what the machines of lines and of
leases are there to find.

Each is a function in place of a method, called with that and the method's own arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.core.lease_peers import NO_ACTOR, Driver, Lease, PoolProcess
from tests.unit.core.line_peers import Caller, Process, Wire, WorkerCaller
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core import lines
from workbench.core.actor_manager import ActorManager
from workbench.core.blocking import Blocking
from workbench.core.catalog import Catalog
from workbench.core.leases import LeaseManager
from workbench.core.lines import LineManager
from workbench.core.scheduler import Scheduler
from workbench.core.spilling import Spilling
from workbench.core.state import State
from workbench.core.task_manager import TaskManager
from workbench.core.tasks import Actor, Line, Task, Worker

Method = Callable[..., Any]
Fault = Callable[[pytest.MonkeyPatch], None]

FAULTS: dict[str, list[Any]] = {"lines": [], "leases": []}
"""By machine."""


def into(patch: pytest.MonkeyPatch, owner: Any, method: str, instead: Method) -> None:
    before = getattr(owner, method)
    patch.setattr(owner, method, lambda *args, **more: instead(before, *args, **more))


def add(machines: str, name: str, *parts: tuple[Any, str, Method]) -> None:
    def fault(patch: pytest.MonkeyPatch) -> None:
        for part in parts:
            into(patch, *part)

    for machine in machines.split():
        FAULTS[machine].append(pytest.param(fault, id=name))


def fault(machines: str, owner: Any, method: str) -> Callable[[Method], Method]:
    """Have the function in place of this method be one of them."""

    def decorate(instead: Method) -> Method:
        add(machines, instead.__name__, (owner, method, instead))
        return instead

    return decorate


def nothing(*_: object) -> None:
    """It isn't done."""


def without(owner: Any, method: str) -> Method:
    """That isn't done meanwhile."""

    def instead(before: Method, *args: Any, **more: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            into(patch, owner, method, nothing)
            return before(*args, **more)

    return instead


BOTH = "lines leases"

for machines, name, owner, method, instead in [
    (BOTH, "nobody_is_asked_to_report", LineManager, "_report", nothing),
    (BOTH, "what_was_dropped_is_never_asked_for", LeaseManager, "_object_wanted", nothing),
    (BOTH, "what_a_dead_worker_was_lent_stays", LineManager, "on_worker_lost",
     without(LineManager, "_all_unlent")),
    ("lines", "a_worker_reads_the_server_first", Process, "read", without(Process, "drain")),
    ("lines", "a_call_is_said_before_it_is_sent", Caller, "say", without(Caller, "push")),
    ("lines", "what_nobody_says_isnt_counted", LineManager, "unheard", nothing),
    ("lines", "results_by_lines_arent_counted", LineManager, "_admits", lambda *_: True),
    ("lines", "a_late_result_is_taken_for_a_wrong_one", LineManager, "is_already_reported",
     lambda *_: False),
    ("lines", "what_began_is_run_again", lines, "_behind",
     lambda _, line, first: set(line.tasks.values())),
    ("lines", "an_end_overtakes_calls", WorkerCaller, "owe",  # whose results it returns
     lambda _, caller, event: caller.peer.post(event)),
    ("lines", "of_a_run_the_first_result_is_counted", LineManager, "_admits",
     lambda before, lines, line, nbytes: before(lines, line, min(nbytes, 40))),
    ("lines", "what_both_ends_tell_is_counted_twice", LineManager, "_admits",
     lambda before, lines, line, nbytes: before(
         lines, line, nbytes * (1 + bool(line.worker.reported))
     )),
    (BOTH, "a_worker_says_nothing_of_what_it_still_reads", LineManager, "returned",
     lambda before, lines, client, event: before(lines, client, replace(event, kept=()))),
    (BOTH, "an_array_that_outlives_its_task_is_never_heard_of", Process, "keeps",
     lambda _, process, *view: process.shows.append(view)),
    ("leases", "nobody_gets_a_lent_worker_back", LeaseManager, "_wanted", nothing),
    ("leases", "what_a_dead_worker_had_is_forgotten", TaskManager, "_lease_closed", nothing),
    ("leases", "a_task_whose_driver_is_gone_lends_no_slot", LineManager, "is_in_use",
     lambda *_: True),
    ("leases", "a_task_that_is_not_known_yet_lends_no_slot", Blocking, "_may_run",
     lambda _, blocking, worker, task: worker.running and worker.running.submit.task == task),
    ("leases", "a_worker_reads_memory_that_it_was_not_sent", LineManager, "lend",
     without(State, "share")),
    ("leases", "a_driver_gives_what_it_was_not_lent", Driver, "lease_for",
     lambda before, driver, function, deps=(): before(driver, function)),
]:  # fmt: skip
    add(machines, name, (owner, method, instead))


@fault("lines", Actor, "_advance")
def calls_overtake_those_of_a_dead_line(before: Method, actor: Actor, owner: int) -> None:
    """The barrier after a worker's end: what went by its line comes first."""
    its_own, actor.lines = actor.lines, {}
    before(actor, owner)
    actor.lines = its_own


@fault("lines", Caller, "granted")
def a_grant_counts_that_is_out_of_date(_: Method, caller: Caller, line: int, last: int) -> None:
    for wire in caller.wires.values():
        wire.is_granted |= wire.number == line


def forgets(before: Method, actor: Actor, task: Task) -> bool:
    before(actor, task)
    return True


def grants(before: Method, lines: LineManager, actor: Actor, caller: int) -> None:
    unfinished, actor.unfinished = actor.unfinished, Counter()
    before(lines, actor, caller)
    actor.unfinished = unfinished


add(
    "lines", "a_line_is_granted_beside_other_calls",  # the barrier between both ways
    (Actor, "forget", forgets), (LineManager, "_grant_or_connect", grants),
)  # fmt: skip


@fault("lines", Caller, "withdraw")
def unsent_calls_overtaken(before: Method, caller: Caller, wire: Wire, records: list[Any]) -> None:
    """They go through the server, and those after them by the line."""
    before(caller, wire, records)
    wire.is_granted = not wire.has_ended


def usable(driver: Driver, function: int) -> Lease | None:
    wire = driver.wires.get(NO_ACTOR)
    good = isinstance(wire, Lease) and not wire.is_shut and function in wire.functions
    return wire if good else None  # type: ignore[return-value]


def goes_before(_: Method, driver: Driver, function: int, deps: object = ()) -> Lease | None:
    wire = usable(driver, function)
    return None if deps or wire is None or wire.unanswered else wire


add(
    "leases", "a_task_overtakes_what_its_driver_said",
    (LeaseManager, "end_lease_of", nothing), (Driver, "lease_for", goes_before),
)  # fmt: skip


def forgets_what_it_said(_: Method, driver: Driver, task: int) -> None:
    driver.fresh_after = driver.spoken


add(
    "leases", "a_lease_counts_that_was_made_before_its_driver_spoke",
    (LeaseManager, "end_lease_of", nothing), (Driver, "goes_through_server", forgets_what_it_said),
)  # fmt: skip


@fault("leases", Driver, "lease_for")
def two_at_a_time(_: Method, driver: Driver, function: int, deps: object = ()) -> Lease | None:
    wire = usable(driver, function)
    good = wire is not None and wire.is_granted and driver.fresh_after == driver.spoken
    return wire if good and not deps else None


@fault("leases", Scheduler, "lend")
def a_lent_worker_is_idle(before: Method, scheduler: Scheduler, worker: Worker, line: Line) -> None:
    before(scheduler, worker, line)
    assert worker.client is not None
    scheduler.idle[worker.client] = worker


@fault("leases", LeaseManager, "_take_back")
def a_lease_is_returned_when_asked_for(before: Method, leases: LeaseManager, line: Line) -> None:
    before(leases, line)
    line.is_returned = True
    leases._scheduler.update_slot(line.worker)


@fault(BOTH, Process, "give_back")
def a_line_is_returned_while_what_came_by_it_runs(_: Method, process: Process, wire: Wire) -> None:
    if wire in process.closing - process.returned:
        process.returned.add(wire)
        process.caller.post(ev.Returned(wire.number))


@fault("leases", PoolProcess, "read")
def what_was_on_its_way_is_lost_with_the_lease(before: Method, process: PoolProcess) -> None:
    message = process.peer.inbox[0]
    if isinstance(message, do.TakeBack) and message.line in process.wires:
        process.wires[message.line].calls.clear()
    before(process)


@fault("leases", PoolProcess, "read")
def a_killed_drivers_lease_is_never_over(before: Method, process: PoolProcess) -> None:
    message = process.peer.inbox[0]
    if isinstance(message, do.Detach):
        process.closing.add(process.wires[message.line])
    before(process)


@fault("leases", TaskManager, "_lease_closed")
def what_a_dead_worker_had_runs_again(before: Method, tasks: TaskManager, line: Line) -> None:
    for task in line.tasks.values():
        task.submit = replace(task.submit, retries=task.attempts + 1)
    before(tasks, line)


@fault("leases", Scheduler, "_unsend")
def the_end_of_an_older_task_ends_a_newer_ones_wait(
    before: Method, scheduler: Scheduler, worker: Worker, task: Task
) -> None:
    lease, worker.lease = worker.lease, None
    before(scheduler, worker, task)
    worker.lease = lease
    scheduler.update_slot(worker)


@fault("lines", State, "send")
def late_holds_are_lost(before: Method, state: State, client: int, message: do.Message) -> None:
    """The caller's, of the result of a call that it says late."""
    if isinstance(message, do.Report):
        state.catalog[message.task].holds = {}
    before(state, client, message)


@fault("lines", State, "send")
def dropped_results_are_not_told(before: Method, state: State, client: int, message: Any) -> None:
    """So it takes its call for unanswered."""
    if type(message) is not do.Ready or not message.value.header.startswith(b"!unknown"):
        before(state, client, message)


@fault("lines", LineManager, "_detach")
def a_killed_callers_calls_are_lost(before: Method, lines: LineManager, line: Line) -> None:
    line.worker.reported.update(line.tasks)
    before(lines, line)


@fault("lines", ActorManager, "_restarted")
def an_argument_that_is_gone_is_sent_again(
    before: Method, actors: ActorManager, actor: Actor, tasks: list[Task], *rest: Any, **more: Any
) -> None:
    """With a call that was lost with its worker, and was said when that had been freed."""
    for task in tasks:
        task.broken = None
    before(actors, actor, tasks, *rest, **more)


@fault("lines", LineManager, "on_settled_calls")
def unheld_runs(before: Method, lines: LineManager, client: Any, event: ev.SettledCalls) -> Any:
    """Of what a run of calls returned, as if its caller had dropped it."""
    line, catalog = before(lines, client, event), lines._state.catalog
    for task in event.tasks[1:]:
        catalog.drop(catalog[task], client.number)
    return line


@fault("lines", Caller, "read")
def what_was_kept_silent_goes_with_the_line(before: Method, caller: Caller) -> None:
    """Of a worker that lives: the bytes of results that nobody has heard of."""
    if isinstance(caller.peer.inbox[0], do.LineEnded):
        for wire in caller.wires.values():
            wire.unheard = 0
    before(caller)


@fault("lines", Caller, "granted")
def an_object_goes_by_any_line(before: Method, caller: Caller, line: int, last: int) -> None:
    before(caller, line, last)
    wire = caller.all_wires[line]
    wire.objects = (*wire.objects, *(id for id, n in caller.peer.holds.items() if n))


def settles_all(before: Method, catalog: Catalog, entry: Any) -> None:
    lent, catalog.lent = catalog.lent, {}
    before(catalog, entry)
    catalog.lent = {id: n for id, n in lent.items() if id in catalog}


def unlends(_: Method, catalog: Catalog, id: int) -> None:
    catalog.lent.pop(id, None)


add(
    BOTH, "what_is_lent_goes_when_it_is_dropped",
    (Catalog, "free_if_unused", settles_all), (Catalog, "unlend", unlends),
)  # fmt: skip


@fault(BOTH, Spilling, "end_batch")
def what_is_lent_moves(before: Method, spilling: Spilling) -> None:
    catalog = spilling._catalog
    lent, catalog.lent = catalog.lent, {}
    before(spilling)
    catalog.lent = lent


def unlent_with(kind: type[do.TakeBack | do.Detach]) -> Method:
    """As soon as the worker is sent that."""

    def sends(before: Method, state: State, client: int, message: Any) -> None:
        line = state.lending.get(message.line) if isinstance(message, kind) else None
        if line is not None:
            lent, line.lent = line.lent, set()
            for id in lent:
                state.catalog.unlend(id)
        before(state, client, message)

    return sends


for kind, name in [
    (do.TakeBack, "what_is_lent_is_free_as_soon_as_it_is_asked_for"),
    (do.Detach, "what_a_killed_driver_was_lent_is_free_at_once"),
]:
    add(BOTH, name, (State, "send", unlent_with(kind)))
