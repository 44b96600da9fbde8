"""Tells which pages of its memory this process has written to, without reading them.

Where Linux can tell (userfaultfd's asynchronous write protection and PAGEMAP_SCAN, from 6.7 on, if
the container allows both): exact to the page, some 20 µs for a gigabyte. Knows no objects. What a
device writes to pages that it has pinned (a GPU, O_DIRECT in another thread) isn't seen.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import platform
import select
import struct
import threading
from bisect import bisect_right
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from workbench.system.ki_protection import ki_protection

_USERFAULTFD = {"x86_64": 323, "aarch64": 282}
"""Number of the system call by machine."""

MOST = 4096  # written ranges that a mark remembers; with more, it counts as written everywhere

_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK | 1  # faults in user mode only: needs no privilege
_WP_ASYNC, _WP_UNPOPULATED = 1 << 15, 1 << 13
_API, _REGISTER, _WRITE_PROTECT, _SCAN = 0xC018AA3F, 0xC020AA00, 0xC018AA06, 0xC0606610
_PROTECT, _MUST_WATCH = 1, 2
_KINDS = 8, 0, 2 | 8, 2 | 8
"""Pages that were written (2), or not present (8): these may have been dropped, and be zeros."""
_IS_WRITTEN, _WRITTEN = 2, (0, 0, 2, 2)
_NUMBERS, _RANGES = struct.Struct("12Q"), 512  # in and out: so many ranges at once


class Mark:
    """The whole pages of a range of addresses, as they were at one moment.

    If the addresses are used for something else, that writes to them, or maps them anew, and then
    all count as written. ``written``: ranges that were written before others marked them, too.
    """

    def __init__(self, watch: _PageWatch, begin: int, end: int) -> None:
        self.watch, self.begin, self.end = watch, begin, end
        self.as_file = False  # a page that isn't present is read from the file: as it was
        self.written: list[tuple[int, int]] = []

    def note(self, begin: int, end: int) -> None:
        self.written.append((max(begin, self.begin), min(end, self.end)))
        if len(self.written) > MOST:
            self.written = [(self.begin, self.end)]

    def is_written(self) -> bool:
        """True if a page was written since it was marked, or if nobody can tell. Any thread."""
        return self.watch.is_written(self)


def mark(begin: int, length: int, sealed: bool = False, as_file: bool = False) -> Mark | None:
    """Watch the whole pages of a range from now on. Any thread.

    None if that is impossible, or another process may write there; ``sealed``: nobody writes to the
    file that the memory may be of; ``as_file``: the memory has that file's bytes now. A write to a
    watched page takes the kernel a fault, once until the next mark: a cell that writes a whole
    array takes up to three times as long for it.
    """
    page, process = mmap.PAGESIZE, os.getpid()
    first, end = -(-begin // page) * page, (begin + length) // page * page
    watch = _shared.get(process) or _shared.setdefault(process, _PageWatch())
    made = watch.mark(first, end, sealed) if first < end else None
    if made is not None:
        made.as_file = as_file
    return made


class _PageWatch:
    """All marks of one process: Linux forgets at each what was written before, so others are told.

    It lives as long as its marks, and has two descriptors.
    """

    def __init__(self) -> None:
        self._process, self._lock = os.getpid(), threading.Lock()
        self._marks: WeakSet[Mark] = WeakSet()
        self._pages: Any = None  # an `epoll`, a type that closes any descriptor, in C
        fault = ctypes.pythonapi.syscall(_USERFAULTFD.get(platform.machine(), -1), _FLAGS)
        if fault >= 0:
            self._fault = select.epoll.fromfd(fault)
            with contextlib.suppress(OSError):
                fcntl.ioctl(fault, _API, struct.pack("3Q", 0xAA, _WP_ASYNC | _WP_UNPOPULATED, 0))
                pages = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
                self._pages = select.epoll.fromfd(pages)

    def mark(self, begin: int, end: int, sealed: bool) -> Mark | None:
        if self._pages is None:
            return None
        with ki_protection(), self._lock:
            others = [mark for mark in self._marks if mark.begin < end and begin < mark.end]
            try:
                for first, last, kinds in self._scan(begin, end, _PROTECT):
                    for other in others:
                        counts = kinds & _IS_WRITTEN or not other.as_file
                        if counts and first < other.end and other.begin < last:
                            other.note(first, last)
            except (OSError, MemoryError):  # not wholly watched: it may have been mapped anew
                for other in others:
                    other.note(other.begin, other.end)
                if not self._begin(begin, end, sealed):
                    return None
            made = Mark(self, begin, end)
            self._marks.add(made)
            return made

    def _begin(self, begin: int, end: int, sealed: bool) -> bool:
        with contextlib.suppress(OSError):
            if _is_private(begin, end, sealed):
                fcntl.ioctl(self._fault, _REGISTER, struct.pack("4Q", begin, end - begin, 2, 0))
                fcntl.ioctl(self._fault, _WRITE_PROTECT, struct.pack("3Q", begin, end - begin, 1))
                return True
        return False

    def is_written(self, mark: Mark) -> bool:
        if os.getpid() == self._process:
            with self._lock, contextlib.suppress(OSError):  # no other mark is being made
                return bool(mark.written or self._scan(mark.begin, mark.end, 0, mark.as_file))
        return True

    def _scan(
        self, begin: int, end: int, flags: int = 0, as_file: bool = False
    ) -> list[tuple[int, int, int]]:
        """Return ranges that were written, or unless ``as_file`` aren't present, and which of the
        two; with _PROTECT all of them, which are protected again."""
        found, ranges = (ctypes.c_uint64 * (3 * _RANGES))(), list[Any]()
        while begin < end and (flags or not ranges):
            numbers = flags | _MUST_WATCH, begin, end, 0, ctypes.addressof(found), _RANGES, 0
            kinds = _WRITTEN if as_file else _KINDS
            request = bytearray(_NUMBERS.pack(_NUMBERS.size, *numbers, *kinds))
            count = fcntl.ioctl(self._pages, _SCAN, request)
            ranges += [tuple(found[3 * i : 3 * i + 3]) for i in range(count)]
            begin = _NUMBERS.unpack(request)[4]
        return ranges


_shared: WeakValueDictionary[int, _PageWatch] = WeakValueDictionary()  # by process: one is alive


def _is_private(begin: int, end: int, sealed: bool) -> bool:
    """True if no other process can write to a range of addresses."""
    with open("/proc/self/maps", "rb") as file:
        lines = file.read().splitlines()
    place = bisect_right(lines, begin, key=lambda line: int(line.partition(b"-")[0], 16))
    for line in lines[max(place - 1, 0) :]:
        addresses, access, _, _, inode = line.split(None, 5)[:5]
        first, last = (int(each, 16) for each in addresses.split(b"-"))
        if first > begin or access[3:] != b"p" or (inode != b"0" and not sealed):
            return False
        if last >= end:
            return True
        begin = last
    return False
