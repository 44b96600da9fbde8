"""The limit of this process's private memory (``RLIMIT_DATA``), which its session sets: see
`core.data_limits`."""

from __future__ import annotations

import ctypes
import os
import resource
from contextlib import suppress

from workbench.system.machine import MemoryGauge

SHARE_AT_LEAST = 0.4
"""Share of the headroom: if less is left, a cell that goes on taking memory is stopped."""

STEP = 4 << 20
"""Bytes by which a process raises its limit: the session sees it, and raises it by what is due."""

SHARE_OF_RESERVE, MOST_RESERVED = 0.5, 64 << 20
"""Share of the headroom, in bytes at most, that a process reserves for its errors: at its limit
Python can't even call `setrlimit`."""

GIVEN_BACK = 1 << 18
"""Bytes of a block that goes back to Linux when it is freed, once a process had a MemoryError. Else
glibc keeps blocks of up to 32 MB, which the limit can't refuse to use again; arrays of a megabyte
are made 1.5 to 2 times as slowly so."""

OWN, _ = resource.getrlimit(resource.RLIMIT_DATA)
"""What it was when this process began, before a session set another one."""

_libc = ctypes.CDLL(None)
_headroom = 0
_gauge = MemoryGauge()  # made now, as long as there is memory
_reserve = b""  # zeros, which Linux doesn't give memory to


def prepare(headroom: int) -> None:
    """Prepare for a limit, by a session that leaves ``headroom`` bytes free.

    Arrow's allocator, mimalloc, shall reserve memory when it is needed, instead of 1 GiB at its
    first allocation: that counts, although it isn't touched. Before Arrow is imported.
    """
    global _headroom
    _headroom = headroom
    _take_reserve()
    os.environ.setdefault("MIMALLOC_ARENA_EAGER_COMMIT", "0")


def is_exceeded() -> bool:
    """True if this process is at its limit, and most of the headroom is used all the same.

    At the limit Python makes small objects in memory that was freed before, slowly, as each of them
    asks Linux for memory first. That ends in an error only when the freed memory is used up.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if soft == OWN or _gauge.of_process(os.getpid())[1] + STEP < soft:
        return False
    return _gauge.read()[0] < _headroom * SHARE_AT_LEAST


def raise_after_error() -> None:
    """Let this process take some of the headroom after its MemoryError: to show it, and to clear
    up. The session sees that, and lets it. Any thread."""
    global _reserve
    _reserve = b""
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != OWN:
        _set(soft + STEP)
        with suppress(AttributeError):  # not glibc
            _libc.mallopt(-3, GIVEN_BACK)  # M_MMAP_THRESHOLD


def give_back() -> None:
    """Give memory back that was freed since an error, when a cell has ended: small things that were
    made since then keep the C library from it. Until more than the headroom is left."""
    if _headroom and not _reserve:
        with suppress(AttributeError):  # not glibc
            _libc.malloc_trim(0)
        if _gauge.read()[0] > _headroom:
            _take_reserve()


def restore() -> None:
    """Give this process its own limit back, because it leaves the session. Any thread."""
    global _headroom, _reserve
    _headroom, _reserve = 0, b""
    _set(OWN)


def _take_reserve() -> None:
    global _reserve
    with suppress(MemoryError):  # next time
        _reserve = bytes(min(int(_headroom * SHARE_OF_RESERVE), MOST_RESERVED))


def _set(soft: int) -> None:
    with suppress(OSError, ValueError):  # the hard limit is lower
        resource.setrlimit(
            resource.RLIMIT_DATA, (soft, resource.getrlimit(resource.RLIMIT_DATA)[1])
        )
