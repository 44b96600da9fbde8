"""Gives pages of a memory file back to the machine. One system call; no numpy."""

from __future__ import annotations

import functools
from typing import Any

from workbench.system.sizes import PAGE

_PUNCH = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE


def punch(fd: int, offset: int, length: int) -> None:
    """Give the whole pages of a range of bytes back to the machine; they read as zeros after.

    If the system can't, nothing happens: the memory is freed with the file.
    """
    start = -(-offset // PAGE) * PAGE
    stop = (offset + length) // PAGE * PAGE
    fallocate = _fallocate()
    if stop > start and fallocate is not None:
        fallocate(fd, _PUNCH, start, stop - start)


@functools.cache  # each use of `CDLL` makes classes, in cycles
def _fallocate() -> Any:
    import ctypes  # imported here: slow, and few processes ever punch

    function = getattr(ctypes.CDLL(None), "fallocate", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return function
