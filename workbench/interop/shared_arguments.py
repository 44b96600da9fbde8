"""Large arguments that are passed again and again: each is stored once, and sent as its ref."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
import xxhash

from workbench.engine.base import Engine
from workbench.engine.queries import Compare, StoredAs
from workbench.errors import WorkbenchError
from workbench.ref import ObjectRef
from workbench.serialization.comparison import ChangeCheck, Verdict

LARGE = 1 << 20
"""Bytes from which an argument is stored, and read-only, as with joblib's own processes."""


PIECE = 32 << 20
"""Bytes that a thread looks at in one go."""

THREADS = min(len(os.sched_getaffinity(0)), 4)


class SharedArguments:
    """Of one process. An object lives as long as the value that was stored does.

    Whether a value is still what was stored is looked at once in each `begin`: what changes
    during a call of a library is that library's user's affair, as with its own processes.
    """

    def __init__(self) -> None:
        self._known: dict[int, _Stored] = {}  # finalizers take out of it: no lock may guard it
        self._round = 0

    def begin(self) -> None:
        """From now on, look again at each value that is passed."""
        self._round += 1
        for id, stored in list(self._known.items()):
            if stored.is_lost:
                self._known.pop(id, None)

    def ref_of(self, engine: Engine, value: Any) -> ObjectRef | None:
        """The object that has this value; None if it isn't large, or nobody could tell its end."""
        known = self._known.get(id(value))  # first: to ask a frame for its size takes longer
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
        stored = self._known[id(value)] = _Stored.now(engine, value, self._round)
        return stored.ref


class _Stored:
    """One value and its object.

    A plain array is the same if it has the stored bytes' digest: to read it is half of the work of
    comparing it with those.
    """

    def __init__(self, engine: Engine, value: Any, ref: ObjectRef) -> None:
        self.ref = ref
        self._engine = engine
        self._value: Callable[[], Any] = weakref.ref(value)
        # However long it takes: to store it again takes longer than to look at all of it.
        self._check = ChangeCheck(False, math.inf)
        self._form: tuple[Any, ...] | None = None  # of what is stored, as this:
        self._digests: list[bytes] | None = None  # of the stored bytes, once they were asked for
        self._round = -1  # the last one in which it was the same

    @classmethod
    def now(cls, engine: Engine, value: Any, round: int) -> Self:
        """Stored now."""
        stored = cls(engine, value, engine.put(value)[0])
        stored._form, stored._round = _form(value), round
        return stored

    @property
    def is_lost(self) -> bool:
        """True if its session is over."""
        return self._engine.ended is not None

    def is_of(self, engine: Engine, value: Any) -> bool:
        return self._engine is engine and self._value() is value

    def is_same(self, round: int) -> bool:
        """True if the value is known to be what is stored."""
        if self._round != round:
            if not self._has_same_bytes(self._value()):
                return False
            self._round = round
        return True

    def _has_same_bytes(self, value: Any) -> bool:
        form = _form(value)
        if form is not None and self._form is None:
            try:
                self._form = _form(self._engine.get([self.ref], None, False)[0])
            except WorkbenchError:
                return False
        if form is None or form != self._form:
            try:
                found = self._engine.ask(Compare(self.ref, value, self._check, 0.0))
            except LookupError:  # it is on disk
                return False
            return found.verdict is Verdict.SAME
        try:  # each time: somebody may have freed it since, or there is no room for it
            stored = self._engine.get([self.ref], None, False)[0]
        except WorkbenchError:
            return False
        if self._digests is None:
            self._digests = _digests(stored)
        return _digests(value) == self._digests


def _form(value: Any) -> tuple[Any, ...] | None:
    """What is to be known of a plain array besides its bytes; None if it is none."""
    if type(value) is not np.ndarray or value.dtype.kind not in "biufcMmSU":
        return None
    flags = value.flags
    if not (flags.c_contiguous or flags.f_contiguous):
        return None
    return value.dtype, value.shape, bool(flags.c_contiguous)


def _digests(array: Any) -> list[bytes]:
    """Of the bytes of a plain array, piece by piece."""
    flat = (array if array.flags.c_contiguous else array.T).reshape(-1).view(np.uint8)
    pieces = [memoryview(flat[i : i + PIECE]) for i in range(0, len(flat), PIECE)]
    if len(pieces) == 1:
        return [xxhash.xxh3_128_digest(pieces[0])]
    with ThreadPoolExecutor(THREADS, "workbench-digest") as pool:
        return list(pool.map(xxhash.xxh3_128_digest, pieces))


def size_of(value: Any) -> int:
    """Bytes of its arrays, as far as it says so at once: arrays, frames, sparse matrices, tensors.

    What else is large is pickled with each call, as everywhere.
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
