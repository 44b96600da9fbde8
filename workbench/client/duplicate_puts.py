"""Notices when this process serializes the same large array again: it is better put once.

Remembers where an array's bytes begin, while their owner lives, and a few sampled values: if these
differ, it counts as another array. A change between the samples goes unnoticed.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import numpy as np

from workbench.memory.views import address, bases

LARGE = 64 << 10
"""Least bytes of an array to check: serializing that much takes ten times as long as the check."""

MOST = 1_000
"""Arrays remembered."""

PROBES = 64
"""Values compared."""


class DuplicatePuts:
    """Counts of puts by array. Any thread may call; of two calls at once one may not count."""

    def __init__(self) -> None:
        # (address, bytes) → owner, hash of the sampled values, count
        self._seen: OrderedDict[tuple[int, int], tuple[weakref.ref[Any], int, int]] = OrderedDict()

    def count(self, buffers: Iterable[Any]) -> int:
        """Return how often the largest buffer was put before: same bytes of the same owner."""
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
    return hash(array.flat[:: max(array.size // PROBES, 1)].tobytes())


def _owner(array: Any) -> Any:
    """Return the innermost array behind all views; None if there is none."""
    return next((b for b in reversed(list(bases(array))) if isinstance(b, np.ndarray)), None)
