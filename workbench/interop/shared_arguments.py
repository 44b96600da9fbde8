"""Large arguments that are passed repeatedly: each is stored once, and sent as its ref."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import xxhash

from workbench.engine.base import Engine
from workbench.engine.queries import Compare, StoredAs, WhenFull
from workbench.errors import WorkbenchError
from workbench.ref import ObjectRef
from workbench.serialization.comparison import ChangeCheck, Verdict

LARGE = 1 << 20
"""Bytes from which on an argument is stored, and so read-only, as with joblib's own processes."""


PIECE = 32 << 20
"""Bytes that a thread digests at a time."""

THREADS = min(len(os.sched_getaffinity(0)), 4)


class SharedArguments:
    """Stored arguments of one process. An object lives as long as its original value, or until the
    store is full.

    Each value is compared with the stored one once per `begin`: a change during one call of a
    library goes unnoticed, as with the library's own processes.
    """

    def __init__(self) -> None:
        self._known: dict[int, _Stored] = {}  # finalizers remove entries: no lock may guard it
        self._round = 0

    def begin(self) -> None:
        """Begin a round: each value that is passed is compared again."""
        self._round += 1
        for id, stored in list(self._known.items()):
            if stored.engine.end_reason is not None:  # its session is over
                self._known.pop(id, None)

    def let_go(self) -> bool:
        """Let go of all copies; True if there were any. Calls that run keep theirs."""
        found = bool(self._known)
        self._known.clear()
        return found

    def ref_of(self, engine: Engine, value: Any) -> ObjectRef | None:
        """Return the object of this value; None if it isn't large or has no weak references."""
        known = self._known.get(id(value))  # first: asking a frame for its size takes longer
        is_known = known is not None and known.is_of(engine, value)
        if known is not None and is_known and known.is_same(self._round):
            return known.ref
        if size_of(value) < LARGE:
            return None
        view = engine.ask(StoredAs(value))
        if view is not None:
            return view
        put = None
        if not is_known:
            try:
                finalizer = weakref.finalize(value, self._known.pop, id(value), None)
            except TypeError:
                return None
            finalizer.atexit = False
            put = engine.ask(StoredAs(value, changed=True))
        if put is not None:
            stored = self._known[id(value)] = _Stored(engine, value, put)
            if stored.is_same(self._round):
                return put
        engine.ask(WhenFull(self.let_go))
        ref = engine.put(value)[0]
        self._known[id(value)] = _Stored(engine, value, ref, self._round)
        return ref


class _Stored:
    """One value and its object.

    A plain array is unchanged if it has the stored bytes' digest: digesting is half of the work of
    comparing.
    """

    def __init__(self, engine: Engine, value: Any, ref: ObjectRef, round: int = -1) -> None:
        self.ref = ref
        self.engine = engine
        self._value: Callable[[], Any] = weakref.ref(value)
        # Without a time limit: storing the value again takes longer than comparing all of it.
        self._check = ChangeCheck(False, math.inf)
        self._digests: list[bytes] | None = None  # of the stored bytes, once needed
        self._round = round  # the last round in which it was unchanged

    def is_of(self, engine: Engine, value: Any) -> bool:
        return self.engine is engine and self._value() is value

    def kept_with(self) -> Any:
        """Return the value, or None: `%why` names it, because the object lives as long."""
        return self._value()

    def is_same(self, round: int) -> bool:
        """True if the value is known to be what is stored."""
        if self._round != round:
            if not self._has_same_bytes(self._value()):
                return False
            self._round = round
        return True

    def _has_same_bytes(self, value: Any) -> bool:
        if (form := _form(value)) is not None:
            try:  # each time: it may have been freed since, or there is no room for it
                stored = self.engine.get([self.ref], None, False)[0]
            except WorkbenchError:
                return False
            if form == _form(stored):
                if self._digests is None:
                    self._digests = _digests(stored)
                return _digests(value) == self._digests
        try:
            found = self.engine.ask(Compare(self.ref, value, self._check, 0.0))
        except LookupError:  # it is on disk
            return False
        return found.verdict is Verdict.SAME


def _form(value: Any) -> tuple[Any, ...] | None:
    """Return a plain array's dtype, shape and order; None if it isn't a plain array."""
    if type(value) is not np.ndarray or value.dtype.kind not in "biufcMmSU":
        return None
    flags = value.flags
    if not (flags.c_contiguous or flags.f_contiguous):
        return None
    return value.dtype, value.shape, bool(flags.c_contiguous)


def _digests(array: Any) -> list[bytes]:
    """Return the digests of a plain array's bytes, one per piece."""
    flat = (array if array.flags.c_contiguous else array.T).reshape(-1).view(np.uint8)
    pieces = [memoryview(flat[i : i + PIECE]) for i in range(0, len(flat), PIECE)]
    if len(pieces) == 1:
        return [xxhash.xxh3_128_digest(pieces[0])]
    with ThreadPoolExecutor(THREADS, "workbench-digest") as pool:
        return list(pool.map(xxhash.xxh3_128_digest, pieces))


def size_of(value: Any) -> int:
    """Return the bytes of arrays, frames, sparse matrices and tensors, which know their size.

    Other large values are pickled with each call, as everywhere.
    """
    nbytes = getattr(value, "nbytes", None)
    if isinstance(nbytes, int):
        return nbytes
    usage = getattr(value, "memory_usage", None)
    if callable(usage) and hasattr(value, "index"):  # a frame, a series
        used = usage(index=True)
        return int(used.sum() if hasattr(used, "sum") else used)
    estimated = getattr(value, "estimated_size", None)
    if callable(estimated):
        return int(estimated())
    data = getattr(getattr(value, "data", None), "nbytes", 0)  # a sparse matrix
    return data if isinstance(data, int) and hasattr(value, "indices") else 0
