"""Small counters by client that are never changed in place, so that many objects share one.

Nearly all objects are held once by one client and viewed by none, and a dict of one's own takes
200 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

Counts = Mapping[int, int]
"""Client → how often, at least once."""

NONE: Counts = {}


def more(counts: Counts, client: int) -> Counts:
    """One more of ``client``."""
    return {**counts, client: counts.get(client, 0) + 1}


def fewer(counts: Counts, client: int) -> Counts:
    """One less of ``client``, who is there."""
    left = counts[client] - 1
    if not left and len(counts) == 1:
        return NONE
    return {**counts, client: left} if left else without(counts, client)


def without(counts: Counts, client: int) -> Counts:
    """None of ``client``."""
    if client not in counts:
        return counts
    return {c: n for c, n in counts.items() if c != client} if len(counts) > 1 else NONE
