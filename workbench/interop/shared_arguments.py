"""Large arguments that are passed again and again: each is stored once, and sent as its ref."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from workbench.engines.base import Engine
from workbench.ref import ObjectRef
from workbench.serialization.comparison import ChangeCheck, Verdict

LARGE = 1 << 20
"""Bytes from which an argument is stored, and read-only, as with joblib's own processes."""


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
        view = engine.stored_as(value)
        if view is not None:
            return view
        if not is_known:
            try:
                finalizer = weakref.finalize(value, self._known.pop, id(value), None)
            except TypeError:
                return None
            finalizer.atexit = False
        stored = self._known[id(value)] = _Stored(engine, value, self._round)
        return stored.ref


class _Stored:
    """One value and its object."""

    def __init__(self, engine: Engine, value: Any, round: int) -> None:
        self.ref, about = engine.put(value)
        self._engine = engine
        self._value: Callable[[], Any] = weakref.ref(value)
        self._check = ChangeCheck(False, about.pickle_seconds + about.copy_seconds)
        self._round = round

    @property
    def is_lost(self) -> bool:
        """Whether its session is over."""
        return self._engine.ended is not None

    def is_of(self, engine: Engine, value: Any) -> bool:
        return self._engine is engine and self._value() is value

    def is_same(self, round: int) -> bool:
        """Whether the value is known to be what is stored."""
        if self._round != round:
            try:
                found = self._engine.compare(self.ref, self._value(), self._check, 0.0)
            except LookupError:  # it is on disk
                return False
            if found.verdict is not Verdict.SAME:
                return False
            self._round = round
        return True


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
