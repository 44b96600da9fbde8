"""ClusterEngine: an `engine.base.Engine` over a cluster's `Backend`, put together from its parts.

The same in a driver and in a cluster's worker: there it has a `Hosting`, whose tasks it serves.
"""

from __future__ import annotations

import itertools
import os
import platform
import secrets
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from workbench import context
from workbench.client.task_prints import TaskPrints
from workbench.core.descriptions import Account
from workbench.core.events import ID_BITS, PROGRESS, Output
from workbench.core.snapshot import Change
from workbench.engine.base import Engine, OutputSink
from workbench.engine.base import Running as RunningNow
from workbench.engine.lending_future import Lending, LendingFuture
from workbench.engine.presentation import SessionPresentation, process_label
from workbench.engine.tally import CallTally
from workbench.engines.cluster import holders
from workbench.engines.cluster.backend import BEGAN, ENDED, Backend, Message, Native, TaskEnd
from workbench.engines.cluster.entries import FAILED, READY, Entries, KnownObject
from workbench.engines.cluster.freeing import FREES, ids_of
from workbench.engines.cluster.hosting import Hosting
from workbench.engines.cluster.inquiries import ASKED
from workbench.engines.cluster.jobs import ClusterJobs
from workbench.engines.cluster.lending import NativeLending
from workbench.engines.cluster.looking import Looking
from workbench.engines.cluster.outliving import outliving
from workbench.engines.cluster.outputs import MISSING, Outputs
from workbench.engines.cluster.parcels import Packer
from workbench.engines.cluster.serializers import SharedSerializers
from workbench.engines.cluster.store import ClusterStore, of_object
from workbench.engines.cluster.tasks import ClusterTasks
from workbench.errors import WorkbenchError
from workbench.ref import ObjectRef
from workbench.ref_generator import ObjectRefGenerator


