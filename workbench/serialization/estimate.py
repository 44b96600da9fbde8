"""Estimates how many bytes a value's pickle has, and which globals its functions bring along.

Counts the bytes and keeps none; when the time is up, the count is a lower bound. Runs no code of
the user's. For what a cell takes along; `%cost` has exact figures, or estimates them from samples
(`costs`, `measure`).
"""

from __future__ import annotations

import copyreg
import sys
import time
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from workbench.serialization.arrays import Reducer, Reducers
from workbench.serialization.pickler import ByteCounter, Pickler

LEAST_SECONDS = 0.002
"""Processor time for each value, however much the others took."""

SMALL = 40
"""Bytes of a value that travels as a name, or is tiny."""

_CALLED = sys.stdlib_module_names | {
    "cloudpickle",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "scipy",
    "torch",
    "workbench",
}
"""Packages whose own ``__reduce__`` and ``__getstate__`` are called, because they are fast."""

_METHODS = ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__")


class Estimate(NamedTuple):
    """Estimated size of a value in a pickle."""

    bytes: int
    """Approximate, without what is in ``brings``."""

    at_least: bool
    """True if only a part was counted."""

    by_import: bool
    """True for a module, or a function or class of one: only its name travels."""

    brings: dict[str, Any]
    """Globals that travel with the functions in the value, as cloudpickle sends them."""

    can_be_pickled: bool = True
    """False: counting stopped at a part that can't be pickled."""


class Estimator:
    """Counts values that travel in one pickle: shared objects count for the first of the values.

    Custom reducers are not called; their results count as small. ``seconds`` are processor time
    for all values together; each gets at least `LEAST_SECONDS`.
    """

    def __init__(self, reducers: Reducers, seconds: float = 0.25) -> None:
        self._count = _Count()
        self._pickler = _CountingPickler(self._count, dict.fromkeys(reducers, _as_nothing))
        self._left = seconds

    def estimate(self, value: Any) -> Estimate:
        """Count one of the values. If it can't be pickled, count up to where that is noticed."""
        if self._is_imported(value):
            return Estimate(SMALL, False, True, {})
        started, before = time.thread_time(), self._count.bytes
        brings: dict[str, Any] = {}
        self._pickler.brings = brings
        self._count.until = started + max(self._left, LEAST_SECONDS)
        at_least, can_be_pickled = False, True
        try:
            self._pickler.dump(value)
        except TimeoutError:
            at_least = True
        except Exception:  # the put or submit will say why
            at_least, can_be_pickled = True, False
        self._left -= time.thread_time() - started
        size = self._count.bytes - before
        return Estimate(size, at_least, False, brings, can_be_pickled)

    def _is_imported(self, value: Any) -> bool:
        """True if pickle sends only its name, because a module has it under that name."""
        kind = type(value)
        if kind is FunctionType or kind is ModuleType or issubclass(kind, type):
            try:
                reduced = Pickler.reducer_override(self._pickler, value)
            except Exception:  # it can't be pickled
                return True
            return type(reduced) is not tuple or (kind is ModuleType and len(reduced[1]) == 1)
        try:
            module = sys.modules.get(value.__module__)
            name = getattr(value, "__qualname__", None) or value.__name__
            return callable(value) and getattr(module, name, None) is value
        except Exception:  # it has no such attributes, or they raise
            return False


class _Count(ByteCounter):
    until = 0.0

    @property
    def bytes(self) -> int:
        return self.inband + self.outband

    def write(self, data: Any, /) -> None:
        super().write(data)
        self.check()

    def add_arrow(self, data: Any) -> Any:
        """Count Arrow data and pickle nothing: pickling a slice would copy it."""
        self.outband += data.nbytes
        return _as_nothing(data)

    def check(self) -> None:
        if time.thread_time() > self.until:
            raise TimeoutError


class _CountingPickler(Pickler):
    """Calls no code of the user's, and leaves out the globals of functions."""

    def __init__(self, count: _Count, reducers: Reducers) -> None:
        super().__init__(count, reducers, count.add_buffer)
        self.brings: dict[str, Any] = {}
        self._count = count

    def reducer_override(self, obj: Any) -> Any:
        self._count.check()
        reduced = super().reducer_override(obj)
        if type(obj) is FunctionType and type(reduced) is tuple:
            slots = reduced[2][1]
            self.brings.update(slots["__globals__"])
            slots["__globals__"] = {}
        return reduced

    def _find(self, kind: type) -> Reducer | None:
        if is_by_user(kind):
            return _by_default
        if hasattr(kind, "get_total_buffer_size"):
            return self._count.add_arrow
        return super()._find(kind)


def _as_nothing(obj: Any) -> Any:
    return str, (" " * SMALL,)


def is_by_user(kind: type) -> bool:
    """True if code of the user's defines how instances of this type are pickled."""
    methods = (getattr(kind, name, None) for name in _METHODS)
    return any(
        type(method) is FunctionType and method.__module__.partition(".")[0] not in _CALLED
        for method in methods
    )


def _by_default(obj: Any) -> Any:
    """Reduce as if its class didn't define how: to its attributes and items."""
    items = list.__iter__(obj) if isinstance(obj, list) else None
    entries = iter(dict.items(obj)) if isinstance(obj, dict) else None
    state = object.__getstate__(obj)
    return copyreg.__newobj__, (type(obj),), state, items, entries  # type: ignore[attr-defined]
