"""ClusterEngine: an `engine.base.Engine` over a cluster's `Backend`: the last layer of `process`.

The same in a driver and in a cluster's worker: there it has a `Hosting`, whose tasks it serves.
"""

from __future__ import annotations

import os
import platform
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from workbench.engine.base import Engine
from workbench.engine.base import Running as RunningNow
from workbench.engine.presentation import SessionPresentation, process_label
from workbench.engine.tally import CallTally
from workbench.engines.cluster import holders
from workbench.engines.cluster.backend import BEGAN, ENDED, Backend, Message
from workbench.engines.cluster.hosting import Hosting
from workbench.engines.cluster.inquiries import ASKED
from workbench.engines.cluster.keeper import FREES, STOPS, ids_of, stops_of
from workbench.engines.cluster.looking import Looking
from workbench.errors import WorkbenchError
from workbench.ref import ObjectRef
from workbench.ref_generator import ObjectRefGenerator


class ClusterEngine(SessionPresentation, Looking):
    """See the module. ``linger``: seconds the session shall outlive its last driver."""

    def __init__(
        self, backend: Backend, *, logs: bool = True, namespace: str = "", linger: float = 0.0
    ) -> None:
        super().__init__(backend, logs, namespace)
        self.system = backend.engine
        self.inherits = False  # its workers are wherever they are
        self.joined = backend.joined
        self._linger = linger
        self._closed = False
        self.began: Callable[[int, int], None] | None = None
        self.completed: Callable[[int, int, list[ObjectRef | None]], None] | None = None
        self.tally: Callable[[], CallTally | None] = lambda: None
        self.leave: Callable[[], None] = self.close
        self.pack, self.reducers = self.packer.pack_values, self.custom.reducers
        self.register, self.deregister = self.custom.register, self.custom.deregister
        self.know_serializers = self.custom.know

    def host(self, hosting: Hosting) -> None:
        """This process is a worker of the cluster's: its tasks run so."""
        self.hosting = hosting
        self.origin = lambda: self.place()[1]
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

    def waiting(
        self, refs: Sequence[ObjectRef] = (), some: bool = False
    ) -> AbstractContextManager[None]:
        ids = [ref.id for ref in refs]
        if self.lending is None:
            return nullcontext()
        return self._lending.waiting(lambda: ids, 1 if some else 0)

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

    def copy_speed(self) -> float | None:
        return None

    def copying(self) -> tuple[int, int] | None:
        return None

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

    def keep(self, linger: float) -> None:
        self.backend.ask("keep", linger)

    def is_shut_down(self) -> None:
        """The session isn't on this machine: it may be kept as long as any."""

    def close(self, goodbye: bool = True) -> None:
        if self._closed:
            return
        self._closed = True
        if goodbye and self.ended is None and len(self.backend.ask("drivers")) < 2:
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
        self.entries.ended = "The session is the parent process's."


if TYPE_CHECKING:

    def _is_engine(engine: ClusterEngine) -> Engine:
        return engine
