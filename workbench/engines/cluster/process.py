"""What one process of a session on a cluster has and knows, on which its `engine` stands.

That is built in layers, a file each: `store`, `call_packing`, `tasks`, `engine`. Any thread may
call them.
"""

from __future__ import annotations

import itertools
import secrets
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from workbench import context
from workbench.call_site import call_site
from workbench.client.task_prints import TaskPrints
from workbench.core.events import ID_BITS, Output
from workbench.engine.queries import Answering
from workbench.engines.cluster.backend import Backend, Head, Message, Native
from workbench.engines.cluster.entries import (
    FAILED,
    READY,
    UNKNOWN,
    Entries,
    KnownObject,
    of_object,
)
from workbench.engines.cluster.parcels import Packer
from workbench.errors import ObjectFreedError, SessionError, WorkbenchError
from workbench.ref import ObjectRef

if TYPE_CHECKING:
    from workbench.engines.cluster.hosting import Hosting


class ClusterProcess(Answering):
    """See the module. ``hosting`` runs tasks here, in a process of the cluster's; None: a driver.

    ``prefix`` is that of the ids that are made here; ``unfinished`` are tasks that were submitted
    here and aren't over. ``logs``: what they print is printed here, until a notebook shows it under
    its cells.
    """

    def __init__(self, backend: Backend, logs: bool = True) -> None:
        self.backend = backend
        self.can = backend.can
        self.session = backend.session
        self.mimebundle: Callable[[object], dict[str, str]] = context.mimebundle
        self.hosting: Hosting | None = None
        self.prefix = prefix = secrets.randbits(31) | 1 << 30
        self.next_id = itertools.count((prefix << ID_BITS) + 1).__next__
        side = "on the worker" if backend.blocks else "in this process"
        self.packer = Packer(self.session, prefix, self.native, side)
        self.entries = Entries(self, self._watched)
        self.unfinished: dict[int, Head] = {}
        self.prints = TaskPrints(lambda task: task not in self.unfinished)
        self.listener = self.prints.listener(logs)

    @property
    def end_reason(self) -> str | None:
        return self.entries.end_reason or self.backend.end_reason

    def check_open(self) -> None:
        if self.end_reason is not None:
            raise SessionError(self.end_reason)

    def place(self) -> tuple[int, int]:
        """Where what a task shows goes that is submitted now: whose screen, under which cell."""
        if self.hosting is None:
            return self.prefix, self.listener.origin()
        run = self.hosting.work.current or self.hosting.work.latest
        return (0, 0) if run is None else (run.audience, run.origin)

    def show(self, message: Message) -> None:
        try:
            self.listener.output(
                Output(message.task, message.kind, message.data, message.origin, message.worker)
            )
        except Exception:  # what shows output must not be able to end the channel
            traceback.print_exc(file=sys.__stderr__)

    def site(self) -> str:
        """Where in a person's code the call stands."""
        return call_site("" if self.hosting is None else self.hosting.work.name)

    # -- objects and what the system knows them by -----------------------------------------------

    def learn(self, ids: Sequence[int], natives: Sequence[Native]) -> list[ObjectRef]:
        """Handles of objects that came along with something."""
        new = self.entries.new
        return [new(id, native, UNKNOWN)[0] for id, native in zip(ids, natives, strict=True)]

    def native(self, ref: ObjectRef) -> Native:
        """What the system knows an object by; raises if it is none of the session's, or freed."""
        entry = self.entries.of(ref)
        if entry.native is None:
            raise why_gone(entry)
        return entry.native

    def _watched(self, entry: KnownObject) -> None:
        id = entry.id

        def ready(error: BaseException | None) -> None:
            known = error if isinstance(error, WorkbenchError) else None
            self.entries.settle(id, READY if error is None else FAILED, error=known)

        self.backend.on_ready(of_object(entry.native), ready)


def why_gone(entry: KnownObject) -> WorkbenchError:
    return entry.error or ObjectFreedError(f"Object {entry.id:016x} was freed.")
