"""What outlives a worker's process, for the forkserver to tell: its task, what it showed last.

Made before the fork. The worker writes; the forkserver reads, once that one is dead.
"""

from __future__ import annotations

import contextlib
import mmap
import struct
from functools import partial
from typing import TypeVar

from workbench.core.loop_events import WorkerExited
from workbench.host.fd_capture import FdCapture
from workbench.host.unsent import Unsent

LAST_WORDS = 2000
"""Bytes of what a worker writes to stderr past Python that the error tells, should it die."""

_NUMBER = struct.Struct("q")
_NOTE = struct.Struct("qq")

Part = TypeVar("Part", FdCapture, Unsent)


class Remains:
    """Of one worker. OSError, and nothing is left of it, if a part of it can't be had."""

    def __init__(self) -> None:
        with contextlib.ExitStack() as made:

            def take(part: Part) -> Part:
                made.callback(part.close)
                return part

            self.captures = take(FdCapture()), take(FdCapture())
            """Where descriptors 1 and 2 lead."""
            self.unsent = take(Unsent())
            note = mmap.mmap(-1, _NOTE.size)
            made.pop_all()
        self._note = note
        self.begins = partial(_NUMBER.pack_into, note, 0)
        """To be called with each task that the worker begins."""
        self.mark = partial(_NUMBER.pack_into, note, _NUMBER.size)
        """To be called with the position in the second capture at which a task ended."""

    def told(self, worker: int, status: int) -> WorkerExited:
        """How the worker ended, and what it left."""
        running, ended = _NOTE.unpack(self._note)
        out, err = self.captures
        words = _told(err.last(since=ended)).decode(errors="backslashreplace").strip()
        shown = list(self.unsent.read())
        if running and (unread := out.unread()):
            shown.append((running, "stdout", unread))
        return WorkerExited(worker, status, words, running, unsent=tuple(shown))

    def close(self) -> None:
        for part in (*self.captures, self.unsent):
            part.close()


def _told(heard: bytes) -> bytes:
    """What of it to tell: of a fault handler's report the beginning, of all else the end.

    The report begins with the innermost frame, and ends with a list of all extension modules.
    """
    start = heard.rfind(b"Fatal Python error: ")
    if start < 0:
        return heard[-LAST_WORDS:]
    return heard[start:].partition(b"\n\nExtension modules: ")[0][:LAST_WORDS]
