"""ClusterEngine: an `engine.base.Engine` over a cluster's `Backend`. Its layers, a file each:
`store`, `tasks` and this.

The same in a driver and in a cluster's worker: there it has a `Hosting`, whose tasks it serves.
"""

from __future__ import annotations

import fnmatch
import os
import platform
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.client.referrer_search import find_referrers
from workbench.client.search_budget import SearchBudget
from workbench.client.survey import held
from workbench.client.value_holders import holders_of
from workbench.core.descriptions import Account, ObjectDescription, PinRecord, TaskRecord
from workbench.core.events import USUAL, Output
from workbench.core.snapshot import (
    A_RESULT,
    ACTOR_PREFIX,
    ActorRecord,
    Change,
    ClientRecord,
    ObjectRecord,
    Snapshot,
)
from workbench.engine import queries
from workbench.engine.base import CellListener, Engine, Running, SessionFacts
from workbench.engine.presentation import SessionPresentation, process_label
from workbench.engine.records import Shown
from workbench.engines.cluster.backend import BEGAN, Backend, Message
from workbench.engines.cluster.entries import (
    FAILED,
    FREED,
    PENDING,
    READY,
    KnownObject,
)
from workbench.engines.cluster.hosting import Hosting
from workbench.engines.cluster.keeper import FREES, STOPS, KeptSession, ids_of, stops_of
from workbench.engines.cluster.tasks import ClusterTasks
from workbench.engines.observed import PolledChanges
from workbench.errors import SessionError
from workbench.ref import ObjectRef

SCOPE = (
    "what this process holds, and what has a name or is pinned; which other processes hold it is "
    "not known here"
)

INSIDE = "whether it is inside other objects in the store"
"""What no process knows."""


