"""ClusterEngine: an `engine.base.Engine` over a cluster's `Backend`: the last layer of `process`.

The same in a driver and in a cluster's worker: there it has a `Hosting`, whose tasks it serves.
"""

from __future__ import annotations

import os
import platform
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from workbench.client.survey import held
from workbench.core.events import USUAL
from workbench.engine import queries
from workbench.engine.base import CellListener, Engine, Running, SessionFacts
from workbench.engine.presentation import SessionPresentation, process_label
from workbench.engines.cluster import holders
from workbench.engines.cluster.backend import BEGAN, ENDED, Backend, Message
from workbench.engines.cluster.hosting import Hosting
from workbench.engines.cluster.inquiries import ASKED
from workbench.engines.cluster.keeper import FREES, STOPS, ids_of, stops_of
from workbench.engines.cluster.looking import Looking
from workbench.ref import ObjectRef


class ClusterEngine(Looking, SessionPresentation):
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
        self.register, self.know_serializers = self.custom.register, self.custom.know
        self.answers = {
            queries.Summary: lambda soon: self.snapshot(),
            queries.Matching: self.search,
            queries.CaughtUp: lambda: None,  # each answer is as new as it can be: see `Backend.ask`
            queries.Jobs: partial(backend.ask, "jobs"),
            queries.Outputs: partial(backend.ask, "shown_by"),
            queries.Capacity: lambda: self._told().capacity or 0,
            queries.HugePages: lambda: "",
            queries.Lookup: self.find,
            queries.Names: self.names,
            queries.Reasons: self.why,
            queries.Describe: self.describe,
            queries.Peek: self.peek,
            queries.Here: self._here,
            queries.Held: lambda *named: held(self.held_by, self.listener.roots, *named),
            queries.ShownBy: self.shown,
            queries.StoredAs: self.stored_as,
            queries.Compare: self.compare,
            queries.Pack: self.packer.pack_values,
            queries.OwnReducers: lambda: self.packer.reducers([]),
            queries.PutProgress: lambda: None,
            queries.CopySpeed: lambda: None,
        }

    def host(self, hosting: Hosting) -> None:
        """This process is a worker of the cluster's: its tasks run so."""
        self.hosting = hosting
        self.listener = CellListener(origin=lambda: self.place()[1])

    def join(self) -> None:
        """Say that this driver is here; from now on what tasks show comes."""
        process = self.backend.process
        self.backend.ask(
            "join", self.prefix, os.getpid(), process_label(), platform.node(), process,
            self._linger,
        )  # fmt: skip
        self.custom.know()
        self.backend.listen(self.prefix, self.heard)

    # -- what comes from the cluster: threads of the system's ------------------------------------

    def heard(self, messages: Sequence[Message]) -> None:
        """What came on the channel."""
        for message in messages:
            if message.kind == BEGAN:
                self.listener.began(message.job, message.worker)
            elif message.kind == ENDED:
                continue
            elif message.kind == FREES:
                self.let_go(ids_of(message.data))
            elif message.kind == STOPS:
                self._stop_here(*stops_of(message.data))
            elif message.kind == ASKED:
                holders.heard(self, message)
            else:
                self.show(message)

    def _stop_here(self, tasks: Sequence[int], force: bool) -> None:
        """Stop those that run here, and what they have submitted; others when they begin here."""
        if self.hosting is None:
            return
        for task in tasks:
            if force and self.hosting.work.runs(task):
                os.kill(os.getpid(), signal.SIGKILL)
            self.hosting.stop(task)
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
            hosting.worker, 0 if run is None else run.task, "" if run is None else run.name,
            hosting.actor, cpus, run is not None and hosting.is_restarted, self.namespace,
        )  # fmt: skip

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

    def keep(self, linger: float | None) -> None:
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

    def _is_engine(engine: ClusterEngine) -> Engine:
        return engine
