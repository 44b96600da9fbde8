"""Builds records of a session, of one object, and of what keeps that. Only reads the state."""

from __future__ import annotations

import fnmatch
import heapq
import re
from collections.abc import Callable, Container, Iterable
from itertools import islice
from typing import Any

from msgspec.structs import replace

from workbench.core.descriptions import ObjectDescription, PinRecord, TaskRecord
from workbench.core.entry import FREED, READY, Entry
from workbench.core.events import Search
from workbench.core.snapshot import (
    ActorRecord,
    ClientRecord,
    ObjectRecord,
    SegmentRecord,
    Snapshot,
    WorkerRecord,
    result_of,
)
from workbench.core.state import ClientState, State
from workbench.core.tasks import ONE, Actor, Task, Worker

LARGEST = 5
"""Objects that an answer lists when a put found no room."""

MOST_NAMED = 20
"""Objects that an overview lists."""

MOST_NAMES = 10_000
"""Most names in one answer: more than a person reads, in half a megabyte."""


def size_of(entry: Entry) -> int:
    """Return the bytes of an object's extent, or of its header if inline; 0 while it is pending."""
    value = entry.value
    return 0 if value is None else value.length if value.segment else len(value.header)


def some_named(state: State) -> list[Entry]:
    """Return the objects that an overview lists: the first with a name, without actors."""
    catalog, actors = state.catalog, state.scheduler.actors
    named = dict.fromkeys(
        islice((id for id in catalog.names.values() if id not in actors), MOST_NAMED)
    )
    return [entry for entry in map(catalog.get, named) if entry is not None]


def names_with(state: State, beginning: str, most: int = MOST_NAMES) -> tuple[str, ...]:
    names = state.catalog.names
    return tuple(islice((name for name in names if name.startswith(beginning)), most))


def first_of(entries: Iterable[Entry], search: Search) -> tuple[list[int], int, int]:
    """Return the ids of a search's first objects, how many others match, and their bytes."""
    if search.pattern:
        matches = re.compile(fnmatch.translate(search.pattern)).match
        entries = [e for e in entries if any(map(matches, (*e.names, _type(e))))]
    else:
        entries = list(entries)
    first = heapq.nsmallest(search.most, entries, key=_ORDERS[search.order])
    size = sum(map(size_of, entries)) - sum(map(size_of, first))
    return [entry.id for entry in first], len(entries) - len(first), size


def _type(entry: Entry) -> str:
    return result_of(_state(entry)) if entry.kind is None else entry.kind[0]


def _state(entry: Entry) -> str:
    """Return the state as in `ObjectRecord`."""
    if entry.value is None or not entry.value.failed or entry.state is FREED:
        return entry.state.value
    return "stopped" if entry.value.header.startswith(b"!cancelled") else "failed"


_ORDERS: dict[str, Callable[[Entry], Any]] = {
    "size": lambda entry: -size_of(entry),
    "age": lambda entry: entry.made,
    "name": lambda entry: (not entry.names, entry.names),
    "type": _type,
}


def largest(state: State) -> list[Entry]:
    """Return the objects with most memory, for the person whose put found no room."""
    there = (entry for entry in state.catalog.values() if entry.value and not entry.value.digest)
    return heapq.nlargest(LARGEST, there, key=size_of)


def take_snapshot(
    state: State, entries: Iterable[Entry] | None = None, since: float = 0.0
) -> Snapshot:
    """Return a snapshot with these objects, or all, and with the history after ``since``."""
    scheduler, catalog = state.scheduler, state.catalog
    in_use = state.in_use()
    entries = catalog.values() if entries is None else entries
    actors = tuple(actor_record(state, actor) for actor in scheduler.actors.values())
    return Snapshot(
        session=state.name,
        capacity=state.budget.capacity,
        live=state.budget.live,
        spilled=state.budget.spilled,
        trouble=state.spill_error,
        granted=state.budget.granted,
        queued=len(scheduler.tasks) - sum(len(w.sent) for w in scheduler.workers.values()),
        running=sum(1 for w in scheduler.workers.values() if w.sent),
        objects=tuple(object_record(state, e, in_use) for e in entries),
        count=len(catalog) - catalog.own,
        names=len(catalog.names) - sum(len(actor.names) for actor in actors),
        workers=tuple(map(worker_record, scheduler.workers.values())),
        clients=tuple(map(client_record, state.clients.values())),
        actors=actors,
        jobs=state.job_records(),
        linger=state.linger,
        segments=tuple(
            SegmentRecord(a.segment, a.owner or 0, a.granted, a.live, a.end, a.disk)
            for a in state.budget.arenas.values()
        ),
        history=state.history.samples(state.now, state.levels(), since),
        deaths=tuple(replace(died, age=state.now - at) for at, died in state.deaths.values()),
    )


