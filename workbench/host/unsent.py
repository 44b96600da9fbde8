"""What a process has shown and not sent yet: a file in memory that another process can still read
when this one was killed, or crashed, right after a print.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterable, Iterator

MOST = 64 << 10  # bytes that are kept: of a flood the latest

Piece = tuple[int, str, bytes]
"""The task that showed it, of what kind it is, and its content."""

_HEAD = struct.Struct("QHI")  # the task, and the sizes of the other two


class Unsent:
    """The file. Any thread of the process that shows may add to it; whoever made it reads it."""

    def __init__(self) -> None:
        self._read_fd = os.memfd_create("unsent-output", os.MFD_CLOEXEC)
        self._write_fd = -1
        self._size = 0

    def open(self) -> None:
        """In the process that shows."""
        appends = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        self._write_fd = os.open(f"/proc/self/fd/{self._read_fd}", appends)

    def add(self, task: int, kind: str, data: bytes) -> None:
        """Keep it until `replace`.

        One system call: threads and interrupts can't tear it. Where no memory is left for it, it
        isn't kept: a print doesn't fail for that.
        """
        if self._size > MOST:
            self.replace(())
        sort, data = kind.encode(), data[-MOST:]
        with contextlib.suppress(OSError):
            head = _HEAD.pack(task, len(sort), len(data))
            self._size += os.write(self._write_fd, head + sort + data)

    def replace(self, waiting: Iterable[Piece]) -> None:
        """All was sent but these."""
        if self._size:
            os.ftruncate(self._read_fd, 0)
            self._size = 0
        for piece in waiting:
            self.add(*piece)

    def read(self) -> Iterator[Piece]:
        """What is there, in its order. A last one that found no memory, not."""
        data = os.pread(self._read_fd, os.fstat(self._read_fd).st_size, 0)
        at = 0
        while (start := at + _HEAD.size) <= len(data):
            task, kind, size = _HEAD.unpack_from(data, at)
            middle, at = start + kind, start + kind + size
            if at <= len(data):
                yield task, data[start:middle].decode(), data[middle:at]

    def close(self) -> None:
        os.close(self._read_fd)
        if self._write_fd >= 0:
            os.close(self._write_fd)
