"""What is left of a child that has died: what it showed and hadn't sent. The child makes it; its
worker, which has the descriptors, reads it then."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence

from workbench.host.fd_capture import FdCapture
from workbench.host.unsent import Piece, Unsent


class ChildRemains:
    """Of one child. ``received``: the descriptors of another process's, ours from here."""

    def __init__(self, received: Sequence[int] = ()) -> None:
        page = mmap.PAGESIZE
        if received:
            out, err, unsent, self._notes = received
        else:
            out = err = unsent = -1
            self._notes = os.memfd_create("notes-of-a-child", os.MFD_CLOEXEC)
            os.ftruncate(self._notes, 3 * page)
        maps = [mmap.mmap(self._notes, page, offset=number * page) for number in range(3)]
        self.captures = FdCapture(out, maps[0]), FdCapture(err, maps[1])
        """Where descriptors 1 and 2 lead."""
        self.unsent = Unsent(unsent, maps[2])

    def descriptors(self) -> list[int]:
        """What its worker needs."""
        return [*(each.fileno() for each in (*self.captures, self.unsent)), self._notes]

    def pieces(self, task: int) -> list[Piece]:
        """What was left; of what C code and programs wrote nobody knows more than that it was
        ``task`` that ran (0: none, and it is dropped)."""
        found = list(self.unsent.read())
        if task and (unread := self.captures[0].unread()):
            found.append((task, "stdout", unread))
        return found

    def words(self, since: int) -> bytes:
        """What was written to descriptor 2 after that position."""
        return self.captures[1].last(since)

    def close(self) -> None:
        for each in (*self.captures, self.unsent):
            each.close()
        os.close(self._notes)
