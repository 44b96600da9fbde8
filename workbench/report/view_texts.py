"""Texts of views beyond single records: parts of memory, the last two minutes, costs, and texts
for where there is nothing. Shared by live views, still forms and plots. Pure.

A fact that the engine can't tell is None or says so, and is never a zero.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from workbench.core.snapshot import (
    HISTORY_SECONDS,
    JobRecord,
    ObjectRecord,
    Sample,
    SegmentRecord,
    Snapshot,
    WorkerRecord,
)
from workbench.engine.base import Abilities
from workbench.format import (
    UNKNOWN,
    count,
    human_bytes,
    human_count,
    human_share,
)
from workbench.report import facts
from workbench.report.checkpoints import NONE_KEPT
from workbench.report.colors import HUES, LIVE, OTHER, REUSABLE, SPILLED, TRACK
from workbench.report.processes import Processes, is_on_this_machine

LEAST_COPY = 1 << 20
"""Bytes below which a copy's time says nothing about speed."""

LESSONS = {
    "pins": (
        "An object lives while a name, a ref, a task or another object refers to it, or an array "
        "shows it.",
        "To let go: delete the variables that hold or show it (del x), and %free its name. Select "
        "an object: “Copy %why” tells what ends each reason.",
        "Held in memory (can move: no): arrays show it, it is pinned, or a task reads it. All else "
        "goes to disk when memory runs short, and comes back when it is read.",
    ),
    "costs": (
        "Pickle takes an object apart, copy brings its bytes into shared memory, load builds it "
        "again in the process that reads it first.",
        "What is copied directly (arrays, columns, tensors) costs a copy and nothing to load. What "
        "is pickled costs time on both sides. Select an object for its parts.",
    ),
    "history": (
        "The variables are kept as they were after each cell: select one to see what it changed.",
        "“Check out” sets the variables to that, and the next cell follows it; what cells did "
        "elsewhere, as in files, stays. `%workbench branch NAME` names where you are before.",
    ),
}
"""Texts in the place of an object's details, until one is selected: a sentence, and what a page
shows behind a "?"."""


def lessons(can: Abilities) -> dict[str, tuple[str, ...]]:
    """Return the lessons for these abilities; a cluster decides itself what stays in memory."""
    if not can.resident:
        return LESSONS
    return LESSONS | {"pins": (*LESSONS["pins"][:-1], can.resident)}


REPEATED = "serialized {} ×: put it once"
"""Advice on an object that was serialized several times."""


def without_internal(snapshot: Snapshot) -> Snapshot:
    kept = tuple(record for record in snapshot.objects if not facts.is_internal(record))
    return replace(snapshot, objects=kept)


def nothing(snapshot: Snapshot) -> dict[str, str]:
    """Return the texts in place of objects, jobs and so on, where there are none."""
    if not snapshot.is_observed:
        is_local = snapshot.engine == "local"
        return {
            "objects": facts.NO_OBJECTS,
            "segments": "Nothing in shared memory yet."
            if is_local
            else f"Where objects lie is {UNKNOWN}.",
            "costs": "Nothing has been serialized yet.",
            "jobs": facts.NO_JOBS,
            "workers": "No workers yet.",
            "timeline": "Nothing has happened yet.",
            "history": NONE_KEPT,
        }
    return {
        "objects": "No objects.",
        "segments": f"Where objects lie is {UNKNOWN}.",
        "costs": f"What serialization costs is {UNKNOWN}.",
        "jobs": f"Background cells are {UNKNOWN}.",
        "workers": f"Workers are {UNKNOWN}.",
        "timeline": f"The last two minutes are {UNKNOWN}.",
        "history": NONE_KEPT,
    }


def taken(snapshot: Snapshot) -> str:
    """Format the snapshot's time in the reader's time zone: ``as of 2026-11-21 14:05:12``."""
    if not snapshot.taken:
        return f"as of a time {UNKNOWN}"
    return time.strftime("as of %Y-%m-%d %H:%M:%S", time.localtime(snapshot.taken))


LATE = "what came later isn't in it: the session has been asked, and hasn't answered yet"
"""Text beside the time of a snapshot that is older than it should be."""


def by_size(snapshot: Snapshot) -> list[ObjectRecord]:
    return sorted(snapshot.objects, key=lambda record: -record.size)


