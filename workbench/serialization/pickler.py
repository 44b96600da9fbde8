"""The pickler: cloudpickle's reducers, buffers out of band, and hooks of our own for some types.

A subclass with its own table, so that plain ``cloudpickle.dumps`` in the same process is not
changed by anything registered here.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle

Reducer = Callable[[Any], Any]


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """One dump. ``reducers`` maps exact types to what ``__reduce__`` would return for them."""

    def __init__(
        self,
        file: io.BytesIO,
        reducers: Mapping[type, Reducer],
        buffer_callback: Callable[[pickle.PickleBuffer], Any] | None = None,
    ) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffer_callback)
        self._reducers = reducers

    def reducer_override(self, obj: Any) -> Any:
        """Asked by the C pickler for every object that isn't a plain builtin."""
        reducer = self._reducers.get(type(obj))
        if reducer is not None:
            return reducer(obj)
        return super().reducer_override(obj)


def dumps(value: Any, reducers: Mapping[type, Reducer] | None = None) -> bytes:
    """One in-band pickle."""
    file = io.BytesIO()
    Pickler(file, reducers or {}).dump(value)
    return file.getvalue()
