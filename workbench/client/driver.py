"""Driver: the engine of a process in which a person works: a kernel, a script."""

from __future__ import annotations

from collections.abc import Callable

from workbench.client.base import ClientBase
from workbench.client.client import Client
from workbench.client.task_prints import TaskPrints
from workbench.config import NOTEBOOK_LINGER
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.engine.base import Running, SessionFacts
from workbench.engine.presentation import SessionPresentation
from workbench.engine.queries import NoteCell, Summary
from workbench.errors import SessionError
from workbench.system import data_limit

PATIENCE = 5.0
"""Seconds for which a driver that leaves waits for the end of the server that it started."""


class Driver(Client, SessionPresentation):
    """An `Engine`. It is its own `Role`, because a notebook sets the listener of both.

    ``base`` hasn't joined yet. ``linger``: seconds to keep the session after its last driver.
    ``reap`` waits for the end of the server; None if this process didn't start it.
    ``logs``: print here what tasks print, until a notebook shows it under its cells.
    ``namespace``: where it makes and looks up names of actors.
    """

    task = None  # the calling code isn't part of a task
    lending = None  # it has no slot

    def __init__(
        self,
        base: ClientBase,
        linger: float,
        reap: Callable[[float], None] | None,
        logs: bool = True,
        namespace: str = "",
    ) -> None:
        joined = reap is None
        self.namespace = namespace
        self.facts = SessionFacts("local", joined, not joined, logs)
        self._prints = TaskPrints(base.objects.values.__contains__)
        self.listener = self._prints.listener(logs)
        self._is_final = False
        self._linger = linger
        self._reap = reap
        super().__init__(base, self)
        self.answers = {**self.answers, NoteCell: lambda *note: self._tell(ev.CellNote(*note))}
        self.abandon = self._abandon
        self.leave: Callable[[], None] = self.close
        base.handlers |= {
            ev.Output: self._output,
            do.Began: lambda message: self.listener.began(message.job, message.worker),
            do.JobComplete: self._completed,
        }
        base.at_end.append(lambda reason: data_limit.restore())
        base.join()
        if joined:  # its workers may have imported modules that were edited since
            self.refresh()

    def here(self) -> Running:
        return Running(namespace=self.namespace)

    @property
    def address(self) -> str:
        return self.session

    def keep(self, linger: float | None, final: bool = False) -> None:
        if linger is not None:
            self.connection.check_open()
            self.connection.send(ev.Keep(linger))
            self.connection.flush()
            self._linger = linger
        else:
            self._is_final = final and self._linger <= NOTEBOOK_LINGER
            self._base.say_bye(ev.Bye(lingers=True, final=self._is_final))

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
        """True if another driver keeps the session up, or the session lingers without drivers."""
        try:
            snapshot = self.ask(Summary())
        except SessionError:
            return False
        drivers = sum(client.role == "driver" for client in snapshot.clients)
        return drivers > 1 or (snapshot.linger > 0 and not goodbye)

    # -- the reading thread -----------------------------------------------------------------------

    def _output(self, message: ev.Output) -> None:
        self.listener.show(message)

    def _completed(self, message: do.JobComplete) -> None:
        results = self.granted(message.results)
        self.listener.completed(message.job, message.size, results)
