"""Where descriptors 1 and 2 of a worker lead: files in memory. What C code and programs write.

The nursery makes them before it forks, so that it can read a dead worker's last words. Unlike a
pipe, a file never makes its writer wait: that may be C code that holds the interpreter's lock,
and it is the worker itself that reads.
"""

from __future__ import annotations

import os

from workbench.host.texts import whole
from workbench.memory.segment import punch

HEARD = 64 << 10
"""Bytes of the latest that are kept after they were read: the fault handler's report is long."""

MOST = 8 << 20
"""Bytes that are read at a time. What is more was written faster than anybody could show it."""

HOLE = 1 << 20
"""Bytes, read and not needed any more, that are given back to the machine together."""


class FdCapture:
    """One of the two files. One thread at a time reads it; writers append, and are anybody."""

    def __init__(self) -> None:
        self._file = os.memfd_create("output-of-a-worker", os.MFD_CLOEXEC)
        self.position = 0
        """Up to here it was read."""
        self._hole = 0

    def divert(self, fd: int) -> None:
        """From now on what is written to ``fd`` goes here."""
        # Opened anew: to append, and because who watches a memfd isn't told of what is written
        # through its first descriptor (Linux 6.14).
        writable = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.dup2(writable, fd)
        os.close(writable)

    @property
    def path(self) -> str:
        """A name for it in this process."""
        return f"/proc/self/fd/{self._file}"

    def has_news(self) -> bool:
        """Whether there is something to read. One system call, the cheapest that tells."""
        return self.size() != self.position

    def size(self) -> int:
        """How much was written, unless somebody has truncated it."""
        return os.lseek(self._file, 0, os.SEEK_END)

    def read(self, size: int, final: bool) -> tuple[int, bytes]:
        """How many bytes of what is new were skipped, and those that come after, up to a size.

        Unless this is ``final``, the first bytes of a character stay until the others come.
        """
        if size < self.position:  # truncated: `program > /dev/stderr` does that
            self.position = self._hole = 0
        start = max(self.position, size - MOST)
        data = os.pread(self._file, size - start, start)
        if not final:
            data = data[: whole(data)]
        skipped, self.position = start - self.position, start + len(data)
        if self.position - HEARD - self._hole > HOLE:
            punch(self._file, self._hole, self.position - HEARD - self._hole)
            self._hole = self.position - HEARD
        return skipped, data

    def last(self, since: int) -> bytes:
        """The end of what was written after ``since``."""
        size = os.lseek(self._file, 0, os.SEEK_END)
        start = max(since if since <= size else 0, size - HEARD)
        return os.pread(self._file, size - start, start).lstrip(b"\0")

    def close(self) -> None:
        """Let go of the file; what was diverted still goes there."""
        os.close(self._file)
