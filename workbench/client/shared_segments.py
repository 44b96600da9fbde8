"""Other processes' segments: mapped when their descriptors come, or requested again when needed.

A process that is out of descriptors at that moment loses only the descriptor that was sent: the
session goes on, and reading an object of that segment requests it again.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.errors import LimitError, ObjectLostError
from workbench.memory.views import Views
from workbench.system import limits
from workbench.system.spare_descriptors import SpareDescriptors
from workbench.wire.buffers import Parcel

PATIENCE = 5.0
"""Seconds for which a segment is requested again if the server has no descriptor of it yet."""

RETRY = 0.05
"""Seconds between two requests."""


class SharedSegments:
    """Maps segments. ``spares`` are lent to `need` when there are no other descriptors."""

    def __init__(
        self,
        views: Views,
        ask: Callable[[Callable[[int], Any]], Any],
        wait: Callable[[Callable[[], bool], float], bool],
        spares: SpareDescriptors,
    ) -> None:
        self._views = views
        self._ask = ask
        self._wait = wait
        self._spares = spares
        self._why = errno.EMFILE  # errno of the last failed mapping

    def shared(self, parcel: Parcel) -> None:
        """Map a segment whose descriptor came, or was lost. In the thread that reads the socket."""
        message: do.Shared = parcel.message
        if not parcel.fds:
            self._why = errno.EMFILE
            return
        (fd,) = parcel.fds
        try:
            self._views.map(message.segment, fd, message.size)
        except OSError as error:
            self._why = error.errno or 0

    def need(self, segment: int) -> None:
        """Map the segment, if the server still shares it. Any thread may call. ObjectLostError if
        the server doesn't: what was there has moved. LimitError if this process or the
        server may have no other descriptor, or this process no more address space."""
        mapped = partial(self._views.is_mapped, segment)
        deadline = time.monotonic() + PATIENCE
        while not mapped():
            with self._spares.lent():
                self._why = 0
                answer = self._ask(partial(ev.Reshare, segment=segment))
            if mapped():
                return
            if answer.text:
                raise ObjectLostError(answer.text)
            if self._why:
                with limits.explained(LimitError, "The object's memory can't be mapped here"):
                    raise OSError(self._why, "the object's memory can't be mapped here")
            if time.monotonic() > deadline:
                raise LimitError(
                    "The session's server has no descriptor of this object's memory: it can open "
                    "no more files (`ulimit -n`), or the process that made it ended before it "
                    "could send one. Try again, or make the object again."
                )
            self._wait(mapped, RETRY)  # the server waits for its maker
