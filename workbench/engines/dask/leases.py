"""Segments that stay while a handle of them is on its way: who gets it has yet to ask for the bytes
(by then Dask may have dropped the copy that the handle was made from). Pure but for a lock."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

LEASE = 20.0
"""Seconds for which a segment stays if who got its handle neither asks for it nor reads on."""


class Leases:
    """See the module. ``clock`` is a monotonic one, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._next = itertools.count((os.getpid() << 32) + 1).__next__
        self._held: dict[int, tuple[Any, float]] = {}  # lease → what is kept, until when

    def begin(self, segment: Any) -> int:
        """Keep a segment; by which lease."""
        with self._lock:
            lease = self._next()
            self._held[lease] = segment, self._clock() + LEASE
        return lease

    def used(self, lease: int) -> Any:
        """Somebody reads by it: it lasts longer. What it keeps; None if it is over."""
        with self._lock:
            found = self._held.get(lease)
            if found is None:
                return None
            self._held[lease] = found[0], self._clock() + LEASE
            return found[0]

    def end(self, lease: int) -> None:
        """Who got the handle has the bytes."""
        with self._lock:
            found = self._held.pop(lease, None)
        del found  # without the lock: it may be the last that keeps the segment

    def expire(self) -> None:
        """End those whose time is up."""
        now = self._clock()
        with self._lock:
            late = [lease for lease, (_, until) in self._held.items() if until <= now]
            over = [self._held.pop(lease) for lease in late]
        del over
