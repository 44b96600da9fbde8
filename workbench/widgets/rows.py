"""What a page is told of a session: its records as plain data, in words where people read them.

Asks nothing but which process this is, keeps nothing. A fact that the session's engine doesn't
know is None.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from workbench.core.snapshot import (
    ActorRecord,
    JobRecord,
    ObjectRecord,
    Snapshot,
    WorkerRecord,
)
from workbench.engines.base import ACTOR_PREFIX
from workbench.listing import size_of
from workbench.units import count
from workbench.widgets.words import LEFT, session_name, worker_memory

Row = dict[str, Any]

Place = tuple[str, str]
"""A variable of this process, and what it holds: ``ref`` or ``view``."""

HERE = "this notebook"


def key_of(id: int) -> str:
    """An id for a page, whose numbers have 53 bits."""
    return f"{id:x}" if id else ""


class Words:
    """Who is who in one session, as it is now.

    Parameters
    ----------
    session : Snapshot
        Its objects don't matter.
    """

    def __init__(self, session: Snapshot) -> None:
        self._clients = {client.client: client for client in session.clients}
        self._workers = {worker.pid: worker for worker in session.workers}
        self._actors = {actor.id: actor for actor in session.actors}
        self._segments = {segment.id: segment for segment in session.segments or ()}
        self._places = session.segments is not None
        self._is_local = session.engine == "local"

    def process(self, number: int) -> str:
        """``this notebook``, ``worker 2``, ``Counter``, ``other.ipynb``."""
        client = self._clients.get(number)
        if client is None:
            return LEFT
        if client.pid == os.getpid():
            return HERE
        worker = self._workers.get(client.pid)
        if worker is None:
            return client.label.rpartition("/")[2] or f"process {client.pid}"
        return self.actor(worker) or f"worker {worker.number}"

    def actor(self, worker: WorkerRecord) -> str:
        """The actor that a worker belongs to; nothing if it is of the pool."""
        actor = self._actors.get(worker.actor)
        return actor_name(actor) if actor else "an actor" if worker.actor else ""

    def is_here(self, number: int) -> bool:
        """Whether that is this process."""
        client = self._clients.get(number)
        return client is not None and client.pid == os.getpid()

    def owner(self, segment: int) -> str | None:
        """Who writes a segment."""
        if not self._places:
            return None
        found = self._segments.get(segment)
        if found is None:
            return "the server"
        if found.disk:
            return "disk"
        if found.is_servers:
            return "the server"
        return self.process(found.owner) if found.owner else LEFT

    def row(self, record: ObjectRecord, born: float | None, held: Sequence[Place] = ()) -> Row:
        """One object. ``born``: when it came, in seconds since 1970; ``held``: the places in this
        process that hold it."""
        about = record.about
        kind, detail = "a task's result", ""
        if about or record.type != "":
            kind, _, detail = ((about.type if about else record.type) or "").partition(" ")
        names = [name.removeprefix(ACTOR_PREFIX) for name in record.names]
        pins = list(self._pins(record, _those(held, "ref"), _those(held, "view")))
        return {
            "id": key_of(record.id),
            "name": ", ".join(names) or ("" if held else record.key),
            "held": ", ".join(dict(held)),
            "kind": kind or None,
            "detail": detail,
            "size": size_of(record),
            "where": record.where or None,
            "state": record.state,
            "seg": key_of(record.segment),
            "off": record.offset,
            "len": record.size if record.segment else 0,
            "born": born and round(born, 1),
            "owner": self.owner(record.segment),
            "strength": record.strength,
            "pins": pins if pins or record.viewers is not None else None,
            "breaks": self._breaks(record, _those(held, "ref")) if self._is_local else "",
            "pickle": about.pickle_seconds if about else None,
            "copy": about.copy_seconds if about else None,
            "load": record.load_seconds or None,
            "inband": about.inband if about else None,
            "outband": about.outband if about else None,
            "buffers": about.buffers if about else None,
            "repeats": (about.repeats and about.repeats + 1) if about else None,
            "site": about.site if about else record.site,
        }

    def _pins(
        self, record: ObjectRecord, refs: Sequence[str], views: Sequence[str]
    ) -> Iterator[Row]:
        """Each reason why it is here, the plainest first."""
        for name in record.names:
            yield _pin("name", f"the name {name.removeprefix(ACTOR_PREFIX)}")
        if record.pinned:
            yield _pin("user", f"pinned at {record.pinned}")
        if record.job:
            yield _pin("job", f"made by {record.job}, which nobody has collected")
        for client in record.holders:
            where = ", ".join(refs) if self.is_here(client) else ""
            what = where or "a ref"
            yield _pin("ref", f"{what} in {self.process(client)}", self.is_here(client))
        if record.tasks:
            yield _pin("task", f"{count(record.tasks, 'task')} to read it")
        if record.parents:
            yield _pin("contained", f"inside {count(record.parents, 'object')}")
        for site in record.escapes:
            yield _pin("escaped", f"a ref pickled at {site}")
        for client in record.viewers or ():
            where = f"{', '.join(views)} in " if views and self.is_here(client) else "arrays in "
            yield _pin("view", f"{where}{self.process(client)} showing it", self.is_here(client))

    def _breaks(self, record: ObjectRecord, refs: Sequence[str]) -> str:
        """What can't be read any more, should it be freed; nothing if nobody would notice.

        Arrays that show it stay as they are.
        """
        users = [", ".join(refs[:3])] if refs else []
        elsewhere = sum(not self.is_here(client) for client in record.holders)
        here = len(record.holders) - elsewhere
        users += ["a ref in this notebook"] if here and not refs else []
        users += [f"refs in {count(elsewhere, 'other process')}"] if elsewhere else []
        users += [count(record.tasks, "task")] if record.tasks else []
        users += [count(record.parents, "object") + " it is inside of"] if record.parents else []
        if not users or record.state == "freed":
            return ""
        *most, last = users
        who = f"{', '.join(most)} and {last}" if most else last
        return f"It is still used by {who}: reading it there will fail."


def _those(held: Sequence[Place], kind: str) -> list[str]:
    return [place for place, what in held if what == kind]


def _pin(reason: str, text: str, here: bool = False) -> Row:
    return {"reason": reason, "text": text, "here": here}


def actor_name(actor: ActorRecord) -> str:
    """``Counter`` or, if it has a name, ``Counter 'hits'``."""
    names = " ".join(repr(name.removeprefix(ACTOR_PREFIX)) for name in actor.names)
    return f"{actor.cls} {names}".rstrip()


# -- the session but for its objects ---------------------------------------------------------------


def session_of(session: Snapshot) -> Row:
    """Everything about a session but its objects; see the parts."""
    words = Words(session)
    is_local = session.engine == "local"  # only there nothing means that there is nothing
    workers = [_worker(worker, words, session) for worker in session.workers]
    return {
        "session": session_name(session),
        "engine": session.engine,
        "scope": session.scope,
        "totals": _totals(session),
        "segments": None
        if session.segments is None
        else [
            {
                "id": key_of(segment.id),
                "owner": words.owner(segment.id),
                "granted": segment.granted,
                "live": segment.live,
                "disk": segment.disk,
                "end": segment.end,
            }
            for segment in session.segments
        ],
        "workers": workers if workers or is_local else None,
        "jobs": [job_of(job, session.taken) for job in session.jobs] if is_local else None,
    }


def _totals(session: Snapshot) -> Row:
    memory = session.memory
    sizes = dict(memory.processes) if memory else {}
    drivers = [client.pid for client in session.clients if client.role != "worker"]
    workers = [worker_memory(worker, session) for worker in session.workers]
    return {
        "capacity": session.capacity,
        "live": session.live,
        "warm": session.warm_free,
        "available": session.left,
        "spilled": session.spilled,
        "inline": session.inline,
        "count": session.count,
        "trouble": session.trouble,
        "running": session.running,
        "queued": session.queued,
        "workers": _sum(workers, bool(sizes)),
        "kernels": _sum([sizes.get(pid) for pid in drivers], bool(sizes)),
        "machine": memory and {"total": memory.total, "available": memory.available},
    }


def _sum(sizes: Sequence[int | None], measured: bool) -> int | None:
    """What these processes have; None if nobody measured."""
    known = [size for size in sizes if size is not None]
    return sum(known) if known or measured else None


def _worker(worker: WorkerRecord, words: Words, session: Snapshot) -> Row:
    return {
        "number": worker.number,
        "pid": worker.pid,
        "state": worker.state,
        "tasks": list(worker.tasks[:10]),
        "actor": words.actor(worker),
        "bytes": worker_memory(worker, session),
    }


_ENDS = {"done": "is done", "stopped": "was stopped"}


def job_of(job: JobRecord, now: float) -> Row:
    """One background cell. ``now`` is the time of the snapshot, in seconds since 1970."""
    shown = [(job.lines, "line"), (job.displays, "display")]
    output = " and ".join(count(n, noun) for n, noun in shown if n)
    return {
        "id": key_of(job.id),
        "number": job.number,
        "name": job.name,
        "state": job.state,
        "started": round(now - job.seconds) if job.state == "running" else None,
        "seconds": job.seconds if job.is_over else None,
        "share": job.ended / job.size if job.size > 1 else None,
        "size": job.size,
        "ended": job.ended,
        "worker": job.worker,
        "text": _ENDS.get(job.state, job.state) + (f" ({output} of output)" if output else ""),
        "kept": job.kept,
    }


def here(session: Snapshot) -> str:
    """What this process is called."""
    labels = [client.label for client in session.clients if client.pid == os.getpid()]
    return labels[0].rpartition("/")[2] if labels else ""
