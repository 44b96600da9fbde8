"""Whether this process serializes the same large array again and again: it is better put once.

Remembers memory, not content: where an array's bytes begin, for as long as their owner lives.
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


class Repeats:
    """See the module. Any thread may ask; of two at once one may not be counted."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[int, int], tuple[weakref.ref[Any], int]] = OrderedDict()

    def count(self, buffers: Iterable[Any]) -> int:
        """How often the largest of these was counted before."""
        largest = max(buffers, key=lambda buffer: buffer.nbytes, default=None)
        if largest is None or largest.nbytes < LARGE:
            return 0
        owner = _owner(largest)
        if owner is None:
            return 0
        key = address(largest), largest.nbytes
        ref, count = self._seen.pop(key, (None, -1))
        count = count + 1 if ref is not None and ref() is owner else 0
        self._seen[key] = ref if count and ref is not None else weakref.ref(owner), count
        if len(self._seen) > MOST:
            self._seen.popitem(last=False)
        return count


def _owner(array: Any) -> Any:
    """The array behind all views; None if it is shown by none, but by something else."""
    return next((b for b in reversed(list(bases(array))) if isinstance(b, np.ndarray)), None)