def describe(state: State, id: int) -> ObjectDescription | None:
    """Return a description of one object, in a time that doesn't depend on how many there are."""
    entry = state.catalog.get(id)
    if entry is None:
        return None
    maker, actor = state.scheduler.tasks.maker(id), state.scheduler.actors.get(id)
    there = {*entry.holds, *entry.viewers} & state.clients.keys()
    makes = None if maker is None else maker.worker
    workers = [w for w in state.scheduler.workers.values() if w.client in there or w is makes]
    return ObjectDescription(
        object_record(state, entry, state.in_use()),
        tuple(client_record(state.clients[number]) for number in sorted(there)),
        None if maker is None else _task(maker),
        None if actor is None else actor_record(state, actor),
        tuple(map(worker_record, workers)),
        tuple(actor_record(state, w.actor) for w in workers if w.actor is not None),
    )


def worker_record(worker: Worker) -> WorkerRecord:
    state = "busy" if worker.sent else "idle"
    if worker.client is None or worker.blocked:
        state = "starting" if worker.client is None else "blocked"
    tasks = tuple(task.submit.name for task in worker.sent.values())
    actor = 0 if worker.actor is None else worker.actor.id
    return WorkerRecord(worker.number, worker.pid, state, tasks, actor, cpus=worker.used / ONE)


def _task(task: Task) -> TaskRecord:
    worker, name = task.worker, task.submit.name
    actor = "" if task.actor is None else task.actor.name
    if worker is None:
        return TaskRecord(name, "waiting" if task.pending_dependencies else "queued", 0, actor)
    at_a_time = 1 if worker.actor is None else worker.actor.at_a_time
    runs = task in islice(worker.sent.values(), at_a_time)
    return TaskRecord(name, "running" if runs else "queued", worker.number, actor)


def actor_record(state: State, actor: Actor) -> ActorRecord:
    entry = state.catalog.get(actor.id)
    worker = actor.worker
    sent = () if worker is None else worker.sent.values()
    return ActorRecord(
        id=actor.id,
        cls=actor.name,
        names=() if entry is None else state.catalog.names_of(entry),
        state=actor.state.value,
        worker=0 if worker is None else worker.number,
        calls=len(actor.calls) + sum(task is not actor.creation_task for task in sent),
        restarts=actor.restarts,
    )


def object_record(state: State, entry: Entry, in_use: Container[int]) -> ObjectRecord:
    """Return the object's record. ``in_use``: objects that workers may read at any moment."""
    value = entry.value
    where = "pending"
    if value is not None:
        where = ("disk" if value.digest else "memory") if value.segment else "inline"
    return ObjectRecord(
        id=entry.id,
        state=_state(entry),
        names=state.catalog.names_of(entry),
        size=size_of(entry),
        where=where,
        about=entry.about,
        holders=tuple(entry.holds),
        viewers=tuple(entry.viewers),
        tasks=entry.tasks,
        parents=entry.parents,
        escapes=entry.escapes,
        load_seconds=entry.load_seconds,
        pinned=entry.pinned,
        age=state.now - entry.made,
        job=entry.job,
        segment=0 if value is None else value.segment,
        offset=0 if value is None else value.offset,
        in_use=entry.id in in_use,
    )


def pins_of(state: State, entry: Entry) -> list[PinRecord]:
    """Return all reasons why the object is kept. Slow, it looks at all objects: for people only."""
    pins = [PinRecord("name", detail=name) for name in entry.names]
    if entry.pinned:
        pins.append(PinRecord("user", detail=entry.pinned))
    if entry.job:
        pins.append(PinRecord("job", detail=entry.job))
    pins += [PinRecord("ref", client) for client in entry.holds]
    stale = state.stale_copies.get(entry.id)
    viewers = {*entry.viewers, *(() if stale is None else stale.viewers)}
    pins += [PinRecord("view", client) for client in sorted(viewers)]
    if entry.tasks:
        for task in state.scheduler.tasks.values():
            if entry.id in task.pins:
                client = 0 if task.worker is None else task.worker.client or 0
                pins.append(PinRecord("task", client, task.submit.name, task.submit.task))
        for actor in state.scheduler.actors.values():  # they may be made again
            if entry.id in actor.creation_task.pins and actor.creation_task.is_over:
                pins.append(PinRecord("task", 0, actor.name, actor.id))
    if entry.parents:
        for parent in state.catalog.values():
            if parent.state is READY and parent.value and entry.id in parent.value.contains:
                type = parent.about.type if parent.about else "a result"
                pins.append(PinRecord("contained", 0, ", ".join(parent.names) or type, parent.id))
    pins += [PinRecord("escaped", detail=site) for site in entry.escapes]
    return pins


def client_record(client: ClientState) -> ClientRecord:
    hello = client.hello
    return ClientRecord(client.number, hello.pid, client.role, hello.label, hello.prefix)
