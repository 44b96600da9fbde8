"""Segments: anonymous shared memory with a writable and a read-only descriptor. No allocator.

No numpy either, so that the server, which keeps every segment's descriptors, stays light.

A segment is sparse: its size is address space, and pages cost memory only once touched.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import tempfile
from dataclasses import dataclass

from workbench.system.sizes import PAGE

_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Linux's, which older Pythons don't name

_NAMELESS = getattr(os, "O_TMPFILE", 0) | os.O_RDWR | os.O_CLOEXEC
"""Flags to open a directory for a file without a name; an error where that isn't supported."""


@dataclass(frozen=True, slots=True)
class Descriptors:
    """A segment's two descriptors. Their owner closes them (:meth:`close`)."""

    writable: int
    readonly: int
    size: int

    def close(self) -> None:
        os.close(self.writable)
        os.close(self.readonly)


def create(size: int) -> Descriptors:
    """Make a segment in anonymous memory.

    memfd rather than /dev/shm: containers limit the latter to 64 MB, and a named file would remain
    if all processes were killed. Mapping the read-only descriptor writable fails with EACCES, so
    that readers can't break an object by accident.
    """
    writable = os.memfd_create("workbench", os.MFD_CLOEXEC)
    return _sized(writable, f"/proc/self/fd/{writable}", size)


def create_file(size: int, directory: str | None = None) -> Descriptors:
    """Make a segment in a file without a name, on disk."""
    try:  # it never has a name, so nothing remains after any kill
        writable = os.open(directory or tempfile.gettempdir(), _NAMELESS, 0o600)
    except OSError:  # not supported by this system, or this file system
        writable, path = tempfile.mkstemp(prefix="workbench-", dir=directory)
        try:
            return _sized(writable, path, size)
        finally:
            os.unlink(path)
    return _sized(writable, f"/proc/self/fd/{writable}", size)


def _sized(writable: int, path: str, size: int) -> Descriptors:
    try:
        os.ftruncate(writable, size)
        readonly = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except BaseException:
        os.close(writable)
        raise
    return Descriptors(writable, readonly, size)


class ReadOnly(mmap.mmap):
    """A whole segment, mapped read-only. ``keeps`` is kept alive as long as this.

    `private` maps it again for changes that only this process sees. `serialization.libraries`,
    which knows no segments, looks for a method of that name.
    """

    fd: int
    owner: select.epoll  # closes `fd`
    keeps: object = None

    def private(self, offset: int, length: int, keeps: object) -> tuple[mmap.mmap, int]:
        """Map a range of bytes whose pages are copied when they are written, and only then.

        Return the mapping, and where the range begins in it, because mappings begin with a page.
        ``keeps`` lives as long as the mapping: it keeps these bytes from being reused. OSError if
        the process may have no more descriptors or mappings.
        """
        start = offset % PAGE
        flags = mmap.MAP_PRIVATE | _NORESERVE  # it may be larger than memory
        mapping = PrivateView(
            self.fd, start + length, flags, mmap.PROT_READ | mmap.PROT_WRITE, offset=offset - start
        )
        mapping.keeps = keeps
        return mapping, start


class PrivateView(mmap.mmap):
    """Pages of a segment that this process may write to: each is copied at its first write."""

    keeps: object

    def written(self, address: int, length: int) -> list[tuple[int, int]]:
        """Return the pages of a range that may have been written, as (begin, end) in bytes.

        ``address`` is the range's in this process. If the kernel can't tell, return all of it.
        """
        first, last = address // PAGE, -(-(address + length) // PAGE)
        try:
            with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
                pagemap.seek(first * 8)
                entries = memoryview(pagemap.read((last - first) * 8)).cast("Q")
        except (OSError, TypeError):
            return [(0, length)]
        if len(entries) != last - first:
            return [(0, length)]
        # Bits 63 and 62: the page is present, or swapped out; 61: it is (still) the file's.
        runs: list[tuple[int, int]] = []
        if all(entry >> 61 not in (2, 4, 6) for entry in set(entries)):
            return runs
        for number, entry in enumerate(entries, first):
            if entry >> 61 in (2, 4, 6):
                begin, end = number * PAGE - address, (number + 1) * PAGE - address
                begin = runs.pop()[0] if runs and runs[-1][1] == begin else max(begin, 0)
                runs.append((begin, end))
        if runs:
            runs[-1] = runs[-1][0], min(runs[-1][1], length)
        return runs


def map_readonly(fd: int, size: int) -> ReadOnly:
    """Map the whole segment read-only. The mapping ends with the last array made from it.

    Of a truncated file map what is left (if nothing is, a page of zeros): only the objects that
    were cut off are lost, and mapping still works for the others.
    """
    size = min(size, os.fstat(fd).st_size)
    source = (fd, size) if size else (-1, PAGE)
    mapping = ReadOnly(*source, mmap.MAP_SHARED, mmap.PROT_READ)
    mapping.owner = owner_of(os.dup(fd))
    mapping.fd = mapping.owner.fileno()
    return mapping


def owner_of(fd: int) -> select.epoll:
    """Return an object that closes the descriptor when it dies. In C: Ctrl-C is lost in a finalizer
    written in Python, `weakref.finalize` too. No other type takes any descriptor silently.
    """
    return select.epoll.fromfd(fd)


def map_writable(fd: int, size: int, huge: bool = False) -> mmap.mmap:
    """Map the whole segment writable. Only its one writer does this.

    ``huge``: ask for huge pages. It is no error if the kernel gives none.
    """
    mapping = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    if huge:
        with contextlib.suppress(OSError, AttributeError):
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping
