"""Sizes in bytes: rounding to pages, and parsing what people type. `format` prints them."""

from __future__ import annotations

import mmap
import re

PAGE = mmap.PAGESIZE
"""Extents begin and end at pages, so that a freed one can be given back to the machine whole."""


def round_up(nbytes: int) -> int:
    """Round up to whole pages, at least one."""
    return max(-(-nbytes // PAGE), 1) * PAGE


def inline_allowance(capacity: int) -> int:
    """Return the bytes of inline objects that a process may send before it asks for more.

    A small part of the store, since each process has it, but at least four of the largest inline
    objects: asking takes a round trip.
    """
    return min(max(capacity >> 12, 64 << 10), 8 << 20)


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_bytes(text: str) -> int:
    """Parse a size: '8GB' → 8000000000, '512MiB' → 536870912, '1e9' and '1000' as they are.

    Raises
    ------
    ValueError
        If it isn't a size above zero.
    """
    match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?i?)b?\s*", text.lower())
    factor = _UNITS.get(match[2]) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is not a size; write it like 500MB, 2GB or 1.5GiB")
    try:
        size = int(float(match[1]) * factor)
    except (ValueError, OverflowError):
        size = 0
    if size <= 0:
        raise ValueError(f"{text!r} is not a size above zero; write it like 500MB or 2GB")
    return size
