"""What is left of a child that has died: what it showed and hadn't sent. Its worker makes it and
reads it; the child has the descriptors."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence

from workbench.host.fd_capture import FdCapture
from workbench.host.unsent import Piece, Unsent

LAST_WORDS = 2000
"""Bytes of what a child wrote to stderr past Python that the error tells."""


class ChildRemains:
    """Of one child. ``received``: the descriptors of another process's, ours from here."""

    def __init__(self, received: Sequence[int] = (-1, -1, -1, -1)) -> None:
        out, err, unsent, notes = received
        if notes < 0:
            notes = os.memfd_create("notes-of-a-child", os.MFD_CLOEXEC)
            os.ftruncate(notes, 3 * mmap.PAGESIZE)
        maps = [mmap.mmap(notes, mmap.PAGESIZE, offset=n * mmap.PAGESIZE) for n in range(3)]
        self.captures = FdCapture(out, maps[0]), FdCapture(err, maps[1])
        """Where descriptors 1 and 2 lead."""
        self.unsent = Unsent(unsent, maps[2])
        self.descriptors = [*(p.fileno() for p in (*self.captures, self.unsent)), notes]

    def pieces(self, task: int) -> list[Piece]:
        """What was left; all that C code and programs wrote was the ``task``'s that ran."""
        unread = self.captures[0].unread()
        return [*self.unsent.read(), *([(task, "stdout", unread)] if unread else ())]

    def words(self, since: int) -> str:
        """What was written to descriptor 2 after that position: the end of it."""
        last = self.captures[1].last(since)[-LAST_WORDS:]
        return last.decode(errors="backslashreplace").strip()

    def close(self) -> None:
        for part in (*self.captures, self.unsent):
            part.close()
        os.close(self.descriptors[-1])
