"""Answers for programs: facts as plain data. Bytes and seconds are numbers, states and reasons are
codes, and code to run is in a field of its own. `docs/reference/json.md` explains all fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from workbench.core.events import Output
from workbench.core.logs import TEXT
from workbench.core.snapshot import JobRecord, ObjectRecord, Snapshot
from workbench.format import CONTROLS
from workbench.report import facts, reasons
from workbench.report.checkpoints import LostTable
from workbench.report.history import CellHistory, bytes_of
from workbench.report.processes import actor_name, client_name
from workbench.report.text import ObjectTable
from workbench.report.why import Why

if TYPE_CHECKING:
    from workbench.heap.survey import Survey
    from workbench.session_file.contents import FileEntry

VERSION = 1  # of all documents; it grows when a field goes or comes to mean something else

Document = dict[str, Any]

JOB = (
    "number name state seconds size ended failed worker lines displays shown_in_part assigns=binds "
    "kept dropped"
)
CELL = "number before cell when seconds changed deleted source"
WHY = "what bytes=nbytes together complete unknown"
REASON = "reason text action remedy run_in frees=nbytes"
PART = "path type pickled=inband direct=outband buffers seconds share advice"
"""Of records: the attributes that are told, or FIELD=ATTRIBUTE."""


def document(kind: str, **fields: Any) -> Document:
    """Return one answer."""
    return {"version": VERSION, "kind": kind, **fields}


def as_text(data: Document) -> str:
    """Return a document as text that is safe for a terminal."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class JsonAnswer:
    """A ``document`` as a cell's result: as ``application/json``, and as text to be parsed."""

    def __init__(self, data: Document) -> None:
        self.document = data

    def __repr__(self) -> str:
        return as_text(self.document)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": repr(self), "application/json": self.document}


def _of(record: Any, fields: str) -> Document:
    pairs = (each.partition("=") for each in fields.split())
    found = {name: getattr(record, attribute or name) for name, _, attribute in pairs}
    return {name: list(each) if type(each) is tuple else each for name, each in found.items()}


def of_object(record: ObjectRecord, held: facts.Held | None = None) -> Document:
    return {
        "id": facts.id_of(record.id),
        "names": [facts.plain_name(name) for name in record.names],
        "title": facts.title_of(record, held),
        "type": facts.type_of(record),
        "bytes": facts.size_of(record),
        **_of(record, "state where age strength"),
        "pins": dict.fromkeys(reasons.REASONS, 0) | dict(reasons.counts(record)),
    }


def of_objects(session: str, found: ObjectTable) -> Document:
    objects = [of_object(record, found.held) for record in found]
    more = _of(found, "others others_bytes=others_size")
    return document("objects", session=session, objects=objects, **more)


def of_status(session: str | None, snapshot: Snapshot | None) -> Document:
    """Return what a notebook's session is; None if it has none."""
    return document("status", session=session, **(of_session(snapshot) if snapshot else {}))


def of_session(snapshot: Snapshot) -> Document:
    drivers = [c for c in snapshot.clients if c.role == "driver"]
    return {
        "drivers": [{"pid": each.pid, "label": client_name(each)} for each in drivers],
        "workers": facts.worker_states(snapshot),
        "actors": [
            {
                "name": actor_name(actor),
                "names": [facts.plain_name(name) for name in actor.names],
                **_of(actor, "class=cls state calls"),
            }
            for actor in snapshot.actors
        ],
        "objects": snapshot.count,
        "tasks": _of(snapshot, "running queued"),
        "store": _of(snapshot, "used=live granted capacity on_disk=spilled trouble"),
    }


def of_file(path: str, made: str, entries: Iterable[FileEntry]) -> Document:
    """Return what a session file has. Variables of one entry share its bytes."""
    variables = [
        {"name": name, "type": kind, "entry": n, **_of(entry, "entry_bytes=nbytes runs_code")}
        for n, entry in enumerate(entries)
        for name, kind in zip(entry.names, entry.types, strict=True)
    ]
    return document("open", file=path, made=made, variables=variables)


def of_whys(answers: Iterable[tuple[str, Why]], others: int = 0) -> Document:
    """Return why some objects are here, each with its label; of ``others`` nothing is said."""
    told = [
        {"label": label, **_of(why, WHY), "reasons": [_of(each, REASON) for each in why.reasons]}
        for label, why in answers
    ]
    return document("why", answers=told, others=others)


def of_inspection(found: Any) -> Document:
    """Return what can't be stored of a value: a `serialization.inspection.Inspection`."""
    failures = [_of(each, "path type why advice") for each in found.failures]
    return document("inspect", **_of(found, "name ok only_first not_tried"), failures=failures)


def of_cost(cost: Any) -> Document:
    """Return what a value costs: a `serialization.costs.Cost`."""
    return document("cost", **_of(cost, "name=path estimated is_estimate"), cost=_part(cost))


def _part(cost: Any) -> Document:
    return _of(cost, PART) | {"parts": [_part(each) for each in cost.children]}


def of_memory(found: Survey) -> Document:
    """Return where a process's memory is."""
    from workbench.report.memory import facts_of  # it imports numpy

    fields = "part what bytes=nbytes reserved about remedy"
    holders = [_of(each, fields) for each in facts_of(found)]
    process = {"all": found.memory.resident, **_of(found.memory, "private files store shared")}
    return document("memory", process=process, holders=holders, complete=found.is_complete)


def of_jobs(jobs: Iterable[JobRecord]) -> Document:
    return document("jobs", jobs=[_of(job, JOB) for job in jobs])


def of_output(job: JobRecord, outputs: Sequence[Output] | None, begin: int = 0) -> Document:
    """Return a job, and what it printed from byte ``begin`` on, as far as it is kept; counted since
    it last cleared its output: all, if the end is before ``begin``."""
    prints = [each for each in outputs or () if each.kind in TEXT]
    is_cut = bool(prints) and prints[0].origin < 0  # that is a note: see `Log`
    first = -1 - prints.pop(0).origin if is_cut else 0
    data = b"".join(each.data for each in prints)
    end = first + len(data)
    begin = max(begin if begin <= end else 0, first)
    text = data[begin - first :].decode("utf-8", "replace")
    return document("job", job=_of(job, JOB), output={"begin": begin, "end": end, "text": text})


def of_history(found: CellHistory) -> Document:
    here = found.branches.get(found.branch)
    cells = [
        _of(each, CELL) | {"bytes": bytes_of(each), "here": each.number == here}
        for each in found.checkpoints
    ]
    return document("history", branch=found.branch, cells=cells)


def of_branches(found: CellHistory) -> Document:
    cells = {each.number: each.cell for each in found.checkpoints}
    branches = [
        {"name": name, "number": number, "cell": cells.get(number), "here": name == found.branch}
        for name, number in found.branches.items()
    ]
    return document("branches", branches=branches)


def of_lost(found: LostTable) -> Document:
    lost = [{"name": name, **_of(each, "type=kind why cell")} for name, each in found.lost.items()]
    late = [{"name": name, "since": cell} for name, cell in found.since.items()]
    other = [{"name": name, "how": how} for name, how in found.altered.items()]
    return document("lost", variables=lost, altered=other, not_compared=late)
