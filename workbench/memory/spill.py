"""Spill files: written by the server, checked by readers. No numpy, no allocator.

The files have no name: a directory's quota and space apply to them, but nobody can truncate or edit
one by accident, and they are deleted with the last descriptor, even if all processes are killed.
They are sparse, like all segments.
"""

from __future__ import annotations

import os

import xxhash

from workbench.errors import ObjectLostError
from workbench.format import human_bytes

CHUNK = 1 << 20
"""Bytes copied, or read and checked, at a time: few enough for the processor's cache."""

SPARE, SHARE_OF_SPARE = 1 << 30, 0.05
"""Space left free on the disk: the smaller of these bytes and this share of it."""


def check_space(fd: int, nbytes: int) -> None:
    """Raise OSError if writing ``nbytes`` would leave too little space on the disk."""
    disk = os.fstatvfs(fd)
    free = disk.f_bavail * disk.f_frsize
    spare = min(SPARE, int(disk.f_blocks * disk.f_frsize * SHARE_OF_SPARE))
    if free - nbytes < spare:
        raise OSError(
            f"{human_bytes(nbytes)} are to be written, and {human_bytes(free)} are free there, of "
            f"which {human_bytes(spare)} are left to others"
        )


def copy(source: int, start: int, target: int, offset: int, length: int) -> None:
    """Copy bytes between descriptors, in the kernel. OSError, also if the source is too short."""
    os.lseek(target, offset, os.SEEK_SET)
    done = 0
    while done < length:
        count = os.sendfile(target, source, start + done, min(CHUNK, length - done))
        if not count:
            raise OSError(f"only {human_bytes(done)} of {human_bytes(length)} could be read")
        done += count


def digest(fd: int, offset: int, length: int) -> int:
    """Return the checksum of bytes of a file, never 0, which means memory. OSError if too short."""
    hasher = xxhash.xxh3_64()
    chunk = memoryview(bytearray(min(CHUNK, length)))
    done = 0
    while done < length:
        count = os.preadv(fd, [chunk[: length - done]], offset + done)
        if not count:
            raise OSError("the file is shorter than it was")
        hasher.update(chunk[:count])
        done += count
    return hasher.intdigest() or 1


def check(fd: int, offset: int, length: int, expected: int) -> None:
    """Read bytes on disk and compare their checksum, so that a mapping of them can be trusted.

    An unreadable page of a mapping kills the process (SIGBUS); a failed read says why.
    ObjectLostError if they can't be read, or aren't those that were written.
    """
    try:
        if digest(fd, offset, length) == expected:
            return
        why = "they are not what was written (the checksum differs)"
    except OSError as error:
        why = error.strerror or str(error)
    raise ObjectLostError(
        f"The object's {human_bytes(length)} were moved to disk, and can't be read back: {why}. "
        "Put it again; `free` lets go of what is left. Is the disk all right? `spill_dir` can "
        "name another."
    )
