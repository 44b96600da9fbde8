"""What a `%%remote` cell captured and bound: unpacked before it runs; compared, packed after it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import InitVar, dataclass
from functools import partial
from types import ModuleType
from typing import Any

from workbench import context
from workbench.engine.queries import OwnReducers, Pack
from workbench.errors import SerializationError
from workbench.serialization.aliases import in_common
from workbench.serialization.codec import Where
from workbench.serialization.estimate import Estimator
from workbench.serialization.mutations import (
    BUDGET,
    NO_DIFFERENCE,
    Difference,
    Mutations,
    MutationTracker,
)
from workbench.serialization.object_state import ReducedState
from workbench.serialization.packing import OtherSide, PackedValues
from workbench.serialization.shared_memory import ChangedBytes
from workbench.surroundings.modules import objects, value_of

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


@dataclass(eq=False)
class Captured:
    """Captured values by name.

    Values in ``packed`` are new objects, which only this cell has; ``names`` are the others.
    ``code_apart``: what is sent back is kept, too; see `PackedValues`.
    """

    _tracked: Tracked
    packed: InitVar[PackedValues | None]
    names: InitVar[dict[str, Any]]
    _namespace: dict[str, Any] | None = None
    _code_apart: bool = False

    def __post_init__(self, packed: PackedValues | None, names: dict[str, Any]) -> None:
        tracked, namespace = self._tracked, self._namespace
        memo: dict[int, Any] = {}
        self.values: dict[str, Any] = {}
        if packed is not None:
            resolve = partial(value_of, numbered={})
            self.values, memo = packed.open(_ARGUMENTS, resolve, namespace)
        memo |= tracked.by_number({n: names[n] for n in names if n not in self.values})
        self.values |= names
        self._tracker: MutationTracker | None = None
        self._engine = engine = context.get()
        self._reducers = {} if engine is None else engine.ask(OwnReducers())
        if tracked.names and engine is not None:
            values = {name: self.values[name] for name in tracked.names if name in self.values}
            foreign, slow = map(tracked.numbers, (tracked.foreign, tracked.slow))
            foreign += tracked.read_only
            self._tracker = MutationTracker(
                values, memo, self._reducers, foreign=foreign, slow=slow
            )
        self._of_modules: dict[int, str] = {}  # ids of objects that the notebook's modules have
        if namespace is not None:
            namespace |= self.values
            self._before = dict(namespace)

    def mutations(
        self,
        seconds: float = 0.0,
        outputs: Collection[str] = (),
        failed: bool = False,
        apart: Collection[str] = (),
    ) -> Mutations | None:
        """Return what the cell changed in place, and which names it bound; None if nothing.

        Comparing may take a tenth of the ``seconds`` that the cell ran. ``outputs`` are names that
        have results of their own: the large ones come by these alone, if they share nothing.
        ``apart`` are variables of modules that aren't the same in the notebook's.
        """
        self._of_modules = objects(but=apart)
        engine = self._engine
        if engine is None:
            return None
        found = NO_DIFFERENCE
        if self._tracker is not None:
            found = self._tracker.difference(max(BUDGET, seconds / 10))
        bound: dict[str, Any] = {}
        gone: tuple[str, ...] = ()
        brings = self._tracked.brings and not failed
        if self._tracked.brings and self._namespace is not None:
            bound, gone = self._bound(outputs)
            if failed:
                bound = {n: v for n, v in bound.items() if not isinstance(v, ModuleType)}
        if not (found.names or found.unknown or found.unsteady or bound or gone):
            return None
        stayed: dict[str, str] = {}
        packed, lost = None, ""
        if brings and (found.names or bound):
            try:
                packed = self._pack(found, bound)
            except SerializationError:
                stayed = self._without_unpicklable(found, bound)
                try:
                    packed = self._pack(found, bound)
                except SerializationError as error:
                    lost = str(error)
        return Mutations(
            found.names,
            found.unknown,
            found.unsteady,
            found.coarse,
            packed,
            lost,
            tuple(name for name in bound if name not in outputs),
            gone,
            stayed,
        )

    def _bound(self, outputs: Collection[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the names that mean another object now, and those that are gone."""
        assert self._namespace is not None
        before, now = self._before, self._namespace
        bound = {
            name: value
            for name, value in now.items()
            if name not in _NOT_VARIABLES
            and (name in outputs or before.get(name, _NOTHING) is not value)
        }
        gone = tuple(name for name in before if name not in now)
        estimator = Estimator(self._reducers)
        new = [n for n in outputs if n in bound and before.get(n, _NOTHING) is not bound[n]]
        sizes = {name: estimator.estimate(bound[name]) for name in new}
        large = {
            name
            for name, size in sizes.items()
            if size.bytes > TOGETHER or (size.at_least and size.can_be_pickled)
        }
        if large:
            pairs, _ = in_common({**self.values, **bound}, large)
            for name in large.difference(*pairs):
                del bound[name]
        return bound, gone

    def _pack(self, found: Difference, bound: dict[str, Any]) -> PackedValues:
        names = {**{n: self.values[n] for n in found.names if n in self.values}, **bound}
        states = dict(map(_by_bytes, found.objects.items()))
        value = states, found.renewed, found.variables, bound
        assert self._engine is not None
        there = OtherSide(
            found.numbers,
            self._namespace,
            found.arrays,
            self._of_modules,
            code_apart=self._code_apart,
        )
        return self._engine.ask(Pack(value, lambda: names, there))[0]

    def _without_unpicklable(self, found: Difference, bound: dict[str, Any]) -> dict[str, str]:
        """Drop what can't be pickled from the bound names; return those, with the reasons."""
        stayed: dict[str, str] = {}
        for name, value in list(bound.items()):
            try:
                self._pack(found._replace(objects={}, renewed={}, variables={}), {name: value})
            except SerializationError as error:
                stayed[name] = error.failures[0].why if error.failures else str(error)
                del bound[name]
        return stayed


def _by_bytes(item: tuple[int, ReducedState]) -> tuple[int, ReducedState]:
    """Have a changed array send its bytes: not as a view of the one that is to get them."""
    number, state = item
    if state.kind == "array" and not state.parts.dtype.hasobject:
        return number, state._replace(parts=state.parts.view(ChangedBytes))
    if state.kind in ("MaskedArray", "subclass") and not state.parts[0].dtype.hasobject:
        data, *others = state.parts
        return number, state._replace(parts=(data.view(ChangedBytes), *others))
    return item


TOGETHER = 1_000_000
"""Bytes up to which a variable travels with all others, as one graph of objects: a stored one that
shares an object with another goes by value, an output comes back with what the cell changed."""

_NOT_VARIABLES = frozenset({"__name__", "__builtins__", "__warningregistry__", "get_ipython"})

_NOTHING = object()
