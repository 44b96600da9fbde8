"""Which notebook variables are stored objects themselves, so that they travel by reference.

A variable counts as stored as long as it is the very object that `%put` stored or `%get` brought:
the test is identity. While it is, the notebook holds a ref to the stored object.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from workbench.engines.base import WHERE
from workbench.ref import ObjectRef

_COMMON = (int, float, str, bool, tuple)
"""Types whose values Python shares between variables: identity means nothing."""


class Bindings:
    """Variable name → ref, for the variables of one notebook."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[ObjectRef, Callable[[], Any]]] = {}

    def note(self, name: str, value: Any, ref: ObjectRef) -> None:
        """The variable's value is the stored object that ``ref`` refers to."""
        try:
            self._known[name] = ref, weakref.ref(value)
        except TypeError:  # ints, lists, dicts can't be watched: kept until `prune`
            self._known[name] = ref, lambda: value

    def stored(self, name: str, value: Any) -> ObjectRef | None:
        """The ref of the object that this value is, noted under this name or another."""
        ref, watch = self._known.get(name, (None, None))
        if watch is not None and watch() is value:
            return ref
        if value is None or isinstance(value, _COMMON):
            return None
        known = list(self._known.values())
        return next((ref for ref, watch in known if watch() is value), None)

    def held(self) -> dict[str, ObjectRef]:
        """The refs by what holds them, for `%why`."""
        return {
            f"{name}{WHERE}, the stored object itself": ref
            for name, (ref, _) in list(self._known.items())
        }

    def prune(self, variables: Mapping[str, Any]) -> None:
        """After each cell: forget variables that are gone or have another value."""
        for name, (_, watch) in list(self._known.items()):
            if name not in variables or variables[name] is not watch():
                del self._known[name]

    def clear(self) -> None:
        self._known.clear()
