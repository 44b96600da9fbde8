"""What the still pictures of a session say: names of things, figures, times. Pure.

What a snapshot doesn't tell, because its engine can't, is `UNKNOWN` here and never a zero.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from workbench.core.snapshot import (
    ActorRecord,
    JobRecord,
    MemoryRecord,
    ObjectRecord,
    Sample,
    SegmentRecord,
    Snapshot,
    WorkerRecord,
)
from workbench.report.facts import Processes, size_of, why_text
from workbench.report.format import UNKNOWN, human_bytes, human_count, human_seconds

NO_FIGURE = "–"
"""In a column of figures, for one that is not known."""


def no_objects(snapshot: Snapshot) -> str:
    """Instead of them, and how to make one."""
    return "No objects. %put makes one." if snapshot.engine == "local" else "No objects."


def no_jobs(snapshot: Snapshot) -> str:
    """The same of background cells, which only Workbench has."""
    if snapshot.engine != "local":
        return f"Background cells are {UNKNOWN}."
    return "No background cells. %%remote starts one."


def no_workers(snapshot: Snapshot) -> str:
    """The same of workers."""
    return "No workers yet." if snapshot.engine == "local" else f"Workers are {UNKNOWN}."


SYSTEMS = {"ray": "Ray", "dask": "Dask"}

NO_PLACE = f"Where objects lie is {UNKNOWN}"

LEFT = "a process that left"
"""Who owned what nobody writes any more."""

REASONS = {
    "name": "named",
    "user": "pinned",
    "job": "background cell",
    "ref": "ref",
    "task": "task",
    "contained": "inside another",
    "escaped": "pickled ref",
    "view": "arrays",
}
"""What keeps objects, in the words of the live views."""

RESIDENT = {"user", "view"}
"""The reasons for which an object can't move. A task is one only while it runs."""

Held = Mapping[int, tuple[str, ...]]
"""By object, the variables that hold it."""

LEAST_COPY = 100_000
"""Bytes: below it, a copy's time says nothing about speed."""


def variables(held: Mapping[int, tuple[tuple[str, str], ...]]) -> dict[int, tuple[str, ...]]:
    """What `Engine.held` tells, without what each variable holds: a ref, or arrays."""
    return {id: tuple(dict(places)) for id, places in held.items()}


def session_name(snapshot: Snapshot) -> str:
    """The session's name without what makes it unique; elsewhere, its address."""
    if snapshot.engine != "local":
        return f"{SYSTEMS.get(snapshot.engine, snapshot.engine)} at {snapshot.session}"
    return snapshot.session.rpartition(".")[0] or snapshot.session


def taken(snapshot: Snapshot) -> str:
    """``as of 2026-11-21 14:05:12``, in the time zone of who reads it."""
    if not snapshot.taken:
        return f"as of a time {UNKNOWN}"
    return time.strftime("as of %Y-%m-%d %H:%M:%S", time.localtime(snapshot.taken))


def owners(snapshot: Snapshot) -> dict[int, str]:
    """By segment, who writes it."""
    processes = {client.client: client for client in snapshot.clients}
    numbers = {worker.pid: worker.number for worker in snapshot.workers}

    def owner(segment: SegmentRecord) -> str:
        if segment.disk:
            return "disk"
        client = processes.get(segment.owner)
        if client is None and segment.is_servers:
            return "the server"
        if client is None:
            return LEFT
        if client.role == "worker":
            return f"worker {numbers[client.pid]}" if client.pid in numbers else "a worker"
        # A notebook's path is no business of whoever is sent it.
        label = client.label.rpartition("/")[2] if client.label.startswith("/") else client.label
        return label or f"process {client.pid}"

    return {segment.id: owner(segment) for segment in snapshot.segments or ()}


def title_of(record: ObjectRecord, held: Held | None = None) -> str:
    """How people know it: by names, by variables, by where it came from."""
    names = ", ".join(record.names or (held or {}).get(record.id, ()))
    site = record.about.site if record.about else record.site
    return names or record.key or (f"from {site}" if site else f"{record.id:016x}")


def reasons_of(record: ObjectRecord) -> Iterator[str]:
    """What keeps it: keys of `REASONS`."""
    found = {
        "name": record.names,
        "user": record.pinned,
        "job": record.job,
        "ref": record.holders,
        "task": record.tasks or record.in_use,
        "contained": record.parents,
        "escaped": record.escapes,
        "view": record.viewers,
    }
    return (reason for reason, there in found.items() if there)


def why(record: ObjectRecord, now: Snapshot) -> str:
    """What keeps it, in one line."""
    return why_text(record, Processes(now)).replace("`", "")


def size_in(record: ObjectRecord) -> str:
    """Its bytes, in a column of figures."""
    return figure(size_of(record))


def figure(n: int | None) -> str:
    """Bytes, in a column of figures."""
    return NO_FIGURE if n is None else human_bytes(n)


def worker_memory(worker: WorkerRecord, snapshot: Snapshot) -> int | None:
    """What its process has, in bytes."""
    if worker.memory is not None or snapshot.memory is None:
        return worker.memory
    return dict(snapshot.memory.processes).get(worker.pid)


def age(seconds: float | None) -> str:
    """How old something is, coarsely: ``now``, ``12 s``, ``4 min``, ``3 h``, ``2 d``."""
    if seconds is None:
        return NO_FIGURE
    if seconds < 1:
        return "now"
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"


