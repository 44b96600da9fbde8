"""What a process has shown and not sent yet: a file in memory that another process can still read
when this one was killed, or crashed, right after a print.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from collections.abc import Iterable, Iterator

MOST = 64 << 10  # bytes that are kept: of a flood the latest

Piece = tuple[int, str, bytes]
"""The task that showed it, of what kind it is, and its content."""

Mark = tuple[int, int]
"""A place in the file: how often it had been emptied, and bytes since then."""

_HEAD = struct.Struct("QHI")  # the task, and the sizes of the other two
_NUMBER = struct.Struct("q")


class Unsent:
    """The file. Any thread of the process that shows may add to it; whoever made it reads it.

    ``file`` and ``sent``: of one that another process made, or where such a process looks.
    """

    def __init__(self, file: int = -1, sent: mmap.mmap | None = None) -> None:
        self._read_fd = os.memfd_create("unsent-output", os.MFD_CLOEXEC) if file < 0 else file
        self._write_fd = -1
        # Up to where it was sent. Noted right before the sending: what was shown is not shown
        # twice. Without a system call, so that no other thread runs between the two: who is
        # killed there loses what was to be sent.
        self._sent = mmap.mmap(-1, _NUMBER.size) if sent is None else sent
        self._written = 0  # bytes, about: threads
        self._emptied = 0

    def fileno(self) -> int:
        return self._read_fd

    def open(self) -> None:
        """In the process that shows."""
        appends = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        self._write_fd = os.open(f"/proc/self/fd/{self._read_fd}", appends)

    def add(self, task: int, kind: str, data: bytes) -> None:
        """Keep it until it is sent.

        One system call: threads and interrupts can't tear it. Where no memory is left for it, it
        isn't kept: a print doesn't fail for that.
        """
        if self._written > MOST:
            self._empty()
        sort, data = kind.encode(), data[-MOST:]
        with contextlib.suppress(OSError):
            head = _HEAD.pack(task, len(sort), len(data))
            self._written += os.write(self._write_fd, head + sort + data)

    def mark(self) -> Mark:
        """Where it ends now."""
        emptied = self._emptied
        return emptied, self._size()

    def sends(self, mark: Mark, waiting: Iterable[Piece]) -> None:
        """What was there at the ``mark`` is about to be sent, but for what goes on ``waiting``."""
        for piece in waiting:
            self.add(*piece)
        if mark[0] == self._emptied:  # else it has gone: a flood
            _NUMBER.pack_into(self._sent, 0, mark[1])

    def tidy(self) -> None:
        """All that could be sent has been: give back the room."""
        if self._written > MOST // 4 and self._size() == _NUMBER.unpack_from(self._sent)[0]:
            self._empty()

    def _size(self) -> int:
        return os.fstat(self._read_fd).st_size

    def _empty(self) -> None:
        self._emptied += 1
        os.ftruncate(self._read_fd, 0)  # first: the other way round it would be unsent again
        _NUMBER.pack_into(self._sent, 0, 0)
        self._written = 0

    def read(self) -> Iterator[Piece]:
        """What is there, in its order. A last one that found no memory, not."""
        data = os.pread(self._read_fd, self._size(), 0)
        (at,) = _NUMBER.unpack_from(self._sent)
        while (start := at + _HEAD.size) <= len(data):
            task, kind, size = _HEAD.unpack_from(data, at)
            middle, at = start + kind, start + kind + size
            if at <= len(data):
                yield task, data[start:middle].decode(), data[middle:at]

    def close(self) -> None:
        os.close(self._read_fd)
        self._sent.close()
        if self._write_fd >= 0:
            os.close(self._write_fd)
