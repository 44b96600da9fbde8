"""What is left of a process that has died: output that it hadn't sent, and its last stderr.

The process that made this reads it; the one that died, a worker or a child of one, wrote it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence

from workbench.host.fd_capture import FdCapture
from workbench.host.unsent import Piece, Unsent

LAST_WORDS = 2000
"""Bytes that the error quotes of what a process wrote to descriptor 2."""


class ShownRemains:
    """Remains of one process. Its descriptors 1 and 2 led to the ``captures``."""

    captures: tuple[FdCapture, FdCapture]
    unsent: Unsent

    def pieces(self, task: int) -> list[Piece]:
        """Return the unsent output; what C code and programs wrote is the running ``task``'s."""
        unread = self.captures[0].unread() if task else b""
        return [*self.unsent.read(), *([(task, "stdout", unread)] if unread else ())]

    def words(self, since: int) -> str:
        """Return what was written to descriptor 2 after that position: the beginning of a fault
        handler's report, else the end.

        The report begins with the innermost frame, and ends with a list of all extension modules.
        """
        heard = self.captures[1].last(since)
        start = heard.rfind(b"Fatal Python error: ")
        if start < 0:
            told = heard[-LAST_WORDS:]
        else:
            told = heard[start:].partition(b"\n\nExtension modules: ")[0][:LAST_WORDS]
        return told.decode(errors="backslashreplace").strip()

    def close(self) -> None:
        for part in (*self.captures, self.unsent):
            part.close()


class ChildRemains(ShownRemains):
    """Remains of one child. ``received``: descriptors from another process, now ours."""

    def __init__(self, received: Sequence[int] = (-1, -1, -1, -1)) -> None:
        out, err, unsent, notes = received
        if notes < 0:
            notes = os.memfd_create("notes-of-a-child", os.MFD_CLOEXEC)
            os.ftruncate(notes, 3 * mmap.PAGESIZE)
        maps = [mmap.mmap(notes, mmap.PAGESIZE, offset=n * mmap.PAGESIZE) for n in range(3)]
        self.captures = FdCapture(out, maps[0]), FdCapture(err, maps[1])
        self.unsent = Unsent(unsent, maps[2])
        self.descriptors = [*(p.fileno() for p in (*self.captures, self.unsent)), notes]

    def close(self) -> None:
        super().close()
        os.close(self.descriptors[-1])
