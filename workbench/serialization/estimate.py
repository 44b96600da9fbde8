"""About how much a value weighs in a pickle, in microseconds: pickles nothing, looks at a sample.

Also what a function brings along. For exact figures see `costs`.
"""

from __future__ import annotations

import gc
import io
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from workbench.serialization.arrays import Reducer
from workbench.serialization.pickler import Pickler

SAMPLE = 64
"""Elements of one container that are looked at; the others are taken to be like them."""

MOST_OBJECTS = 5_000
"""Objects looked at in all: some milliseconds."""

SMALL = 40
"""Bytes of what travels as a name, or as next to nothing."""

FEW_CELLS = 10_000
"""Cells of a table that isn't worth asking."""

_FIXED: Mapping[type, int] = {type(None): 1, bool: 1, int: 5, float: 9, complex: 40}

_FLAT = (str, bytes, bytearray)

_SEVERAL = (list, tuple, dict, set, frozenset, deque)


class Weight(NamedTuple):
    """What a value weighs, and how it travels.

    Attributes
    ----------
    bytes : int
        About; without what is in ``brings``.
    by_import : bool
        A module, or a function or class of one: only its name travels.
    brings : dict of name → value
        Globals that go along with the functions in it, as cloudpickle takes them.
    """

    bytes: int
    by_import: bool
    brings: dict[str, Any]


