"""Notices that this process serializes the same large array again: it is better put once.

Remembers where an array's bytes begin, for as long as their owner lives, and a few of its values:
one that was filled anew meanwhile is another one. A change between those goes unnoticed.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import numpy as np

from workbench.memory.views import address, bases

LARGE = 64 << 10
"""Bytes from which on it is worth a look: serializing that much takes ten times as long."""

MOST = 1_000
"""Arrays remembered."""

PROBES = 64
"""Values compared."""


class DuplicatePuts:
    """Any thread may ask; of two at once one may not be counted."""

    def __init__(self) -> None:
        # (address, bytes) → owner, what a few of the values were, how often
        self._seen: OrderedDict[tuple[int, int], tuple[weakref.ref[Any], int, int]] = OrderedDict()

    def count(self, buffers: Iterable[Any]) -> int:
        """How often the same bytes of the same owner were put before, by the largest buffer."""
        largest = max(buffers, key=lambda buffer: buffer.nbytes, default=None)
        if largest is None or largest.nbytes < LARGE:
            return 0
        owner = _owner(largest)
        if owner is None:
            return 0
        key, values = (address(largest), largest.nbytes), _probe(largest)
        ref, known, count = self._seen.pop(key, (None, 0, -1))
        count = count + 1 if ref is not None and ref() is owner and known == values else 0
        self._seen[key] = ref if count and ref is not None else weakref.ref(owner), values, count
        if len(self._seen) > MOST:
            self._seen.popitem(last=False)
        return count


def _probe(array: Any) -> int:
    """Of a few values, from all over it."""
    return hash(array.flat[:: max(array.size // PROBES, 1)].tobytes())


def _owner(array: Any) -> Any:
    """The array behind all views; None if it is shown by none, but by something else."""
    return next((b for b in reversed(list(bases(array))) if isinstance(b, np.ndarray)), None)
