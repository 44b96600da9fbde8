"""A page on which a process notes which cell it runs, for others to read, after its end too: wakes
nobody, and takes a microsecond."""

from __future__ import annotations

import mmap
import os
import struct
import time
from contextlib import suppress

_NOTE = struct.Struct("q?qqd")


class CellNotes:
    """The page, for the process that writes it. Others open its ``descriptor`` to `read` it."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("workbench-cell", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, mmap.PAGESIZE)
        self._page = mmap.mmap(self.descriptor, mmap.PAGESIZE)

    def write(self, cell: int, runs: bool, line: int, memory: int) -> None:
        """Replace the note. Any thread."""
        with suppress(ValueError):  # it is closed
            _NOTE.pack_into(self._page, 0, cell, runs, line, memory, time.monotonic())

    def close(self) -> None:
        if not self._page.closed:
            self._page.close()
            os.close(self.descriptor)


def read(descriptor: int) -> tuple[int, bool, int, int, float]:
    """Return the last note, as it was written, and how many seconds ago that was; zeros if none."""
    try:
        *note, at = _NOTE.unpack(os.pread(descriptor, _NOTE.size, 0))
    except (OSError, struct.error):  # not such a page: a client says where its page is
        return 0, False, 0, 0, 0.0
    return *note, time.monotonic() - at
