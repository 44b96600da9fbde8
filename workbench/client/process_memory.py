"""One process's part in a session's memory: its arena, other processes' segments, views of both.

No objects: which of them lies where is known to `client.objects`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.client.arena_writer import ArenaWriter
from workbench.client.connection import Connection
from workbench.client.gate import OpenSocket
from workbench.client.requests import Requests
from workbench.client.shared_segments import SharedSegments
from workbench.core import instructions as do
from workbench.memory.views import Views
from workbench.system.spare_descriptors import SpareDescriptors

SPARES = 8
"""Descriptors kept for when there are no others: this process's own segment takes five, and one of
another's two."""


class ProcessMemory:
    """See the module.

    Parameters
    ----------
    next_id : callable() → int
        Numbers the segment that this process makes.
    threads : int
        Threads for large copies.
    huge : bool
        Whether to ask for huge pages.

    Attributes
    ----------
    views : Views
    arena : ArenaWriter
    segments : SharedSegments
    """

    def __init__(
        self,
        connection: Connection,
        requests: Requests,
        next_id: Callable[[], int],
        threads: int,
        huge: bool,
    ) -> None:
        ask = requests.ask
        self._requests = requests
        self._spares = spares = SpareDescriptors(SPARES)
        self.views = views = Views(connection.put, connection.wake_from_finalizer)
        self.segments = SharedSegments(views, ask, connection.wait_for, spares)
        self.arena = ArenaWriter(connection.send, ask, views, next_id, spares, threads, huge)

    def handlers(self) -> dict[type, Callable[[Any], object]]:
        """What handles the messages about memory; for whichever thread reads the socket."""
        return {
            do.Shared: self.segments.shared,
            do.Unshare: lambda message: self.views.unmap(message.segment),
            do.Release: self.arena.released,
            do.Trim: self.arena.trim,
            do.Reopen: self.arena.reopen,
            do.Granted: self._granted,
        }

    def _granted(self, message: do.Granted) -> None:
        self.arena.granted(message)
        self._requests.answer(message.request, message)

    def abandon(self) -> None:
        """In a forked child: views stay valid, all else is the parent's."""
        self.arena.abandon()
        self._spares.close()

    def close(self, line: OpenSocket | None) -> None:
        """Let go of the arena. What arrays show is theirs until they die.

        Parameters
        ----------
        line : OpenSocket or None
            The connection, if arrays show anything: it lives as long as they do, so that the
            server sees by its end that they are gone.
        """
        self.arena.close()
        self._spares.close()
        self.views.close(line)