def objects(n: int) -> str:
    """1 → '1 object', 1200 → '1 200 objects'."""
    return f"{human_count(n)} object{'' if n == 1 else 's'}"


def most_of(snapshot: Snapshot) -> str:
    """``of 96 000 objects, 4 000 are listed``; nothing if all are."""
    listed, count = len(snapshot.objects), snapshot.count
    if count <= listed:
        return ""
    return f"of {objects(count)}, {human_count(listed)} are listed"


def percent(share: float) -> str:
    """0.72 → '72 %'; what is more than nothing is never 0 %."""
    return "< 1 %" if 0 < share < 0.01 else f"{share:.0%}".replace("%", " %")


BESIDE = {"on disk"}
"""What is no part of the store's capacity."""


# -- memory --------------------------------------------------------------------------------------


def store_parts(snapshot: Snapshot) -> tuple[tuple[str, int | None], ...]:
    """(part, bytes) of the store, the last one beside its capacity; None is not known."""
    warm = snapshot.warm_free
    return (
        ("live", snapshot.live),
        ("free, warm", None if warm is None else max(warm, 0)),
        ("available", snapshot.left),
        ("on disk", snapshot.spilled),
    )


def store_words(snapshot: Snapshot) -> str:
    """``265 MB of 10 GB · 3 %``."""
    live, capacity = snapshot.live, snapshot.capacity
    if not capacity:
        return f"{size(live)}, capacity {UNKNOWN}"
    share = "" if live is None else f" · {percent(live / capacity)}"
    return f"{size(live)} of {size(capacity)}{share}"


def inline_words(snapshot: Snapshot) -> str:
    """Of what lies in no segment."""
    listed = sum(record.size for record in snapshot.objects if record.where == "inline")
    inline = snapshot.inline if snapshot.count > len(snapshot.objects) else listed
    return f"{human_bytes(inline)} of small objects travel in messages" if inline else ""


def machine_parts(snapshot: Snapshot, memory: MemoryRecord) -> tuple[tuple[str, int], ...]:
    """(part, bytes) of the memory of the machine or container."""
    pids = {worker.pid for worker in snapshot.workers}
    workers = sum(size for pid, size in memory.processes if pid in pids)
    others = sum(size for pid, size in memory.processes if pid not in pids)
    used = memory.total - memory.available
    store = max(snapshot.granted or 0, snapshot.live or 0)
    return (
        ("store", store),
        ("workers", workers),
        ("notebooks", others),
        ("others", max(used - store - workers - others, 0)),
        ("available", memory.available),
    )


def machine_words(memory: MemoryRecord) -> str:
    """``2.9 GB of 8 GB in use``."""
    return f"{size(memory.total - memory.available)} of {size(memory.total)} in use"


SECONDS = 120
"""Of the timeline."""


def happened(history: Sequence[Sample]) -> dict[str, int | None]:
    """How many objects were put, freed and spilled meanwhile."""
    first, last = history[0], history[-1]
    known = first.spills is not None and last.spills is not None
    return {
        "put": last.puts - first.puts,
        "free": last.frees - first.frees,
        "spill": (last.spills or 0) - (first.spills or 0) if known else None,
    }


# -- costs ---------------------------------------------------------------------------------------


def seconds_of(record: ObjectRecord) -> float:
    """All that its serialization has taken so far."""
    about = record.about
    return about.pickle_seconds + about.copy_seconds + record.load_seconds if about else 0.0


def speed_of(record: ObjectRecord) -> float | None:
    """Bytes a second of its copying; None if that can't be told."""
    about = record.about
    if about is None or not about.copy_seconds or about.inband + about.outband < LEAST_COPY:
        return None
    return (about.inband + about.outband) / about.copy_seconds


def repeats_of(record: ObjectRecord) -> str:
    """What to do about an object that was serialized more than once; nothing if it wasn't."""
    if record.about is None or not record.about.repeats:
        return ""
    return f"serialized {record.about.repeats + 1} ×: put it once"


def size(n: int | None) -> str:
    """Bytes, or that they aren't known."""
    return human_bytes(n)


def speed(n: float | None) -> str:
    """Bytes a second."""
    return NO_FIGURE if n is None else f"{human_bytes(n)}/s"


def took(s: float | None) -> str:
    """A duration that was measured."""
    return NO_FIGURE if s is None else "0 s" if not s else human_seconds(s)


# -- jobs ----------------------------------------------------------------------------------------

_ORDER = {"running": 0, "queued": 1}


def jobs_in_order(jobs: Iterable[JobRecord]) -> list[JobRecord]:
    """Those that run, those that wait, those that are over; the latest first."""
    return sorted(jobs, key=lambda job: (_ORDER.get(job.state, 2), -job.number))


def runs(worker: WorkerRecord, actors: Iterable[ActorRecord]) -> str:
    """What a worker is at: ``fit, fit, score``, ``Counter: add``."""
    cls = next((actor.cls for actor in actors if actor.id == worker.actor), "an actor")
    waits = " (waits, its slot is lent)" if worker.state == "blocked" else ""
    tasks = ", ".join(worker.tasks)
    if worker.actor:
        return f"{cls}: {tasks}{waits}" if tasks else cls
    return tasks + waits
