"""Chooses the items of a large container that stand for all: the same each time, spread over it.

Items much larger than the others stand only for themselves; each other one for several.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, ItemsView, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

MOST_WEIGHED = 600_000
"""Items whose sizes are examined: some 40 ms."""

LARGE_BYTES, LARGE_TIMES = 10_000, 100
"""An item is large above this many bytes, if it has this many times those of the median."""

MOST_LARGE = 20

Stratum = tuple[list[int], list[Any], float]
"""Numbers of items, the items, and for how many each stands."""


def spread(count: int, most: int) -> list[int]:
    """Return ``most`` of the numbers below ``count``, in order.

    The position of the i-th within its share is the fractional part of i times the golden
    ratio: a pattern in the items is unlikely to coincide with it.
    """
    gap, golden = count / most, 0.6180339887498949
    return [int((i + i * golden % 1) * gap) for i in range(most)]


def choose(items: Any, count: int, most: int, large: list[int]) -> Iterator[Stratum]:
    """Yield ``most`` of ``count`` items, and the ``large`` ones."""
    numbers = [n for n in spread(count, most) if n not in large]
    if large:
        yield large, _at(items, large), 1.0
    if numbers:
        yield numbers, _at(items, numbers), (count - len(large)) / len(numbers)


def large_among(items: Any, count: int) -> list[int]:
    """Return numbers of the items much larger than the others, if that is fast to find out."""
    values: Iterable[Any] = items
    if isinstance(items, ItemsView):
        values = getattr(items, "mapping", {}).values()
    if count > MOST_WEIGHED or not isinstance(values, Collection):
        return []
    try:
        sizes = np.fromiter(map(sys.getsizeof, values), np.int64, count)
    except Exception:  # raised by a class's own `__sizeof__`
        return []
    limit = max(LARGE_BYTES, LARGE_TIMES * int(np.median(sizes)))
    (large,) = np.nonzero(sizes > limit)
    largest = large[np.argsort(sizes[large], kind="stable")[-MOST_LARGE:]]
    return sorted(map(int, largest))


def _at(items: Any, numbers: list[int]) -> list[Any]:
    if isinstance(items, Sequence):
        return [items[n] for n in numbers]
    iterator, at = iter(items), 0
    found: list[Any] = []
    for n in numbers:
        found += islice(iterator, n - at, n - at + 1)
        at = n + 1
    return found
