"""Functions that were sent, and whether the globals they read are the same. Sends nothing."""

from __future__ import annotations

import builtins
import dis
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

from workbench.ref import ObjectRef

_ABSENT = object()
_GONE = object()


class Export:
    """The stored form of a function, good as long as the globals it took along are the same.

    A notebook's function refers to other functions and classes by their names. When a cell
    defines one of those again, the function has to be sent again. What is changed in place, an
    element of a list for instance, isn't noticed.
    """

    __slots__ = ("_watched", "ref")

    def __init__(self, ref: ObjectRef, functions: Sequence[FunctionType]) -> None:
        self.ref = ref
        self._watched: list[tuple[dict[str, Any], str, Callable[[], Any]]] = []
        for function in functions:
            namespace = function.__globals__
            for name in _global_names(function.__code__):
                value = namespace.get(name, _ABSENT)
                if value is not _ABSENT or not hasattr(builtins, name):
                    self._watched.append((namespace, name, _watch(value)))

    def is_current(self) -> bool:
        """Whether each of those names still means the same object."""
        for namespace, name, value in self._watched:  # at each submit: faster than `all`
            if namespace.get(name, _ABSENT) is not value():
                return False
        return True


def _watch(value: Any) -> Callable[[], Any]:
    try:
        watched = weakref.ref(value)
    except TypeError:  # numbers, text, lists: held
        return lambda: value

    def alive() -> Any:
        found = watched()
        return _GONE if found is None else found  # the name may mean None now

    return alive


def _global_names(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL" or instruction.opname == "LOAD_NAME":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)
