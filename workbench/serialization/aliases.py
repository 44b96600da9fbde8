"""Finds variables that share an object that can be changed in place.

Looks into containers, functions and instances of classes that travel by value, and runs none of
their code. Doesn't look into objects of libraries: those share much that nobody changes.
"""

from __future__ import annotations

import enum
import functools
import gc
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from workbench.serialization.object_state import FIXED, bindings, is_read_only, travels_by_value

MOST = 100_000
"""Objects examined in all, those that can be changed or have parts: some 80 ms."""

MOST_REFERENCES = 500_000
"""References followed in all, most of them to numbers and texts: some 20 ms more."""

_ENTERED = frozenset(
    {list, tuple, dict, set, frozenset, deque, defaultdict, OrderedDict} | {functools.partial}
)
_FIXED_OURSELVES = frozenset({tuple, frozenset, FunctionType, CodeType})


def in_common(
    values: Mapping[str, Any], apart: Collection[str]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return pairs of names whose values share a mutable object, the name in ``apart`` first; and
    the names of values that were too large to search completely (more than `MOST` objects or
    `MOST_REFERENCES` references in all). A read-only array doesn't count as mutable."""
    names = [*(name for name in values if name not in apart), *apart]
    names = [name for name in names if _kind(type(values[name])) != (False, False)]
    if len(names) < 2:
        return [], []
    walk = _Walk()
    for name in names:
        if name != names[-1] or walk.owners:
            walk.through(name, values[name])
    return [pair for pair in walk.found if pair[0] in apart], walk.cut


class _Walk:
    def __init__(self) -> None:
        self.owners: dict[int, str] = {}  # by the object's id; the values keep the objects alive
        self.found: dict[tuple[str, str], None] = {}
        self.cut: list[str] = []
        self._left = MOST
        self._references_left = MOST_REFERENCES

    def through(self, name: str, value: Any) -> None:
        """Search a value level by level, which is ten times as fast as object by object."""
        seen: set[int] = set()
        level = [value]
        while level:
            kinds = {kind: _kind(kind) for kind in {*map(type, level)}}
            entered = {kind for kind, (enters, _) in kinds.items() if enters}
            told = {kind for kind, (_, is_told) in kinds.items() if is_told}
            if not entered and not told:
                return
            met = [each for each in level if type(each) in entered | told]
            new: dict[int, Any] = {}
            for start in range(0, len(met), MOST):  # in portions: soon shows if too many
                some = met[start : start + MOST]
                new.update(zip(map(id, some), some, strict=True))
                if len(new) > self._left + len(seen):
                    self.cut.append(name)
                    return
            level = [each for key, each in new.items() if key not in seen]
            self._left -= len(level)
            seen |= new.keys()
            for each in level:
                # A read-only array stays by reference: a write to it is an error, there as here.
                if type(each) in told and not (type(each) is np.ndarray and is_read_only(each)):
                    of = self.owners.setdefault(id(_memory_of(each)), name)
                    if of != name:
                        self.found[name, of] = None
            level = [each for each in level if type(each) in entered]
            self._references_left -= _references(level)
            if self._left < 0 or self._references_left < 0:
                self.cut.append(name)
                return
            level = _inside(level)


def _memory_of(value: Any) -> Any:
    """Return the array that has the memory of an array; anything else stands for itself."""
    while type(value) is np.ndarray and type(value.base) is np.ndarray:
        value = value.base
    return value


def _references(level: list[Any]) -> int:
    """Count the references in containers and arrays. Runs no ``__len__`` of a user's class."""
    lengths = {kind: _length(kind) for kind in {*map(type, level)}}
    return sum(length(each) for each in level if (length := lengths[type(each)]) is not None)


def _length(kind: type) -> Callable[[Any], int] | None:
    if kind is np.ndarray:
        return lambda array: array.size if array.dtype.hasobject else 0
    return next((_SIZED[base] for base in kind.__mro__ if base in _SIZED), None)


_SIZED: dict[type, Callable[[Any], int]] = {
    kind: kind.__len__ for kind in (list, tuple, dict, set, frozenset, deque)
}
"""Containers written in C: they know their length without iterating."""


def _inside(level: list[Any]) -> list[Any]:
    functions = [each for each in level if type(each) is FunctionType]
    arrays = [each for each in level if type(each) is np.ndarray]
    others = [each for each in level if type(each) not in (FunctionType, np.ndarray)]
    found = gc.get_referents(*others)
    for function in functions:  # most of a function's globals aren't its own
        if travels_by_value(function):
            found += bindings(function).values()
    for array in arrays:
        if array.dtype.hasobject:
            found += array.ravel().tolist()
    return found


def _kind(kind: type) -> tuple[bool, bool]:
    """Return whether to look into instances of this type, and whether they are mutable."""
    if kind is MethodType:
        return True, False
    if kind in FIXED or issubclass(kind, type | enum.Enum | np.dtype):
        return False, False
    if kind.__module__.partition(".")[0] == "workbench":
        return False, False
    enters = kind in _ENTERED or kind in (FunctionType, np.ndarray) or travels_by_value(kind)
    return enters, kind not in _FIXED_OURSELVES
