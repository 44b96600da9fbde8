"""What a remote cell took along by value, and the notebook's own objects brought up to it.

An update is all or nothing, also for Ctrl-C and for code of the user's that fails halfway.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from typing import Any

from workbench.engines.base import Engine
from workbench.ki_protection import ki_protection
from workbench.serialization.codec import Where
from workbench.serialization.mutations import Mutations, MutationTracker
from workbench.serialization.object_state import (
    ReducedState,
    bindings,
    can_change,
    can_restore,
    restore,
    state_of,
)

LOOK = 0.1
"""Seconds that a look at what was sent may take, to know later whether the notebook changed it."""

_CHANGED = Where("what the cell changed", "in the notebook")


class TakenAlong:
    """The values a cell captured, as the notebook has them; they live as long as this.

    ``tracked`` are those of which something can be changed in place.
    """

    def __init__(self, engine: Engine, values: dict[str, Any]) -> None:
        self._engine = engine
        self.values = values
        self.tracked = tuple(name for name, value in values.items() if can_change(value))
        self.packed, self._memo = engine.pack(values, lambda: values)
        self._tracker: MutationTracker | None = None

    def objects(self) -> dict[int, Any]:
        """Those with a number, by it: the worker has the same numbers for its own."""
        return dict(self._memo.copy().values())

    def watch(self) -> None:
        """Remember what they are, so that it is known later whether the notebook changed them."""
        values = {name: self.values[name] for name in self.tracked}
        reducers = self._engine.reducers()
        self._tracker = MutationTracker(values, self.objects(), reducers, LOOK)

    def changed_here(self) -> tuple[str, ...]:
        """The variables whose objects the notebook itself has changed since `watch`."""
        return self._tracker.difference(LOOK).names if self._tracker is not None else ()

    def update(self, mutations: Mutations, variables: dict[str, Any]) -> None:
        """Make the notebook's objects what the worker's are now.

        What can't be changed in place is a new object, in all variables that had the old one.

        Raises
        ------
        SerializationError
            If something can't be built here.
        Exception
            What code of the user's raises (``__setstate__``). Then all is as it was.
        """
        self._put_back(mutations, self.objects(), self.values, variables)

    def copied(self, mutations: Mutations, name: str) -> Any:
        """The worker's value of one variable, as a new object; the notebook's own stay."""
        memo: dict[int, Any] = {}
        copies: dict[str, Any] = copy.deepcopy(self.values, memo)
        own = {number: memo.get(id(obj), obj) for number, obj in self.objects().items()}
        self._put_back(mutations, own, dict(copies), copies)
        return copies[name]

    def _put_back(
        self,
        mutations: Mutations,
        own: Mapping[int, Any],
        values: Mapping[str, Any],
        variables: dict[str, Any],
    ) -> None:
        assert mutations.packed is not None
        (states, anew), _ = mutations.packed.open(_CHANGED, own.__getitem__)
        renewed = {id(values[name]): value for name, value in anew.items()}
        updates = []
        for number, new in states.items():
            value = own[number]
            if can_restore(value, new):
                updates.append((value, new, self._state(value, new)))
            else:  # an array of read-only bytes
                renewed[id(value)] = new.parts
        # What may fail comes first, what can't last: arrays, of which there is no copy to go back.
        updates.sort(key=lambda update: _ORDER.get(update[1].kind, 1))
        with ki_protection():
            _all_or_nothing(updates)
            for name, value in list(variables.items()):
                if id(value) in renewed:
                    variables[name] = renewed[id(value)]

    def _state(self, value: Any, new: ReducedState) -> ReducedState:
        if new.kind != "bindings":
            return state_of(value, self._engine.reducers())
        before = bindings(value)
        return ReducedState(
            "bindings", {name: before[name] for name in new.parts if name in before}
        )


_ORDER = {"state": 0, "array": 2}


def _all_or_nothing(updates: list[tuple[Any, ReducedState, ReducedState]]) -> None:
    done: list[tuple[Any, ReducedState, ReducedState]] = []
    try:
        for update in updates:
            done.append(update)
            restore(*update)
    except BaseException:
        for value, new, old in reversed(done):
            with contextlib.suppress(Exception):
                restore(value, old, new)
        raise