def listed_text(snapshot: Snapshot) -> str:
    """Word how many objects are listed: ``of 96 000 objects, 4 000 are listed``; '' if all are."""
    listed, all = len(snapshot.objects), snapshot.count
    return f"of {count(all, 'object')}, {human_count(listed)} are listed" if all > listed else ""


def rest_text(left: Sequence[ObjectRecord], snapshot: Snapshot) -> str:
    """Word what a table has no room for, ``and 12 more, 3 MB``, and what isn't listed."""
    size = human_bytes(sum(record.size for record in left))
    more = f"and {human_count(len(left))} more, {size}" if left else ""
    return "; ".join(filter(None, (more, listed_text(snapshot))))


# -- memory --------------------------------------------------------------------------------------


class Bar(Struct, forbid_unknown_fields=True):
    """Fill level: ``Store``, ``265 MB of 10 GB · 3 %``. A page gets it too.

    ``parts`` are keys of `BAR_PARTS` and bytes; ``whole``: True if their total is known. Parts
    ``beside`` take none of it: they aren't drawn, only named.
    """

    label: str
    figure: str
    parts: tuple[tuple[str, int | None], ...]
    whole: bool
    note: str = ""
    beside: tuple[tuple[str, int | None], ...] = ()

    def key(self) -> list[tuple[str, str]]:
        """Return each part's colour, and the part in words: ``live 265 MB``."""
        told = (*self.parts, *self.beside)
        return [
            (BAR_PARTS[k].color, f"{BAR_PARTS[k].label} {human_bytes(size)}") for k, size in told
        ]


class BarPart(NamedTuple):
    label: str
    meaning: str
    color: str


BAR_PARTS = {
    "live": BarPart("live", "Objects that something refers to or shows", LIVE),
    "reusable": BarPart(
        "reusable", "Freed, and kept for new objects: writing to it is faster", REUSABLE
    ),
    "available": BarPart("available", "Not used yet", TRACK),
    "spilled": BarPart("on disk", "Spilled: in a file, and no part of the memory above", SPILLED),
    "store": BarPart("store", "Live and reusable memory of the store", LIVE),
    "workers": BarPart("workers", "Workers' own memory", HUES[2]),
    "kernels": BarPart("notebooks", "Own memory of notebooks and scripts", HUES[3]),
    "others": BarPart("others", "All else that runs here", OTHER),
    "free": BarPart("available", "For anyone", TRACK),
    "variables": BarPart("variables", "Of the notebook or script", HUES[0]),
    "outputs": BarPart("Out", "Results of cells", HUES[5]),
    "frames": BarPart("functions", "Variables of running ones, or kept by an error", HUES[4]),
    "figures": BarPart("figures", "Not closed yet", HUES[3]),
    "objects": BarPart("modules", "Modules, and all other Python objects", HUES[2]),
    "kept": BarPart("kept free", "By Python and malloc, for what comes", REUSABLE),
    "files": BarPart("libraries", "Files that are mapped", HUES[1]),
    "stored": BarPart("shared", "The store, as far as it was used here", TRACK),
    "unexplained": BarPart("not explained", "Held by no object that was found", OTHER),
}


def store_bar(snapshot: Snapshot) -> Bar:
    live, capacity, reusable = snapshot.live, snapshot.capacity, snapshot.warm_free
    figure = UNKNOWN if live is None and not capacity else facts.room_text(snapshot)
    if capacity and live is not None:
        figure += f" · {human_share(live / capacity)}"
    parts = (
        ("live", live),
        ("reusable", None if reusable is None else max(reusable, 0)),
        ("available", snapshot.left),
    )
    listed = sum(record.size for record in snapshot.objects if record.where == "inline")
    small = snapshot.inline if snapshot.count > len(snapshot.objects) else listed
    note = f"{human_bytes(small)} of objects too small for shared memory" if small else ""
    beside = (("spilled", snapshot.spilled),)
    return Bar("Store", figure, parts, bool(capacity), note, beside)