class ClusterEngine(SessionPresentation):
    """See the module. ``hosting`` makes one in a worker, once the engine is there; None: a driver.

    ``linger``: seconds the session shall outlive its last driver.
    ``logs``: what tasks print is printed here, until a notebook shows it under its cells.
    """

    def __init__(
        self, backend: Backend, *, logs: bool = True, namespace: str = "", linger: float = 0.0
    ) -> None:
        self.backend = backend
        self.can = backend.can
        self.system = backend.engine
        self.inherits = False  # its workers are wherever they are
        self.session = backend.session
        self.joined = backend.joined
        self.hosting: Hosting | None = None
        prefix = secrets.randbits(31) | 1 << 30
        self.prefix = prefix
        self.next_id = itertools.count((prefix << ID_BITS) + 1).__next__
        self._namespace = namespace
        self._linger = linger
        side = "on the worker" if backend.blocks else "in this process"
        self.packer = Packer(self.session, prefix, self._native, side)
        self.custom = SharedSerializers(backend, self.packer, self.next_id, self._check_open)
        self.entries = Entries(self, self._watched)
        self._lending = NativeLending(backend, self.entries)
        self.outputs = Outputs()
        self._late: threading.Event | None = None
        self._prints = TaskPrints(self._is_over)
        self.logs = logs
        self.output: OutputSink | None = self._prints.show if logs else None
        self.began: Callable[[int, int], None] | None = None
        self.completed: Callable[[int, int, list[ObjectRef | None]], None] | None = None
        self.origin: Callable[[], int] = self._prints.origin
        self.roots: Callable[[], Mapping[str, Any]] = dict
        self.tally: Callable[[], CallTally | None] = lambda: None
        self.leave: Callable[[], None] = self.close
        self._closed = False
        self._assemble(None)

    def _assemble(self, hosting: Hosting | None) -> None:
        """The parts; in a worker again, once it can host tasks."""
        self.hosting = hosting
        store = self.store = ClusterStore(
            self.backend, self.entries, self.packer, self.next_id, self._task_name,
            self._prints.flush if hosting is None else bool,
        )  # fmt: skip
        store.new_future = self._new_future
        self.put, self.get, self.wait, self.peek = store.put, store.get, store.wait, store.peek
        self.compare, self.future, self.arrivals = store.compare, store.future, store.arrivals
        self.borrow, self.escaped, self.free = store.borrow, store.escaped, store.free
        self.find, self.names, self.name = store.find, store.names, store.name
        self.unname, self.state, self.identify = store.unname, store.state, store.identify
        self.stored_as, self.learn, self.stored = store.stored_as, store.learn, store.stored
        self.put_from = store.put_from
        tasks = self.tasks = ClusterTasks(
            self, self.backend, self.entries, self.packer, store, self.outputs, hosting,
            self._place, self.custom.count, self._settle, self._namespace,
        )  # fmt: skip
        self.submit, self.create, self.call = tasks.submit, tasks.create, tasks.call
        self.cancel, self.withdraw, self.has_begun = tasks.cancel, tasks.withdraw, tasks.has_begun
        self.find_actor, self.actor_names = tasks.find_actor, tasks.actor_names
        self.kill_actor, self.actor_of = tasks.kill_actor, tasks.actor_of
        self.interrupt = tasks.interrupt
        self.pack = self.packer.pack_values
        looking = self.looking = Looking(self, self.backend, self.entries, tasks)
        self.summary, self.snapshot = looking.summary, looking.snapshot
        self.why: Callable[..., Account | None] = looking.why
        self.search: Callable[[str, str, int], Change] = looking.search
        self.describe, self.overview, self.changes = (
            looking.describe, looking.overview, looking.changes,
        )  # fmt: skip
        self.held, self.held_in, self.shown = looking.held, looking.held_in, looking.shown
        jobs = ClusterJobs(self, self.backend, self.entries, self._show)
        self.jobs, self.shown_by, self.collect = jobs.jobs, jobs.shown_by, jobs.collect
        custom = self.custom
        self.register, self.deregister = custom.register, custom.deregister
        self.reducers, self.know_serializers = custom.reducers, custom.know
        self.mimebundle = context.mimebundle

    def host(self, hosting: Hosting) -> None:
        """This process is a worker of the cluster's: its tasks run so."""
        self._assemble(hosting)
        self.origin = lambda: self._place()[1]
        self.output = None

    def join(self) -> None:
        """Say that this driver is here; from now on what tasks show comes."""
        process = self.backend.process
        self.backend.ask(
            "join", self.prefix, os.getpid(), process_label(), platform.node(), process,
            self._linger,
        )  # fmt: skip
        self.custom.know_all()
        self.backend.listen(self.prefix, self.heard)

    # -- what the parts ask ----------------------------------------------------------------------

    def _native(self, ref: ObjectRef) -> Native:
        return self.store.native(ref)

    def _check_open(self) -> None:
        self.store.check_open()

    def _task_name(self) -> str:
        return "" if self.hosting is None else self.hosting.work.name

    def _place(self) -> tuple[int, int]:
        """Where what a task shows goes that is submitted now: whose screen, under which cell."""
        if self.hosting is None:
            return self.prefix, self.origin()
        run = self.hosting.work.current or self.hosting.work.latest
        return (0, 0) if run is None else (run.audience, run.origin)

    def _watched(self, entry: KnownObject) -> None:
        id = entry.id

        def ready(error: BaseException | None) -> None:
            known = error if isinstance(error, WorkbenchError) else None
            self.entries.settle(id, READY if error is None else FAILED, error=known)

        self.backend.on_ready(of_object(entry.native), ready)

    def _is_over(self, task: int) -> bool:
        return task not in self.tasks.running

    # -- what comes from the cluster: threads of the system's ------------------------------------

    def heard(self, messages: Sequence[Message]) -> None:
        """What came on the channel."""
        for message in messages:
            if message.kind == BEGAN:
                if self.began is not None:
                    self.began(message.job, message.worker)
            elif message.kind == ENDED:
                continue
            elif message.kind == FREES:
                self.store.let_go(ids_of(message.data))
            elif message.kind == ASKED:
                holders.heard(self, self.backend, message)
            else:
                self._show(message)
                if message.kind != PROGRESS:
                    self.outputs.came(message)

    def _show(self, message: Message) -> None:
        if self.output is None:
            return
        try:
            self.output(
                Output(message.task, message.kind, message.data, message.origin, message.worker)
            )
        except Exception:  # what shows output must not be able to end the channel
            traceback.print_exc(file=sys.__stderr__)

    def _settle(self, end: TaskEnd, complete: Callable[[TaskEnd], None]) -> None:
        """A task of ours is over once all that it showed is here."""
        if self.outputs.ended(end, complete, time.monotonic()):
            return
        if self._late is None:
            self._late = threading.Event()
            name = "workbench-ends"
            threading.Thread(target=self._watch_ends, name=name, daemon=True).start()
        self._late.set()

    def _watch_ends(self) -> None:
        assert self._late is not None
        while not self._closed:
            due = self.outputs.due()
            self._late.wait(None if due is None else max(due - time.monotonic(), 0.0))
            self._late.clear()
            self.outputs.late(time.monotonic(), self._tell_missing)

    def _tell_missing(self, task: int) -> None:
        """Under the cell that submitted it, which is over with it."""
        running = self.tasks.running.get(task)
        if running is not None:
            self._show(Message(task, "stderr", MISSING.encode(), running.origin, self.prefix))

    # -- waiting in tasks ------------------------------------------------------------------------

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def waiting(
        self, refs: Sequence[ObjectRef] = (), some: bool = False
    ) -> AbstractContextManager[None]:
        ids = [ref.id for ref in refs]
        if self.lending is None:
            return nullcontext()
        return self._lending.waiting(lambda: ids, 1 if some else 0)

    @property
    def lending(self) -> Lending | None:
        return None if self.hosting is None or self.hosting.actor else self._lending

    def _new_future(self, ref: ObjectRef) -> Future[Any]:
        lending = self.lending
        return Future() if lending is None else LendingFuture(lending, lambda: (ref.id,))

    def wait_for_item(self, stream: ObjectRefGenerator) -> None:
        raise WorkbenchError(self.can.streams)

    def next_item(self, stream: ObjectRefGenerator) -> Future[None] | None:
        raise WorkbenchError(self.can.streams)

    def took(self, stream: ObjectRefGenerator, taken: int, at_once: bool) -> None:
        raise WorkbenchError(self.can.streams)

    # -- looking ---------------------------------------------------------------------------------

    def settle(self) -> None:
        """What it is asked for next is as new as it can be: see `Backend.ask`."""

    def running(self) -> RunningNow:
        hosting = self.hosting
        run = None if hosting is None else hosting.work.current
        if hosting is None:
            return RunningNow()
        if run is None:
            return RunningNow(hosting.worker, actor=hosting.actor)
        cpus = 0.0 if hosting.actor or run.spec is None else run.spec.cpus / 1000
        cpus = cpus if hosting.actor or run.spec is not None else 1.0
        return RunningNow(
            hosting.worker, run.task, run.name, hosting.actor, cpus, hosting.is_restarted
        )

    @property
    def namespace(self) -> str:
        return self.tasks.namespace

    def copy_speed(self) -> float | None:
        return None

    def copying(self) -> tuple[int, int] | None:
        return None

    def pin(self, ref: ObjectRef, on: bool, site: str = "") -> None:
        store = self.store
        store.check_open()
        entry = self.entries.of(ref)
        if not on:
            self.backend.ask("unpin", ref.id)
            return
        (native,) = outliving(self.backend, self.entries, [ref.id], [store.native(ref)])
        self.backend.ask("pin", ref.id, native, entry.about, site or store.site())

    # -- what this engine has none of ------------------------------------------------------------

    def spill(self, ref: ObjectRef) -> str:
        return self.can.spill

    def huge_pages(self) -> str:
        return ""

    def refresh(self) -> None:
        """Tasks look for edited modules when they are told so in their heads."""

    # -- the session -----------------------------------------------------------------------------

    @property
    def address(self) -> str:
        return self.backend.address

    @property
    def workers(self) -> int:
        return self.backend.workers

    @property
    def capacity(self) -> int:
        return self.looking.capacity()

    @property
    def ended(self) -> str | None:
        return self.entries.ended or self.backend.ended

    def keep(self, linger: float) -> None:
        self.backend.ask("keep", linger)

    def is_shut_down(self) -> None:
        """The session isn't on this machine: it may be kept as long as any."""

    def close(self, goodbye: bool = True) -> None:
        if self._closed:
            return
        self._closed = True
        if self._late is not None:
            self._late.set()
        if goodbye and self.ended is None and len(self.backend.ask("drivers")) < 2:
            self.tasks.end_jobs()  # with the session
        try:
            self.backend.close(goodbye)
        finally:
            self.entries.end("The session was shut down.")
            self.store.opening.close()
            self._prints.close()

    def abandon(self) -> None:
        self._closed = True
        self._prints.abandon()
        self.entries.ended = "The session is the parent process's."


if TYPE_CHECKING:

    def _is_engine(engine: ClusterEngine) -> Engine:
        return engine
