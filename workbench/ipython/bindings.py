"""Which notebook variables are what the store has, so that they travel by reference.

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
"""What variables have in common without anybody having meant it."""


class Bindings:
    """Variable name → ref, for the variables of one notebook."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[ObjectRef, Callable[[], Any]]] = {}

    def note(self, name: str, value: Any, ref: ObjectRef) -> None:
        """The variable's value is what the store has as ``ref``."""
        try:
            self._known[name] = ref, weakref.ref(value)
        except TypeError:  # ints, lists, dicts can't be watched: kept until `prune`
            self._known[name] = ref, lambda: value

    def stored(self, name: str, value: Any) -> ObjectRef | None:
        """What this value of the variable was stored as, under this name or another."""
        ref, watch = self._known.get(name, (None, None))
        if watch is not None and watch() is value:
            return ref
        if value is None or isinstance(value, _COMMON):
            return None
        known = list(self._known.values())
        return next((ref for ref, watch in known if watch() is value), None)

    def held(self) -> dict[str, ObjectRef]:
        """The refs, under what a person can do about each: for who asks what holds an object."""
        return {
            f"{name}{WHERE}, a variable that is what the store has": ref
            for name, (ref, _) in list(self._known.items())
        }

    def prune(self, variables: Mapping[str, Any]) -> None:
        """Forget what is no variable any more. After each cell."""
        for name, (_, watch) in list(self._known.items()):
            if name not in variables or variables[name] is not watch():
                del self._known[name]

    def clear(self) -> None:
        """Forget all: the session is over."""
        self._known.clear()
