"""Driver: the engine of a process in which a person works: a kernel, a script."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from workbench.client.base import ClientBase
from workbench.client.client import Client
from workbench.client.task_prints import TaskPrints
from workbench.config import NOTEBOOK_LINGER
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.engine.base import OutputSink
from workbench.engine.lending_future import Missing
from workbench.engine.presentation import SessionPresentation
from workbench.engine.tally import CallTally
from workbench.errors import SessionError
from workbench.ref import ObjectRef

PATIENCE = 5.0
"""Seconds for which a driver that leaves waits for the server it started to end."""


class Driver(SessionPresentation, Client):
    """An `Engine`. It is its own `Role`, because notebooks set on an engine what a role answers.

    ``base`` hasn't joined yet. ``linger``: seconds the session shall outlive its last driver.
    ``reap`` waits for the end of the server, if this process started it; None: it didn't.
    ``logs``: what tasks print is printed here, until a notebook shows it under its cells.
    ``namespace``: of the names of actors that it makes.
    """

    task = None  # the code that calls is no task's
    actor = 0
    is_restarted = False
    lending = None  # it has no slot

    def __init__(
        self,
        base: ClientBase,
        linger: float,
        reap: Callable[[float], None] | None,
        logs: bool = True,
        namespace: str = "",
    ) -> None:
        self._namespace = namespace
        self.joined = reap is None
        self.inherits = not self.joined
        self.logs = logs
        self._prints = TaskPrints(base.objects.values.__contains__)
        self.output: OutputSink | None = self._prints.show if logs else None
        self.began: Callable[[int, int], None] | None = None
        self.completed: Callable[[int, int, list[ObjectRef | None]], None] | None = None
        self.origin: Callable[[], int] = self._prints.origin
        self.show_prints = self._prints.flush
        self.tally: Callable[[], CallTally | None] = lambda: None
        self.roots: Callable[[], Mapping[str, Any]] = dict
        self._is_final = False
        self._linger = linger
        self._reap = reap
        super().__init__(base, self)
        self.abandon = self._abandon
        self.leave: Callable[[], None] = self.close  # at the end of a `with` block
        base.handlers |= {ev.Output: self._output, do.Began: self._began}
        base.handlers |= {do.JobComplete: self._completed}
        base.join()
        if self.joined:  # its workers may have imported modules that were edited since
            self.refresh()

    @property
    def address(self) -> str:
        return self.session

    @property
    def namespace(self) -> str:
        return self._namespace

    def blocking(
        self, missing: Missing, enough: int = 0, item: int = 0
    ) -> AbstractContextManager[None]:
        return nullcontext()

    def polled(self, missing: Missing) -> None:
        """It has no slot to lend."""

    def new_future(self, missing: Missing, item: int = 0) -> Future[Any]:
        return Future()

    def keep(self, linger: float) -> None:
        super().keep(linger)
        self._linger = linger

    def is_shut_down(self) -> None:
        if self._linger <= NOTEBOOK_LINGER:
            self._is_final = True
            self._base.say_final()

    def close(self, goodbye: bool = True) -> None:
        """Leave the session; if that ends it, wait until its processes are gone."""
        reap, self._reap = self._reap, None
        lingers = self._linger > 0 and not goodbye
        patience = 0.0 if reap is not None and (lingers or self._stays(goodbye)) else PATIENCE
        self._base.close(goodbye, not goodbye and self._is_final)
        self._prints.close()
        if reap is not None:
            reap(patience)

    def _abandon(self) -> None:
        self._prints.abandon()
        self._base.abandon()

    def _stays(self, goodbye: bool) -> bool:
        """Whether another driver keeps the session up, or it is to outlive them all."""
        try:
            snapshot = self.summary()
        except SessionError:
            return False
        drivers = sum(client.role == "driver" for client in snapshot.clients)
        return drivers > 1 or (snapshot.linger > 0 and not goodbye)

    # -- the reading thread -----------------------------------------------------------------------

    def _output(self, message: ev.Output) -> None:
        if self.output is not None:
            try:
                self.output(message)
            except Exception:  # what shows output must not be able to end the connection
                traceback.print_exc(file=sys.__stderr__)

    def _began(self, message: do.Began) -> None:
        if self.began is not None:
            self.began(message.job, message.worker)

    def _completed(self, message: do.JobComplete) -> None:
        results = self.granted(message.results)
        if self.completed is not None:
            self.completed(message.job, message.size, results)
