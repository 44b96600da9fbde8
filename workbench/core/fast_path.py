"""Fast path for bursts of tasks: a driver's, with nothing to wait for and nothing to decide.

`TaskManager.submit` and `done` do the same and more, in half as many steps again. They handle all
other tasks, and the sender's faults.
"""

from __future__ import annotations

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.entry import PENDING, READY, Entry
from workbench.core.state import ClientState, State
from workbench.core.tasks import Task, Worker


def takes_submit(state: State, client: ClientState, event: ev.Submit) -> bool:
    if (
        event.spec is not None
        or event.deps
        or event.contains
        or event.actor
        or event.line
        or event.returns != 1
        or client.hello.worker
    ):
        return False
    id = event.task
    new = id not in state.catalog and id not in state.scheduler.tasks
    return new and id >> ev.ID_BITS == client.hello.prefix and _function(state, event) is not None


def takes_calls(state: State, client: ClientState, event: ev.SubmitCalls) -> bool:
    if event.form.actor or event.form.deps or client.hello.worker or not event.tasks:
        return False
    ids = set(event.tasks)
    # `isdisjoint` of the dicts' keys looks up each id; that of the set would go through the dicts.
    known = state.catalog.keys(), state.scheduler.tasks.keys()
    new = len(ids) == len(event.tasks) and all(keys.isdisjoint(ids) for keys in known)
    prefixes = {id >> ev.ID_BITS for id in (min(ids), max(ids))}
    return new and prefixes == {client.hello.prefix} and _function(state, event.form) is not None


def _function(state: State, event: ev.Submit | ev.CallForm) -> Entry | None:
    """Return the function's entry, if it is ready and workers can be started."""
    function = state.catalog.get(event.function)
    if function is None or function.state is not READY or state.pool.startup_failures:
        return None
    whole = function.value is not None and not function.value.failed
    return function if whole else None


def submit(state: State, client: ClientState, event: ev.Submit) -> None:
    number, catalog, nbytes = client.number, state.catalog, len(event.args)
    if not state.budget.admits_inline(number, nbytes):
        return state.hang_up(number, "more arguments than it may send")
    task = Task(event, number)
    task.argument_bytes = nbytes
    catalog.argument_bytes += nbytes
    catalog.pin_for_task(catalog[event.function], task)
    catalog.create_pending(event.task, number)
    return state.scheduler.add(task)


def takes_done(state: State, worker: Worker, task: Task, event: ev.Done) -> bool:
    """True if the fast path may take this Done: its task is usual, only clients wait for the
    result, which is inline, and nobody subscribes."""
    if (
        event.abouts or event.again or event.threads or len(event.values) != 1
        or worker.actor is not None or worker.lease is not None or worker.waits
        or task.submit.spec is not None or task.submit.returns != 1 or task.line is not None
        or task.parent_id or task.job is not None or task.final_value is not None
        or len(task.pins) != 1 or task.actor is not None or state.catalog.touched is not None
        or event.task in state.scheduler.waits.by_object
    ):  # fmt: skip
        return False
    (value,) = event.values
    entry = state.catalog.get(event.task)
    if entry is None or entry.state is not PENDING or entry.waiting_tasks is not None:
        return False
    return not (value.segment or value.failed or value.contains)


def finish(state: State, worker: Worker, task: Task, event: ev.Done) -> None:
    (value,), catalog = event.values, state.catalog
    entry = catalog[event.task]
    state.scheduler.finish_usual(task, worker, event.seconds)
    if not worker.sent:
        worker.since = state.now
    catalog.seal(entry, value)
    clients, entry.waiting_clients = entry.waiting_clients, ()
    for client in clients:
        state.send(client, do.Ready(event.task, value))
    catalog.unpin_all(task)
