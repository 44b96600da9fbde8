"""Giving pages of a memory file back to the machine. One system call; no numpy."""

from __future__ import annotations

from workbench.units import PAGE

_PUNCH = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE


def punch(fd: int, offset: int, length: int) -> None:
    """Give the whole pages of a range of bytes back to the machine; they read as zeros after.

    Where the system can't, nothing happens: the memory comes back with the file.
    """
    import ctypes  # here: few processes ever punch, and it is slow to import

    start = -(-offset // PAGE) * PAGE
    stop = (offset + length) // PAGE * PAGE
    fallocate = getattr(ctypes.CDLL(None), "fallocate", None)
    if stop > start and fallocate is not None:
        fallocate(fd, _PUNCH, ctypes.c_int64(start), ctypes.c_int64(stop - start))
