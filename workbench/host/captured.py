"""Values that a `%%remote` cell captured: unpacked before it runs, compared after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from workbench import context
from workbench.engine.queries import OwnReducers, Pack
from workbench.errors import SerializationError
from workbench.serialization.codec import Where
from workbench.serialization.mutations import BUDGET, Mutations, MutationTracker
from workbench.serialization.packing import PackedValues

_ARGUMENTS = Where("arguments", "on the worker")


@dataclass(frozen=True, slots=True)
class Tracked:
    """Which captured names of a cell to compare at its end.

    ``names`` are those that can change in place. Of those that came by reference, some are
    ``foreign``: the notebook has no such object; and some ``slow``: pickling them takes longer
    than comparing may. ``read_only``: numbers of arrays that are read-only in the notebook.
    ``brings``: changes are sent back.
    """

    names: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    read_only: tuple[int, ...] = ()
    brings: bool = False

    def numbers(self, names: Iterable[str]) -> list[int]:
        """Return numbers for names that came by reference, as the common pickle lacks them."""
        return [-1 - self.names.index(name) for name in names]

    def by_number(self, values: Mapping[str, Any]) -> dict[int, Any]:
        """Return the values that came by reference, by their numbers."""
        return {-1 - n: values[name] for n, name in enumerate(self.names) if name in values}


NOTHING_TRACKED = Tracked()


class Captured:
    """Captured values by name.

    Values in ``packed`` are new objects, which only this cell has; ``names`` are the others.
    """

    def __init__(
        self, tracked: Tracked, packed: PackedValues | None, names: dict[str, Any]
    ) -> None:
        memo: dict[int, Any] = {}
        self.values: dict[str, Any] = {}
        if packed is not None:
            self.values, memo = packed.open(_ARGUMENTS)
        memo |= tracked.by_number({n: names[n] for n in names if n not in self.values})
        self.values |= names
        self._tracked = tracked
        self._tracker: MutationTracker | None = None
        self._engine = engine = context.get()
        if tracked.names and engine is not None:
            values = {name: self.values[name] for name in tracked.names if name in self.values}
            foreign, slow = map(tracked.numbers, (tracked.foreign, tracked.slow))
            foreign += tracked.read_only
            self._tracker = MutationTracker(
                values, memo, engine.ask(OwnReducers()), foreign=foreign, slow=slow
            )

    def mutations(
        self, seconds: float = 0.0, outputs: Mapping[str, Any] | None = None, failed: bool = False
    ) -> Mutations | None:
        """Return what the cell changed in place; None if there is nothing to report.

        Comparing may take a tenth of the cell's ``seconds``. ``outputs``: what it assigned.
        """
        engine = self._engine
        if self._tracker is None or engine is None:
            return None
        found = self._tracker.difference(max(BUDGET, seconds / 10))
        same = {
            name: found.numbers[id(value)]
            for name, value in (outputs or {}).items()
            if id(value) in found.numbers
        }
        if not (found.names or found.unknown or found.unsteady or same):
            return None
        packed, lost = None, ""
        if self._tracked.brings and found.names and not failed:
            parts = {name: self.values[name] for name in found.names if name in self.values}
            value = found.objects, found.variables
            try:
                packed, _ = engine.ask(Pack(value, lambda: parts, found.numbers))
            except SerializationError as error:
                lost = str(error)
        return Mutations(
            found.names, found.unknown, found.unsteady, found.coarse, packed, lost, same
        )
