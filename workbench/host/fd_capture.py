"""Capture of file descriptors 1 and 2, for what C code and programs write: files in memory.

The forkserver makes the files before it forks, so that it can read what a dead worker wrote last
and didn't read. Unlike a pipe, a file never blocks its writer: the writer may be C code that holds
the GIL, and the reader is a thread of the same process.
"""

from __future__ import annotations

import mmap
import os
import struct

from workbench.host.text_cuts import whole
from workbench.system.fallocate import punch

KEPT = 64 << 10
"""Bytes kept in the file after they were read: the fault handler's report is long."""

MOST = 8 << 20  # last bytes that one `read` returns; it skips the middle of older ones
HOLE = 1 << 20  # bytes to punch out of the file at once, after they were read

_NUMBER = struct.Struct("q")


class FdCapture:
    """The file that captures one descriptor. One thread at a time reads it; anybody appends.

    ``file`` and ``noted``: those of a capture that is shared with another process.
    """

    def __init__(self, file: int = -1, noted: mmap.mmap | None = None) -> None:
        self._file = os.memfd_create("output-of-a-worker", os.MFD_CLOEXEC) if file < 0 else file
        self.position = 0
        """Position up to which this process has read it."""
        # The same, for the process that forked this one.
        self._noted = mmap.mmap(-1, _NUMBER.size) if noted is None else noted
        self._hole = 0

    def divert(self, fd: int) -> None:
        # Opened anew: to append, and because inotify on a memfd doesn't report what is written
        # through its first descriptor (Linux 6.14).
        writable = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.dup2(writable, fd)
        os.close(writable)

    def fileno(self) -> int:
        return self._file

    @property
    def path(self) -> str:
        return f"/proc/self/fd/{self._file}"

    def has_news(self) -> bool:
        """True if there is something to read. One system call, the cheapest possible."""
        return os.lseek(self._file, 0, os.SEEK_END) != self.position

    def size(self) -> int:
        """Return how many bytes were written, unless somebody has truncated the file."""
        return os.lseek(self._file, 0, os.SEEK_END)

    def read(self, size: int, final: bool) -> tuple[bytes, int, bytes]:
        """Return new bytes up to ``size``: the first lines, the number of skipped bytes, the rest.

        Only if there is too much, there are first lines and skipped bytes. Unless ``final``, an
        incomplete character at the end stays until its other bytes come.
        """
        if size < self.position:  # truncated: `program > /dev/stderr` does that
            self.position = self._hole = 0
        start, first = self.position, b""
        if size - start > MOST + KEPT:
            first = os.pread(self._file, KEPT, start)
            first = first[: first.rfind(b"\n") + 1]
            start = size - MOST
        data = os.pread(self._file, size - start, start)
        if not final:
            data = data[: whole(data)]
        left_out = start - self.position - len(first)
        self.position = start + len(data)
        _NUMBER.pack_into(self._noted, 0, self.position)
        if self.position - KEPT - self._hole > HOLE:
            punch(self._file, self._hole, self.position - KEPT - self._hole)
            self._hole = self.position - KEPT
        return first, left_out, data

    def unread(self) -> bytes:
        """Return the end of what the forked process, now dead, hadn't read."""
        return self.last(_NUMBER.unpack_from(self._noted)[0])

    def last(self, since: int) -> bytes:
        """Return the end of what was written after position ``since``."""
        size = self.size()
        start = max(since if since <= size else 0, size - KEPT)
        return os.pread(self._file, size - start, start).lstrip(b"\0")

    def close(self) -> None:
        """Close our descriptor; a diverted one still leads to the file."""
        os.close(self._file)
        self._noted.close()
