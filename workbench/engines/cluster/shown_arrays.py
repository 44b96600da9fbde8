"""Which objects of a cluster's session the arrays of this process show: they keep these.

Only plain arrays are known: what was read as one. Any thread may call.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from workbench.engines.cluster.entries import KnownObject
from workbench.expressions import describe


class ShownArrays:
    """See the module. Of each object the one array is noted that all its views have as base."""

    def __init__(self) -> None:
        self._arrays: dict[int, tuple[weakref.ref[Any], KnownObject]] = {}  # by id()

    def add(self, array: Any, entry: KnownObject) -> None:
        """It shows all of that object's bytes."""
        key = id(array)

        def gone(_: Any) -> None:
            self._arrays.pop(key, None)

        self._arrays[key] = weakref.ref(array, gone), entry

    def object_of(self, array: Any) -> int | None:
        """The object whose bytes an array shows."""
        thing = array
        while isinstance(thing, np.ndarray | memoryview):
            found = self._arrays.get(id(thing))
            if found is not None and found[0]() is thing:
                return found[1].id
            thing = thing.base if isinstance(thing, np.ndarray) else thing.obj
        return None

    def objects(self) -> dict[int, KnownObject]:
        """All that are shown."""
        arrays = list(self._arrays.values())
        return {entry.id: entry for array, entry in arrays if array() is not None}

    def array_of(self, id: int) -> Any:
        """The array that all views of an object have as base; None if there is none."""
        found = (array() for array, entry in list(self._arrays.values()) if entry.id == id)
        return next((each for each in found if each is not None), None)

    def whole(self, value: Any) -> KnownObject | None:
        """The object that this value shows all of, so that the one can be sent for the other."""
        if type(value) is not np.ndarray or value.base is None:
            return None
        found = self._arrays.get(id(value.base))
        shown = None if found is None else found[0]()
        if found is None or shown is None or shown is not value.base:
            return None
        same = value.nbytes == shown.nbytes and value.ctypes.data == shown.ctypes.data
        if not same or not (value.flags.c_contiguous or value.flags.f_contiguous):
            return None
        about = found[1].about
        if about is None or about.type != describe(value):
            return None
        return found[1]
