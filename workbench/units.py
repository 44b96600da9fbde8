"""Bytes: whole pages of them. And what people read: sizes, seconds and counts."""

from __future__ import annotations

import mmap
import re

PAGE = mmap.PAGESIZE
"""Extents begin and end on pages, so that a freed one can be given back to the machine whole."""


def round_up(nbytes: int) -> int:
    """To whole pages, at least one."""
    return max(-(-nbytes // PAGE), 1) * PAGE


UNKNOWN = "not known here"
"""What people read where an engine can't tell. Never a zero."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def human_bytes(n: float | None) -> str:
    """1234567 → '1.2 MB' (powers of 1000, as disks and GB/s are counted)."""
    if n is None:
        return UNKNOWN
    for unit in ("B", "kB", "MB", "GB"):
        if abs(n) < 999.5:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} TB" if abs(n) < 999.5 else f"{n:.0f} TB"


def human_seconds(s: float) -> str:
    """0.00123 → '1.2 ms'."""
    if s < 999.5e-6:
        return f"{s * 1e6:.3g} µs"
    if s < 0.9995:
        return f"{s * 1e3:.3g} ms"
    return f"{s:.3g} s"


def human_time(s: float) -> str:
    """28800 → '8 h', 120 → '2 min', 90 → '90 s': spans that people set, not ones measured."""
    for unit, seconds in (("h", 3600), ("min", 60)):
        if s >= seconds and s % seconds == 0:
            return f"{s / seconds:g} {unit}"
    return f"{s:g} s"


def human_count(n: int) -> str:
    """1234567 → '1 234 567'."""
    return f"{n:,}".replace(",", " ")


def count(n: int | None, noun: str) -> str:
    """1 → '1 line', 2 → '2 lines'."""
    many = noun if n == 1 else f"{noun.replace(' or', 's or')}s"
    return f"{many} {UNKNOWN}" if n is None else f"{n} {many}"


def parse_bytes(text: str) -> int:
    """'8GB' → 8000000000, '512MiB' → 536870912, '1e9' and '1000' as they are.

    Raises
    ------
    ValueError
        If it isn't a size above zero.
    """
    match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?i?)b?\s*", text.lower())
    factor = {**_UNITS, **_BINARY}.get(match[2]) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is not a size; write it like 500MB, 2GB or 1.5GiB")
    try:
        size = int(float(match[1]) * factor)
    except (ValueError, OverflowError):
        size = 0
    if size <= 0:
        raise ValueError(f"{text!r} is not a size above zero; write it like 500MB or 2GB")
    return size
