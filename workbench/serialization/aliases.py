"""Which values have an object in common that can be changed in place.

Looks into containers, functions and instances of classes that travel by value, and runs none of
their code. Into what libraries make it doesn't look: those share much that nobody changes.
"""

from __future__ import annotations

import enum
import functools
import gc
from collections import OrderedDict, defaultdict, deque
from collections.abc import Collection, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from workbench.serialization.object_state import FIXED, bindings, travels_by_value

MOST = 100_000
"""Things looked at in all: some 20 ms."""

_ENTERED = frozenset(
    {list, tuple, dict, set, frozenset, deque, defaultdict, OrderedDict, MethodType}
    | {functools.partial}
)
_FIXED_OURSELVES = frozenset({tuple, frozenset, MethodType, FunctionType, CodeType})


def in_common(
    values: Mapping[str, Any], apart: Collection[str]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Pairs of names whose values have such an object in common, one of those ``apart`` first; and
    the names of those that weren't all looked through: there are more than `MOST` things.
    """
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
        self.owners: dict[int, str] = {}  # by the object's id: the values keep them alive
        self.found: dict[tuple[str, str], None] = {}
        self.cut: list[str] = []
        self._left = MOST

    def through(self, name: str, value: Any) -> None:
        """In levels, each of them at once: that is ten times as fast as one by one."""
        seen: set[int] = set()
        level = [value]
        while level:
            kinds = {kind: _kind(kind) for kind in {*map(type, level)}}
            entered = {kind for kind, (enters, _) in kinds.items() if enters}
            told = {kind for kind, (_, is_told) in kinds.items() if is_told}
            if not entered and not told:
                return
            new = {id(each): each for each in level if type(each) in entered | told}
            level = [each for key, each in new.items() if key not in seen]
            if len(level) > self._left:
                self.cut.append(name)
                return
            self._left -= len(level)
            seen |= new.keys()
            for each in level:
                if type(each) in told and (of := self.owners.setdefault(id(each), name)) != name:
                    self.found[name, of] = None
            level = _inside([each for each in level if type(each) in entered])


def _inside(level: list[Any]) -> list[Any]:
    functions = [each for each in level if type(each) is FunctionType]
    arrays = [each for each in level if type(each) is np.ndarray]
    others = [each for each in level if type(each) not in (FunctionType, np.ndarray)]
    found = gc.get_referents(*others)
    for function in functions:  # their globals aren't all theirs
        if travels_by_value(function):
            found += bindings(function).values()
    for array in arrays:
        if array.dtype.hasobject:
            found += array.ravel().tolist()
    return found


def _kind(kind: type) -> tuple[bool, bool]:
    """Whether to look into what is of this type, and whether it can be changed itself."""
    if kind in FIXED or issubclass(kind, type | enum.Enum | np.dtype):
        return False, False
    if kind.__module__.partition(".")[0] == "workbench":
        return False, False
    enters = kind in _ENTERED or kind in (FunctionType, np.ndarray) or travels_by_value(kind)
    return enters, kind not in _FIXED_OURSELVES
