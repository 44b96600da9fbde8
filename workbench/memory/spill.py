"""Spill files: written by the server, checked by whoever reads. No numpy, no allocation.

The files have no name: a directory's quota and space apply to them, but nobody can truncate or
edit one by accident, and with the last descriptor they are gone, also after a SIGKILL of
everybody. They are sparse, like all segments.
"""

from __future__ import annotations

import os

import xxhash

from workbench.errors import ObjectLostError
from workbench.format import human_bytes

CHUNK = 1 << 20
"""Bytes copied, or read and checked, at a time: so few stay in the processor's cache."""

SPARE, SHARE_OF_SPARE = 1 << 30, 0.05
"""What is left free on the disk: this share of it, and no more than that."""


def check_space(fd: int, nbytes: int) -> None:
    """Raise OSError if writing ``nbytes`` would fill the disk that others need, too."""
    disk = os.fstatvfs(fd)
    free = disk.f_bavail * disk.f_frsize
    spare = min(SPARE, int(disk.f_blocks * disk.f_frsize * SHARE_OF_SPARE))
    if free - nbytes < spare:
        raise OSError(
            f"{human_bytes(nbytes)} are to be written, and {human_bytes(free)} are free there, of "
            f"which {human_bytes(spare)} are left to others"
        )


def copy(source: int, start: int, target: int, offset: int, length: int) -> None:
    """Copy bytes between descriptors, in the kernel. OSError also if the source is shorter."""
    os.lseek(target, offset, os.SEEK_SET)
    done = 0
    while done < length:
        count = os.sendfile(target, source, start + done, min(CHUNK, length - done))
        if not count:
            raise OSError(f"only {human_bytes(done)} of {human_bytes(length)} could be read")
        done += count


def digest(fd: int, offset: int, length: int) -> int:
    """The checksum of bytes of a file; never 0, which means memory. OSError if it is shorter."""
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
    """Read bytes on disk through, as often as it takes to trust a mapping of them.

    A page of a mapping that can't be read ends the process (SIGBUS); a read says why.
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
