"""Output that a process has shown and not sent yet: a file in memory that another process can read
if this one is killed or crashes right after a print.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from collections.abc import Iterable, Iterator

MOST = 64 << 10  # bytes that are kept; the latest ones in a flood

Piece = tuple[int, str, bytes]
"""Task, kind and content of one output."""

Mark = tuple[int, int]
"""A place in the file: how often it was emptied before, and bytes since then."""

_HEAD = struct.Struct("QHI")  # the task, and the sizes of the other two
_NUMBER = struct.Struct("q")


class Unsent:
    """The file. Any thread of the process that shows may add to it; its maker reads it.

    ``file`` and ``sent``: those of a file that is shared with another process.
    """

    def __init__(self, file: int = -1, sent: mmap.mmap | None = None) -> None:
        self._read_fd = os.memfd_create("unsent-output", os.MFD_CLOEXEC) if file < 0 else file
        self._write_fd = -1
        # Place up to which it was sent. Noted right before the sending, so that nothing is shown
        # twice. Without a system call, so that no other thread runs between the two: a process
        # killed there loses what it was about to send.
        self._sent = mmap.mmap(-1, _NUMBER.size) if sent is None else sent
        self._written = 0  # bytes, roughly: several threads count
        self._emptied = 0

    def fileno(self) -> int:
        return self._read_fd

    def open(self) -> None:
        """Open the file for writing, in the process that shows."""
        appends = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        self._write_fd = os.open(f"/proc/self/fd/{self._read_fd}", appends)

    def add(self, task: int, kind: str, data: bytes) -> None:
        """Keep an output until it is sent.

        One system call: threads and interrupts can't tear it. If there is no memory for it, it
        isn't kept, so that a print doesn't fail.
        """
        if self._written > MOST:
            self._empty()
        sort, data = kind.encode(), data[-MOST:]
        with contextlib.suppress(OSError):
            head = _HEAD.pack(task, len(sort), len(data))
            self._written += os.write(self._write_fd, head + sort + data)

    def mark(self) -> Mark:
        emptied = self._emptied
        return emptied, self._size()

    def mark_sent(self, mark: Mark, waiting: Iterable[Piece]) -> None:
        """Note that all up to the ``mark`` is about to be sent, except what goes on ``waiting``."""
        for piece in waiting:
            self.add(*piece)
        if mark[0] == self._emptied:  # else emptied since: a flood
            _NUMBER.pack_into(self._sent, 0, mark[1])

    def tidy(self) -> None:
        if self._written > MOST // 4 and self._size() == _NUMBER.unpack_from(self._sent)[0]:
            self._empty()

    def _size(self) -> int:
        return os.fstat(self._read_fd).st_size

    def _empty(self) -> None:
        self._emptied += 1
        os.ftruncate(self._read_fd, 0)  # first: the other way round it would count as unsent again
        _NUMBER.pack_into(self._sent, 0, 0)
        self._written = 0

    def read(self) -> Iterator[Piece]:
        """Yield the kept outputs in order, without a last one that is incomplete."""
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