def machine_bar(snapshot: Snapshot) -> Bar:
    """Return the memory of the machine or container, by owner."""
    memory = snapshot.memory
    sizes = dict(memory.processes) if memory else {}
    pids = {c.pid for c in snapshot.clients if c.role != "worker" and is_on_this_machine(c)}
    workers = _sum((worker_memory(each, snapshot) for each in snapshot.workers), bool(sizes))
    kernels = _sum(map(sizes.get, pids), bool(sizes))
    if memory is None:
        return Bar("Memory", UNKNOWN, (("workers", workers),) if workers else (), False)
    label = "This container" if memory.container else "This machine"
    used = memory.total - memory.available
    store = max(snapshot.granted or 0, snapshot.live or 0)
    parts = (
        ("store", store),
        ("workers", workers),
        ("kernels", kernels),
        ("others", max(used - store - (workers or 0) - (kernels or 0), 0)),
        ("free", memory.available),
    )
    return Bar(label, f"{human_bytes(used)} of {human_bytes(memory.total)} in use", parts, True)


def _sum(sizes: Iterable[int | None], is_measured: bool) -> int | None:
    found = [size for size in sizes if size is not None]
    return sum(found) if found or is_measured else None


def worker_memory(worker: WorkerRecord, snapshot: Snapshot) -> int | None:
    if worker.memory is not None or snapshot.memory is None or not is_on_this_machine(worker):
        return worker.memory
    return dict(snapshot.memory.processes).get(worker.pid)


EMPTY = "no object"
"""What the legend calls the empty parts of a segment."""


def filled_text(segment: SegmentRecord) -> str:
    """Word how full a segment is, and how much of its length was given back to the machine; a file
    is as large as its content."""
    live, gone = human_bytes(segment.live), segment.end - segment.granted
    if segment.disk:
        return live
    given = f", {human_bytes(gone)} given back" if gone > 0 else ""
    return f"{live} live of {human_bytes(segment.granted)}{given}"


# -- the last two minutes ------------------------------------------------------------------------


def recent(snapshot: Snapshot) -> list[Sample]:
    return [sample for sample in snapshot.history or () if sample.age <= HISTORY_SECONDS]


def happened(history: Sequence[Sample]) -> dict[str, int | None]:
    first, last = history[0], history[-1]
    known = first.spills is not None and last.spills is not None
    return {
        "put": last.puts - first.puts,
        "free": last.frees - first.frees,
        "spill": (last.spills or 0) - (first.spills or 0) if known else None,
    }


# -- costs ---------------------------------------------------------------------------------------


def seconds_of(record: ObjectRecord) -> float:
    about = record.about
    return about.pickle_seconds + about.copy_seconds + record.load_seconds if about else 0.0


def by_cost(snapshot: Snapshot) -> list[ObjectRecord]:
    """Return its objects with a measured cost, the dearest first."""
    return sorted((r for r in snapshot.objects if r.about), key=lambda r: -seconds_of(r))


def speed_of(record: ObjectRecord) -> float | None:
    """Return the bytes a second of its copying; None if unknown."""
    about = record.about
    if about is None or not about.copy_seconds or about.inband + about.outband < LEAST_COPY:
        return None
    return (about.inband + about.outband) / about.copy_seconds


COLD = "new memory: Linux clears it on first use"
"""Why a copy took long."""


def repeats_of(record: ObjectRecord) -> int | None:
    """Return how often it was serialized in all; 0 if only once; None if unknown."""
    if record.about is None:
        return None
    return record.about.repeats + 1 if record.about.repeats else 0


def repeats_text(record: ObjectRecord) -> str:
    repeats = repeats_of(record)
    return REPEATED.format(human_count(repeats)) if repeats else ""


# -- what runs -----------------------------------------------------------------------------------

_ORDER = {"running": 0, "queued": 1}


def jobs_in_order(jobs: Iterable[JobRecord]) -> list[JobRecord]:
    """Return running jobs, then waiting ones, then those that are over; the latest first."""
    return sorted(jobs, key=lambda job: (_ORDER.get(job.state, 2), -job.number))


def job_where(job: JobRecord) -> str:
    return f"worker {job.worker}" if job.worker else ""


def runs_text(worker: WorkerRecord, processes: Processes) -> str:
    """Word what a worker runs: ``fit, fit, score``, ``Counter: add``; else its state."""
    does = ", ".join(worker.tasks) or worker.state
    waits = " (waits, its slot is lent)" if worker.state == "blocked" else ""
    return ": ".join(filter(None, (processes.actor(worker), does + waits)))
