"""What a `%%remote` cell captured by value: opened before it runs, compared after it."""

from __future__ import annotations

from typing import Any

from workbench import context
from workbench.errors import SerializationError
from workbench.serialization.codec import Where
from workbench.serialization.mutations import Mutations, MutationTracker
from workbench.serialization.packing import PackedValues

LOOK = 0.1
"""Seconds that a look at all objects may take. At the end it may take a tenth of the cell's time,
if that is more."""

_ARGUMENTS = Where("arguments", "on the worker")


class Captured:
    """The values under their names: new objects, which only this cell has.

    ``tracked`` are the names that have something to compare.
    """

    def __init__(self, packed: PackedValues, tracked: tuple[str, ...]) -> None:
        self.values: dict[str, Any]
        self.values, memo = packed.open(_ARGUMENTS)
        self._tracker: MutationTracker | None = None
        engine = context.get()
        if tracked and engine is not None:
            values = {name: self.values[name] for name in tracked}
            self._tracker = MutationTracker(values, memo, engine.reducers(), LOOK)

    def mutations(self, seconds: float, send: bool) -> Mutations | None:
        """What the cell, which ran for so long, changed in place; ``send``: with what it is now.

        None if that is nothing.
        """
        if self._tracker is None:
            return None
        engine = context.get()
        assert engine is not None
        found = self._tracker.difference(max(LOOK, seconds / 10))
        if not (found.names or found.unknown):
            return None
        packed, lost = None, ""
        if send and found.names:
            parts = {name: self.values[name] for name in found.names if name in self.values}
            value = found.objects, found.variables
            try:
                packed, _ = engine.pack(value, lambda: parts, found.numbers)
            except SerializationError as error:
                lost = str(error)
        return Mutations(found.names, found.unknown, packed, lost)
