"""What is told of a session on a cluster: its records, as far as they are known here."""

from __future__ import annotations

import fnmatch
import os
import platform
import time
from collections.abc import Iterable, Iterator
from typing import Any

from workbench.core.descriptions import Account, ObjectDescription, PinRecord, TaskRecord
from workbench.core.snapshot import (
    A_RESULT,
    ACTOR_PREFIX,
    ActorRecord,
    Change,
    ClientRecord,
    ObjectRecord,
    Snapshot,
)
from workbench.engine.presentation import process_label
from workbench.engine.records import Shown
from workbench.engines.cluster.backend import ClusterParts
from workbench.engines.cluster.entries import (
    FAILED,
    FREED,
    PENDING,
    READY,
    KnownObject,
)
from workbench.engines.cluster.holders import account, ask_all
from workbench.engines.cluster.kept_names import KeptObject
from workbench.engines.cluster.tasks import ClusterTasks
from workbench.engines.observed import PolledChanges
from workbench.errors import SessionError

SCOPE = (
    "what this process holds, and what has a name or is pinned; which other processes hold it is "
    "not known here (%why asks them)"
)

NOT_KEPT = KeptObject((), "", None)

FRESH = 1.0
"""Seconds for which what the system told of itself is used again."""


class Looking(ClusterTasks):
    """See the module."""

    _parts: tuple[float, ClusterParts] | None = None

    def _told(self) -> ClusterParts:
        now = time.monotonic()
        if self._parts is None or now - self._parts[0] > FRESH:
            self._parts = now, self.backend.parts()
        return self._parts[1]

    def _kept_objects(self) -> dict[int, KeptObject]:
        found: dict[int, KeptObject] = self.backend.ask("kept")
        return found

    def _results(self) -> dict[int, tuple[str, bool]]:
        """Of background cells, which the session keeps: whose, and whether nobody has it."""
        found: dict[int, tuple[str, bool]] = self.backend.ask("results")
        return found

    def _waiting_results(self) -> dict[int, str]:
        return {id: name for id, (name, waits) in self._results().items() if waits}

    def names_of(self, id: int) -> tuple[str, ...]:
        """The names of one object."""
        return self._kept_objects().get(id, NOT_KEPT).names

    def snapshot(self) -> Snapshot:
        if self.end_reason is not None:
            raise SessionError(self.end_reason)
        told, kept, results = self._told(), self._kept_objects(), self._waiting_results()
        clients: tuple[ClientRecord, ...] = self.backend.ask("drivers")
        me = self._me(clients)
        shown = self.views()
        held = {**shown, **{entry.id: entry for entry in self.entries.all()}}
        objects = [
            self._record(entry, kept, me, entry.id in shown, results.get(entry.id, ""))
            for entry in held.values()
            if entry.state != FREED or entry.id in shown
        ]
        objects += [
            self._record(KnownObject(id, None, READY), kept, me, False, results.get(id, ""))
            for id in kept.keys() - held.keys()
        ]
        live = sum(r.size for r in objects if r.where == "memory")
        return Snapshot(
            session=self.session, capacity=told.capacity, live=live, granted=None,
            queued=told.queued, running=told.running, objects=tuple(objects), workers=told.workers,
            clients=clients, actors=self._actors(), spilled=None, jobs=self.backend.ask("jobs"),
            count=len(objects), segments=None, history=None, taken=time.time(),
            engine=self.backend.engine, available=told.available, scope=SCOPE,
            names=sum(len(each.names) for each in kept.values()),
            linger=self.backend.ask("keep"), slots=self.backend.workers,
        )  # fmt: skip

    def _me(self, clients: Iterable[ClientRecord]) -> int:
        """This process among the drivers; 0 in a task. Pids are alike on other machines."""
        return next((c.client for c in clients if c.prefix == self.prefix), 0)

    def _record(
        self, entry: KnownObject, kept: dict[int, KeptObject], me: int, is_shown: bool, job: str
    ) -> ObjectRecord:
        known = kept.get(entry.id, NOT_KEPT)
        about = entry.about or known.about
        size = 0 if about is None else about.inband + about.outband
        state = {FAILED: "failed", PENDING: "pending"}.get(entry.state, "ready")
        where = "pending" if entry.state == PENDING else "memory" if size > 16 << 10 else "inline"
        if about is None and where != "pending":  # then its size isn't known either
            where = ""
        if is_shown and entry.state == FREED:
            state = "freed"
        is_held = self.entries.get(entry.id) is not None
        kind = "" if entry.task and state in ("pending", "failed") else None
        return ObjectRecord(
            entry.id, state, known.names, size, where, about,
            (me,) if is_held else (), (me,) if is_shown else None, 0, 0,
            pinned=known.pinned,
            age=time.monotonic() - entry.created if is_held or is_shown else None,
            escapes=known.escapes, job=job, type=kind if about is None else about.type,
        )  # fmt: skip

    def describe(self, id: int, patient: bool = False) -> ObjectDescription | None:
        """One object at a glance; never raises."""
        entry = self.entries.get(id)
        is_shown = id in self.views()
        if entry is None or self.end_reason is not None:
            return None
        try:
            kept = self._kept_objects()
        except (SessionError, TimeoutError):
            return None
        record = self._record(entry, kept, 1, is_shown, "")
        prefix, host = self.prefix, platform.node()
        clients = (ClientRecord(1, os.getpid(), "driver", process_label(), prefix, host),)
        task = None
        if entry.state == PENDING:
            head = self.unfinished.get(entry.task)
            maker = None if head is None else self.entries.get(head.actor)
            of = "" if maker is None else maker.actor
            task = TaskRecord(entry.name or A_RESULT, self._task_state(entry), actor=of)
        actor = next((each for each in self._actors() if each.id == id), None)
        return ObjectDescription(record, clients, task, actor)

    def _actors(self) -> tuple[ActorRecord, ...]:
        """Those of which this process has handles: no system tells of all."""
        found = []
        for entry in self.entries.all():
            if type(entry.native) is tuple and entry.about is not None:
                cls = entry.about.type.removeprefix("actor ")
                names = () if entry.actor in ("", cls) else (ACTOR_PREFIX + entry.actor,)
                running = [n for n, head in list(self.unfinished.items()) if head.actor == entry.id]
                calls = sum(task != entry.id for task in running)  # but for its creation
                found.append(ActorRecord(entry.id, cls, names, "", 0, calls, None))
        return tuple(found)

    def _task_state(self, entry: KnownObject) -> str:
        """Of the task that is to make it."""
        if entry.task in self.unfinished:
            return "running" if self.backend.has_begun(entry.task) else "queued"
        return next((job.state for job in self.backend.ask("jobs") if job.id == entry.job), "")

    def changes(self) -> PolledChanges:
        """The session, followed."""
        return PolledChanges(self.snapshot, lambda: self.end_reason is not None)

    def shown(self, array: Any) -> Shown | None:
        """The object whose bytes an array shows."""
        id = self.object_shown(array)
        if id is None:
            return None
        entry = self.entries.get(id)
        about = entry.about.type if entry is not None and entry.about is not None else ""
        return Shown(id, self.names_of(id), about)

    def search(self, pattern: str, order: str, most: int) -> Change:
        """Of the objects that match, those that come first."""
        now = self.snapshot()
        found = [r for r in now.objects if _matches(r, pattern)]
        if order == "size":
            found.sort(key=lambda r: -r.size)
        kept, others = found[:most], found[most:]
        frame = now.replace(objects=())
        size = sum(r.size for r in others)
        return Change(frame, tuple(kept), others=len(others), others_size=size)

    def why(self, what: int | str, deep: bool = False) -> Account | None:
        """All that keeps an object: what this process knows, and what all others say."""
        now = self.snapshot()
        record = next((r for r in now.objects if r.id == what or what in r.names), None)
        if record is None and isinstance(what, str):
            id = self._identified(what)
            record = next((r for r in now.objects if r.id == id), None)
        if record is None:
            return None
        found = ask_all(self, record.id, deep)
        name, waits = self._results().get(record.id, ("", True))
        return account(now, record, found, self._reasons(record), "" if waits else name)

    def _identified(self, text: str) -> int | None:
        ref = self._identify(text)  # no variable of who asks for places may have it
        return None if ref is None else ref.id

    def _reasons(self, record: ObjectRecord) -> Iterator[PinRecord]:
        """What keeps it besides variables, as far as this process knows."""
        for task in list(self.unfinished.values()):
            if record.id in task.needs:
                yield PinRecord("task", detail=task.name, object=task.task)
        for entry in self.entries.all():
            if record.id in entry.inside:
                names = self.names_of(entry.id)
                kind = entry.about.type if entry.about is not None else entry.name or A_RESULT
                detail = ", ".join(map(repr, names)) or kind
                yield PinRecord("contained", detail=detail, object=entry.id)


def _matches(record: ObjectRecord, pattern: str) -> bool:
    if not pattern:
        return True
    words = [*record.names, record.type or "", f"{record.id:016x}"]
    return any(fnmatch.fnmatch(word, pattern) or pattern in word for word in words)
