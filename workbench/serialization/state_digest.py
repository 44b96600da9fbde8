"""Digest of an object's state, and the budget of work for taking digests and comparing them."""

from __future__ import annotations

import time
from pickle import PickleBuffer
from typing import Any

import xxhash

from workbench.serialization.arrays import Array, out_of_band
from workbench.serialization.comparison import (
    ONE_THREAD,
    PIECE,
    Verdict,
    as_bytes,
    compare_bytes,
    is_sealed,
)
from workbench.serialization.packing import written_parts
from workbench.serialization.pickler import Pickler

OBJECT, ATOM, REFERENCE = 10e-6, 0.05e-6, 1.5e-6
"""Seconds of work on an idle machine for an object, a number or text in it, and another object in
it. Counted, not measured: a busy one takes several times as long."""

PICKLED, HASHED = 60e-9, 0.2e-9
"""Seconds of work for a byte of a pickle of small things, and for one of a large buffer."""

FRAME = 128 << 10
"""Bytes that pickle writes at most at once, but for what is one object."""

PATIENCE = 2
"""Processor time that the work may take, as a multiple: the user's code may be slow."""


class TimeIsUpError(Exception):
    """The budget for examining objects is used up."""


class WorkBudget:
    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._until = time.thread_time() + PATIENCE * seconds

    def spend(self, seconds: float) -> None:
        self._left -= seconds

    @property
    def left(self) -> float:
        """Seconds of work; negative if it is used up."""
        return min(self._left, self._until - time.thread_time())


class StateDigest:
    """File for a pickler that keeps only a digest of what is written."""

    def __init__(self, budget: WorkBudget, opened: bool, is_fresh: bool) -> None:
        self._budget = budget
        self._opened = opened
        self._is_fresh = is_fresh  # nobody has used the objects yet
        self._hash = xxhash.xxh3_128()

    def check(self) -> None:
        if self._budget.left < 0:
            raise TimeIsUpError

    def digest_of(self, pickler: Pickler, value: Any) -> bytes:
        """Return the digest of a value. Clears the pickler's memo first."""
        self._hash.reset()
        pickler.clear_memo()
        pickler.dump(value)
        return self._hash.digest()

    def write(self, data: Any, /) -> None:
        self._hash.update(data)
        self._budget.spend((HASHED if len(data) > FRAME else PICKLED) * len(data))
        self.check()

    def _is_still(self, array: Array) -> bool | None:
        """True if the array has the bytes that were sent. Exact, and needs no digest of them.

        None if it is unknown what was sent.
        """
        parts = written_parts(array) if self._opened else None
        if is_sealed(array) or (parts is not None and self._is_fresh):
            return True
        if parts is None:
            return None
        verdict = compare_bytes(parts, self._budget.left)
        self._budget.spend(sum(now.nbytes for now, _ in parts) / ONE_THREAD)
        if verdict is Verdict.UNKNOWN:
            raise TimeIsUpError
        return verdict is Verdict.SAME

    def add_buffer(self, buffer: PickleBuffer) -> None:
        array = out_of_band(buffer)
        is_still = self._is_still(array)
        if is_still is None:
            flat = as_bytes(array) if array.nbytes else array
            for start in range(0, flat.nbytes, PIECE):
                self._hash.update(flat[start : start + PIECE].data)
                self._budget.spend(HASHED * PIECE)
                self.check()
        else:
            where = array.__array_interface__
            self.write(str(where if is_still else None).encode())