class ClusterEngine(ClusterTasks, SessionPresentation):
    """See the module. ``linger``: seconds the session shall outlive its last driver."""

    def __init__(
        self, backend: Backend, *, logs: bool = True, namespace: str = "", linger: float = 0.0
    ) -> None:
        super().__init__(backend, logs, namespace)
        # Its workers are wherever they are: they inherit nothing.
        self.facts = SessionFacts(backend.engine, backend.joined, False, logs)
        self._linger = linger
        self._closed = False
        self.leave: Callable[[], None] = self.close
        self.answers = {
            queries.Summary: lambda soon: self.snapshot(),
            queries.Matching: self.search,
            queries.CaughtUp: lambda: None,  # each answer is as new as it can be: see `Backend.ask`
            queries.Jobs: partial(backend.ask, "jobs"),
            queries.Outputs: partial(backend.ask, "shown_by"),
            queries.Capacity: lambda: backend.parts().capacity or 0,
            queries.HugePages: lambda: "",
            queries.NoteCell: lambda *note: None,  # nobody there watches drivers
            queries.Lookup: self.find,
            queries.Names: self.names,
            queries.Reasons: self.why,
            queries.Describe: self.describe,
            queries.Withdraw: self.withdraw,
            queries.Peek: self.peek,
            queries.Here: self._here,
            queries.Held: lambda *named: held(self.held_by, self.listener.roots, *named),
            queries.Keepers: holders_of,
            queries.ShownBy: self.shown,
            queries.StoredAs: self.stored_as,
            queries.WhenFull: lambda let_go: None,  # they make room themselves
            queries.Compare: self.compare,
            queries.Pack: self.packer.pack_values,
            queries.OwnReducers: lambda: self.packer.reducers([]),
            queries.PutProgress: lambda: None,
            queries.CopySpeed: lambda: None,
        }

    def host(self, hosting: Hosting) -> None:
        """This process is a worker of the cluster's: its tasks run so."""
        self.hosting = hosting
        self.listener = CellListener(
            origin=lambda: self.place()[1], roots=lambda: hosting.variables
        )

    def join(self) -> None:
        """Say that this driver is here; from now on what tasks show comes."""
        self.backend.ask("join", self._me(), self.backend.process, self._linger)
        self.backend.listen(self.prefix, self.heard)

    # -- what is told of the session: its records, as far as they are known here ------------------

    def _seen(self) -> KeptSession:
        found: KeptSession = self.backend.ask("seen")
        return found

    def snapshot(self) -> Snapshot:
        if self.end_reason is not None:
            raise SessionError(self.end_reason)
        told, seen = self.backend.parts(), self._seen()
        held = {entry.id: entry for entry in self.entries.all()}
        kept = {id: KnownObject(id, None, READY) for id in seen.objects.keys() - held.keys()}
        objects = [
            self._record(entry, seen)
            for entry in (*held.values(), *kept.values())
            if entry.state != FREED or entry.shown
        ]
        live = sum(r.size for r in objects if r.where == "memory")
        return Snapshot(
            session=self.session, capacity=told.capacity, live=live, granted=None,
            queued=told.queued, running=told.running, objects=tuple(objects), workers=told.workers,
            clients=seen.drivers, actors=self._actors(), spilled=None, jobs=seen.jobs,
            count=len(objects), segments=None, history=None, taken=time.time(),
            engine=self.backend.engine, available=told.available, scope=SCOPE,
            names=sum(len(each.names) for each in seen.objects.values()),
            linger=seen.linger, slots=self.backend.workers,
        )  # fmt: skip

    def _me(self) -> ClientRecord:
        """This process among the clients, whose numbers are the prefixes of their ids."""
        role, host = "driver" if self.hosting is None else "worker", platform.node()
        return ClientRecord(self.prefix, os.getpid(), role, process_label(), self.prefix, host)

    def _record(self, entry: KnownObject, seen: KeptSession) -> ObjectRecord:
        known = seen.of(entry.id)
        job, waits = seen.results.get(entry.id, ("", False))
        about = entry.about or known.about
        size = 0 if about is None else about.inband + about.outband
        state = {FAILED: "failed", PENDING: "pending"}.get(entry.state, "ready")
        where = "pending" if entry.state == PENDING else "memory" if size > 16 << 10 else "inline"
        if about is None and where != "pending":  # then its size isn't known either
            where = ""
        is_held = self.entries.get(entry.id) is not None
        if entry.shown and entry.state == FREED:
            state = "freed"
        kind = "" if entry.task and state in ("pending", "failed") else None
        return ObjectRecord(
            entry.id,
            state,
            known.names,
            size,
            where,
            about,
            (self.prefix,) if is_held and not entry.shown else (),
            (self.prefix,) if entry.shown else None,
            0,
            0,
            pinned=known.pinned,
            age=time.monotonic() - entry.created if is_held else None,
            escapes=known.escapes,
            job=job if waits else "",
            type=kind if about is None else about.type,
        )

    def describe(self, id: int, patient: bool = False) -> ObjectDescription | None:
        """One object at a glance; never raises."""
        entry = self.entries.get(id)
        if entry is None or self.end_reason is not None:
            return None
        try:
            record = self._record(entry, self._seen())
        except SessionError:
            return None
        task = None
        if entry.state == PENDING:
            head = self.unfinished.get(entry.task)
            maker = None if head is None else self.entries.get(head.actor)
            of = "" if maker is None else maker.actor
            task = TaskRecord(entry.name or A_RESULT, self._task_state(entry), actor=of)
        actor = next((each for each in self._actors() if each.id == id), None)
        return ObjectDescription(record, (self._me(),), task, actor)

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
        if entry.task in self.unfinished:
            return "running" if self.backend.has_begun(entry.task) else "queued"
        return next((job.state for job in self.backend.ask("jobs") if job.id == entry.job), "")

    def changes(self) -> PolledChanges:
        return PolledChanges(self.snapshot, lambda: self.end_reason is not None)

    def shown(self, array: Any) -> Shown | None:
        if (ref := self.entries.shown_by(array)) is None:
            return None
        entry, kept = self.entries.of(ref), self._seen().of(ref.id)
        return Shown(ref.id, kept.names, "" if entry.about is None else entry.about.type)

    def search(self, pattern: str, order: str, most: int) -> Change:
        now = self.snapshot()
        matches = re.compile(fnmatch.translate(pattern or "*")).match
        found = [r for r in now.objects if any(map(matches, (*r.names, r.type or "")))]
        if order == "size":
            found.sort(key=lambda r: -r.size)
        kept, others, size = found[:most], len(found[most:]), sum(r.size for r in found[most:])
        return Change(now.replace(objects=()), tuple(kept), others=others, others_size=size)

    def why(self, what: int | str, deep: bool = False) -> Account | None:
        """All that keeps an object, as far as this process and the keeper know."""
        now = self.snapshot()
        record = next((r for r in now.objects if r.id == what or what in r.names), None)
        if record is None and isinstance(what, str):
            id = self._identify(what)
            record = next((r for r in now.objects if r.id == id), None)
        if record is None:
            return None
        unknown = [INSIDE, self.can.holders]
        seen = self._seen()
        name, waits = seen.results.get(record.id, ("", True))
        if not waits:
            unknown.insert(0, f"when the session forgets {name}, whose result it is and is kept")
        pins = *self._reasons(record, seen), *self._found_here(record.id, deep)
        clients = *now.clients, self._me()
        return Account(record, pins, clients, now.workers, now.actors, tuple(unknown))

    def _found_here(self, id: int, deep: bool) -> Iterator[PinRecord]:
        """What keeps it in this process, and where that stands."""
        kinds = tuple(self.kept(id))
        if not kinds:
            return
        with ThreadPoolExecutor(1) as apart:  # what runs in this thread is looked at too
            roots = self.listener.roots()
            kept, budget = self.kept(id), SearchBudget(deep)
            looked = apart.submit(find_referrers, kept, roots, budget).result()
        places, complete, seen = looked
        for kind in kinds:
            of_kind = tuple(place for place in places if place.kind == kind)
            if not of_kind and complete and kind != kinds[-1]:
                continue  # only its arrays keep the handle
            yield PinRecord(kind, self.prefix, places=of_kind, complete=complete, seen=seen)

    def _reasons(self, record: ObjectRecord, seen: KeptSession) -> Iterator[PinRecord]:
        """What keeps it besides variables, as far as is known."""
        kept = {"name": record.names, "user": [record.pinned], "job": [record.job]}
        for reason, details in (*kept.items(), ("escaped", record.escapes)):
            yield from (PinRecord(reason, detail=each) for each in details if each)
        for task in list(self.unfinished.values()):
            if record.id in task.needs:
                yield PinRecord("task", detail=task.name, object=task.task)
        for entry in self.entries.all():
            if record.id in entry.inside:
                kind = entry.about.type if entry.about is not None else entry.name or A_RESULT
                detail = ", ".join(map(repr, seen.of(entry.id).names)) or kind
                yield PinRecord("contained", detail=detail, object=entry.id)

    # -- what comes from the cluster: threads of the system's ------------------------------------

    def heard(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.kind == BEGAN:
                self.listener.began(message.job, message.worker)
            elif message.kind == FREES:
                self.let_go(ids_of(message.data))
            elif message.kind == STOPS:
                self.stop_here(*stops_of(message.data))
            else:
                kind, data, origin = message.kind, message.data, message.origin
                self.listener.show(Output(message.task, kind, data, origin, message.worker))

    def stop_here(self, tasks: Sequence[int], force: bool) -> None:
        """Stop those that run here, and what they have submitted; others when they begin here."""
        if self.hosting is None:
            return
        for task in tasks:
            if self.hosting.stop(task) and force:
                os.kill(os.getpid(), signal.SIGKILL)
        nested = [each.task for each in list(self.unfinished.values()) if each.parent in tasks]
        if nested:
            # It asks all what they run, this process too: apart from who hears that.
            stop = partial(self.backend.stop, nested, force)
            threading.Thread(target=stop, name="workbench-stop", daemon=True).start()

    # -- waiting in tasks ------------------------------------------------------------------------

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _here(self) -> Running:
        hosting = self.hosting
        if hosting is None:
            return Running(namespace=self.namespace)
        run, spec = hosting.work.current, None
        cpus = 0.0
        if run is not None and not hosting.actor:
            cpus = 1.0 if (spec := run.spec) is None else spec.cpus / USUAL.cpus
        return Running(
            hosting.worker,
            0 if run is None else run.task,
            "" if run is None else run.name,
            hosting.actor,
            cpus,
            run is not None and hosting.is_restarted,
            self.namespace,
            run is not None and hosting.interrupts.is_stopping(run.task),
        )

    # -- what this engine has none of ------------------------------------------------------------

    def spill(self, ref: ObjectRef) -> str:
        return self.can.spill

    def refresh(self) -> None:
        """Tasks look for edited modules when they are told so in their heads."""

    # -- the session -----------------------------------------------------------------------------

    @property
    def address(self) -> str:
        return self.backend.address

    @property
    def workers(self) -> int:
        return self.backend.workers

    def keep(self, linger: float | None, final: bool = False) -> None:
        if linger is not None:  # who is shut down isn't on the session's machine: it may be kept
            self.backend.ask("keep", linger)

    def close(self, goodbye: bool = True) -> None:
        if self._closed:
            return
        self._closed = True
        if goodbye and self.end_reason is None and len(self.backend.ask("drivers")) < 2:
            self.end_jobs()  # with the session
        try:
            self.backend.close(goodbye)
        finally:
            self.entries.end("The session was shut down.")
            self.opening.close()
            self.prints.close()

    def abandon(self) -> None:
        self._closed = True
        self.prints.abandon()
        self.entries.end_reason = "The session is the parent process's."


if TYPE_CHECKING:
    _: type[Engine] = ClusterEngine