class Scale:
    """Weighs values that travel in one pickle: what several share counts for the first of them.

    Parameters
    ----------
    reducers : mapping of type → reducer
        Custom ones. What they give isn't known without calling them, and counts as small.
    """

    def __init__(self, reducers: Mapping[type, Reducer]) -> None:
        self._reducers = reducers
        self._pickler = Pickler(io.BytesIO(), reducers)  # asked how it would take code apart
        self._seen: set[int] = set()
        self._kept: list[Any] = []  # so that no id in `_seen` is used twice
        self._left = MOST_OBJECTS
        self._brings: dict[str, Any] = {}
        self._queue: list[tuple[Any, float]] = []

    def weigh(self, value: Any) -> Weight:
        """One of the values."""
        kind = type(value)
        if kind in _FIXED:
            return Weight(_FIXED[kind], False, {})
        brings: dict[str, Any] = {}
        self._brings = brings
        queue = self._queue = []
        if id(value) in self._seen:
            return Weight(0, False, brings)
        self._seen.add(id(value))
        if _is_code(kind):
            if (reduced := self._taken_apart(value)) is None:
                return Weight(SMALL, True, brings)
            total = self._code(value, reduced, 1.0)
        elif callable(value) and _has_a_name(value):
            return Weight(SMALL, True, brings)
        else:
            total = self._new(value, 1.0)
        while queue and self._left > 0:
            thing, times = queue.pop()
            total += times * self._own(thing, times)
        return Weight(int(total), False, brings)

    def _own(self, thing: Any, times: float) -> float:
        """What the thing itself takes; what is in it is queued."""
        kind = type(thing)
        if kind in _FIXED:
            return _FIXED[kind]
        if id(thing) in self._seen:
            return 2
        self._seen.add(id(thing))
        return self._new(thing, times)

    def _new(self, thing: Any, times: float) -> float:
        """The same of what wasn't seen yet."""
        kind = type(thing)
        self._left -= 1
        if kind in _FLAT:
            return float(len(thing))
        if kind in self._reducers:
            return SMALL
        if _is_code(kind):
            reduced = self._taken_apart(thing)
            return SMALL if reduced is None else self._code(thing, reduced, times)
        if isinstance(thing, np.ndarray):
            return self._array(thing, times)
        if isinstance(thing, _SEVERAL):
            return self._several(thing, times)
        if kind is CodeType:
            self._add(thing.co_consts, times)
            return float(len(thing.co_code) + SMALL)
        measure = _LIBRARIES.get(kind.__module__.partition(".")[0])
        if measure is not None:
            try:
                nbytes, inside = measure(thing)
            except Exception:  # a class of theirs that has no such figures
                pass
            else:
                self._add(inside, times)
                return nbytes
        self._add(gc.get_referents(thing), times)
        return float(sys.getsizeof(thing, SMALL))

    def _add(self, things: Iterable[Any], times: float) -> None:
        self._queue.extend((thing, times) for thing in things)

    def _array(self, array: Any, times: float) -> float:
        if array.dtype.hasobject:
            step = max(array.size // SAMPLE, 1)
            self._sampled(array.flat[::step][:SAMPLE].tolist(), array.size, times)
        return float(array.nbytes)

    def _several(self, thing: Any, times: float) -> float:
        if isinstance(thing, list | tuple):
            some: list[Any] = list(thing[:: max(len(thing) // SAMPLE, 1)][:SAMPLE])
        else:
            try:
                some = list(islice(thing.items() if isinstance(thing, dict) else thing, SAMPLE))
            except RuntimeError:  # somebody changes it
                return SMALL
        if not isinstance(thing, dict):
            return self._sampled(some, len(thing), times)
        self._sampled([key for key, _ in some], len(thing), times)
        return self._sampled([value for _, value in some], len(thing), times)

    def _sampled(self, some: list[Any], count: int, times: float) -> float:
        """Queue elements for all ``count`` that are like them; what naming each takes.

        Where a few stand in many places, they are written once.
        """
        self._kept.append(some)
        if not some:
            return SMALL
        plain = sum(type(thing) in _FIXED for thing in some)
        different = len(set(map(id, some)))
        many = plain == len(some) or different > len(some) // 2
        self._add(some, times * count / len(some) if many else times)
        return 2.0 * count

    # -- code ---------------------------------------------------------------------------------

    def _taken_apart(self, thing: Any) -> tuple[Any, ...] | None:
        """How a function, class or module goes by value; None if by import."""
        try:
            reduced = self._pickler.reducer_override(thing)
        except Exception:  # it can't be pickled: the put or the submit will say so
            return None
        if type(reduced) is not tuple:
            return None
        by_name = type(thing) is ModuleType and len(reduced[1]) == 1
        return None if by_name else reduced

    def _code(self, thing: Any, reduced: tuple[Any, ...], times: float) -> float:
        self._kept.append(reduced)
        if type(thing) is not FunctionType:
            self._add(reduced[1:3], times)
            return SMALL
        (_, slots), code = reduced[2], thing.__code__
        for name, value in slots["__globals__"].items():
            self._brings.setdefault(name, value)
        inside = code.co_consts, thing.__defaults__, thing.__kwdefaults__, thing.__closure__
        self._add(filter(None, (*inside, thing.__dict__)), times)
        return float(SMALL + len(code.co_code) + len(thing.__doc__ or ""))


def _is_code(kind: type) -> bool:
    return kind is FunctionType or kind is ModuleType or issubclass(kind, type)


def _has_a_name(thing: Any) -> bool:
    """Whether pickle takes it by its name: numpy's functions, those written in C."""
    try:
        module = sys.modules.get(thing.__module__)
        name = getattr(thing, "__qualname__", None) or thing.__name__
        return module is not None and getattr(module, name, None) is thing
    except Exception:  # it has none, or attributes with a mind of their own
        return False


Measured = tuple[float, Collection[Any]]


def _pandas(thing: Any) -> Measured:
    """A table, column or index; text in columns of objects is sampled."""
    if not hasattr(type(thing), "memory_usage"):
        return SMALL, gc.get_referents(thing)
    cells = thing.size
    if cells <= FEW_CELLS:
        return 8.0 * cells, ()
    used = thing.memory_usage()
    total = float(used if isinstance(used, int | np.integer) else used.sum())
    if thing.ndim != 2:
        return total, ()
    for place, dtype in enumerate(thing.dtypes):
        if dtype.kind == "O" and dtype.name == "object":
            rows = len(thing)
            some = thing.iloc[:: max(rows // SAMPLE, 1), place].tolist()[:SAMPLE]
            total += rows * sum(map(sys.getsizeof, some)) / len(some)
    return total, ()


def _by_nbytes(thing: Any) -> Measured:
    return float(thing.nbytes), ()


def _polars(thing: Any) -> Measured:
    return float(thing.estimated_size()), ()


def _ours(thing: Any) -> Measured:
    """What people hold of the session's: remote functions, handles of actors."""
    return SMALL, thing.__reduce__()[1]


_LIBRARIES: Mapping[str, Callable[[Any], Measured]] = {
    "pandas": _pandas,
    "polars": _polars,
    "pyarrow": _by_nbytes,
    "torch": _by_nbytes,
    "workbench": _ours,
}
"""How to ask objects of these packages for their size, by the package's name."""
