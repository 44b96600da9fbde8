"""Updates the notebook's objects to what a remote cell made of its copies of them.

An update is all or nothing, even if Ctrl-C or an error in the user's code stops it halfway.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import gc
from collections.abc import Collection, Mapping, Sequence
from types import ModuleType
from typing import Any

from workbench.call_site import is_persons
from workbench.engine.base import Engine
from workbench.engine.queries import OwnReducers, Pack
from workbench.host.captured import Tracked
from workbench.ref import ObjectRef
from workbench.serialization.codec import Where
from workbench.serialization.libraries import OwnArray
from workbench.serialization.merging import MERGED, ConflictError, merged
from workbench.serialization.mutations import (
    NO_DIFFERENCE,
    Difference,
    Mutations,
    MutationTracker,
)
from workbench.serialization.object_state import (
    FIXED,
    ReducedState,
    bindings,
    can_change,
    can_restore,
    is_array,
    is_builtin,
    is_immutable,
    is_read_only,
    object_state_of,
    restore,
)
from workbench.serialization.packing import OtherSide
from workbench.surroundings.modules import value_of
from workbench.system.ki_protection import ki_protection

_CHANGED = Where("what the cell changed", "in the notebook")


class Originals:
    """What a cell captured, as the notebook has it. Keeps those objects alive.

    ``packed``: what travels by value, if any of it has parts or globals; ``names``: the rest, to
    be passed as it is. ``tracked``: what the worker must compare;
    ``slow``: names of stored objects that take longer to pickle than comparing may. ``of_modules``:
    ids of objects that the worker's modules have, too, with their names there. ``code_apart``: have
    all that travels by value in ``packed``, in the form for `result_cache.fingerprints`.
    """

    def __init__(
        self,
        engine: Engine,
        captured: dict[str, Any],
        variables: dict[str, Any],
        items: tuple[str, Sequence[Any]] = ("", ()),
        slow: Collection[str] = (),
        of_modules: Mapping[int, str] = {},
        code_apart: bool = False,
    ) -> None:
        self._engine = engine
        by_value = {n: each for n, each in captured.items() if not isinstance(each, ObjectRef)}
        own = {n: variables.get(n, ref) for n, ref in captured.items() if n not in by_value}
        changeable = [n for n, each in {**by_value, **own}.items() if _may_change(each, n in own)]
        item, several = items
        if any(map(can_change, several)):
            changeable.append(item)
        foreign = tuple(n for n in changeable if isinstance(own.get(n), ObjectRef))
        self.tracked = Tracked(tuple(changeable), foreign, (*(n for n in changeable if n in slow),))
        self.values = {**by_value, **{n: each for n, each in own.items() if n not in foreign}}
        self.packed, self._memo, self.names = None, None, captured
        plain = {n for n, each in by_value.items() if _needs_nothing(each)}
        if code_apart or not by_value.keys() <= plain.difference(changeable):
            there = OtherSide(namespace=variables, of_modules=of_modules, code_apart=code_apart)
            pack = Pack(by_value, lambda: by_value, there)
            self.packed, self._memo = engine.ask(pack)
            self.names = {n: each for n, each in captured.items() if n not in by_value}
            # All arrays but those of objects travel as such buffers. Checking the memo takes longer
            # than packing did.
            if not all(buffer.flags.writeable for buffer in self.packed.buffers):
                numbers = tuple(n for n, each in self.objects().items() if is_read_only(each))
                self.tracked = dataclasses.replace(self.tracked, read_only=numbers)
        self._tracker: MutationTracker | None = None
        self._before: dict[int, ReducedState] = {}  # of objects whose changes can be merged

    def objects(self) -> dict[int, Any]:
        """Return the numbered objects by number: the worker's copies have the same numbers."""
        by_reference = {n: self.values[n] for n in self.names if n in self.values}
        paused = gc.isenabled()  # for a million objects, collection would quadruple the time
        gc.disable()
        try:
            packed = {} if self._memo is None else dict(self._memo.copy().values())
        finally:
            if paused:
                gc.enable()
        own = {n: each.array for n, each in packed.items() if type(each) is OwnArray}
        return packed | own | self.tracked.by_number(by_reference)

    def watch(self) -> None:
        """Remember the objects' state, to find out later whether the notebook changed them."""
        if not self.tracked.names:
            return
        values = {n: self.values[n] for n in self.tracked.names if n in self.values}
        reducers = self._engine.ask(OwnReducers())
        slow = self.tracked.numbers(self.tracked.slow)
        objects = self.objects()
        self._tracker = MutationTracker(values, objects, reducers, slow=slow, opened=False)
        self._before = {
            number: object_state_of(each, reducers)
            for number, each in objects.items()
            if type(each).__name__ in MERGED and is_builtin(each)
        }

    def changed_here(self) -> Difference:
        """Return what the notebook itself changed since `watch`."""
        return NO_DIFFERENCE if self._tracker is None else self._tracker.difference()

    def update(
        self,
        mutations: Mutations,
        variables: dict[str, Any],
        here: Difference = NO_DIFFERENCE,
    ) -> dict[str, Any]:
        """Change the notebook's objects to the state of the worker's; return what the cell bound.

        An object that can't be changed in place is replaced by a new one, in all variables that
        had it, and in the captured objects that contain it. ``here`` is what the notebook changed,
        too: objects that both changed are merged.

        Raises
        ------
        ConflictError
            If they can't be merged. Then all is as it was.
        SerializationError
            If something can't be built here.
        ValueError
            If an array can't be written to any more.
        Exception
            Errors of the user's code (``__setstate__``). Then all is as it was.
        """
        return self._put_back(mutations, self.objects(), self.values, variables, here)

    def copied(self, mutations: Mutations, name: str) -> Any:
        """Return the worker's value of one variable as a new object; the notebook's own stay."""
        memo: dict[int, Any] = {}
        copies: dict[str, Any] = copy.deepcopy(self.values, memo)
        own = {number: memo.get(id(obj), obj) for number, obj in self.objects().items()}
        bound = self._put_back(mutations, own, dict(copies), copies)
        return {**copies, **bound}[name]

    def _put_back(
        self,
        mutations: Mutations,
        own: Mapping[int, Any],
        values: Mapping[str, Any],
        variables: dict[str, Any],
        here: Difference = NO_DIFFERENCE,
    ) -> dict[str, Any]:
        assert mutations.packed is not None
        opened = mutations.packed.open(_CHANGED, lambda n: value_of(n, own), variables)
        states, renewed, anew, bound = opened[0]
        # What is bound anew, or comes with all its parts, replaces what was changed inside it.
        if {*here.names} & {*anew, *mutations.coarse} or {*here.variables} & {*mutations.names}:
            raise ConflictError
        for number in here.objects.keys() & states.keys():
            now = self._state(own[number], states[number])
            states[number] = self._merged(number, now, states[number])
        instead = {id(own[number]): each for number, each in renewed.items() if number in own}
        instead |= {id(values[name]): value for name, value in anew.items() if name in values}
        variables |= {name: value for name, value in anew.items() if name not in values}
        updates = []
        for number, new in states.items():
            value = own[number]
            if not can_restore(value, new):
                raise ValueError("an array is read-only here, or of another shape or type")
            old = self._state(value, new)
            if old.kind != new.kind:
                raise ValueError(f"a {type(value).__name__} can't be changed in place")
            updates.append((value, new, old))
        # First what may fail, last what can't: arrays, of which no old copy is kept.
        updates.sort(key=lambda update: _ORDER.get(update[1].kind, 1))
        with ki_protection():
            _all_or_nothing(updates)
            for name, value in list(variables.items()):
                if id(value) in instead:
                    variables[name] = instead[id(value)]
        return bound  # type: ignore[no-any-return]

    def _merged(self, number: int, here: ReducedState, there: ReducedState) -> ReducedState:
        if number not in self._before:
            raise ConflictError
        return merged(self._before[number], here, there)

    def _state(self, value: Any, new: ReducedState) -> ReducedState:
        if new.kind != "bindings":
            return object_state_of(value, self._engine.ask(OwnReducers()))
        before = bindings(value)
        return ReducedState(
            "bindings", {name: before[name] for name in new.parts if name in before}
        )


def _needs_nothing(value: Any) -> bool:
    """True if it can be opened before the worker has the notebook's settings: a person's modules
    may need its ``sys.path``."""
    if isinstance(value, ModuleType):
        return not is_persons(value.__name__)
    return is_immutable(value) or type(value) in FIXED


def _may_change(value: Any, is_stored: bool) -> bool:
    """True if it can be changed in place; stored arrays are read-only."""
    if isinstance(value, ObjectRef):
        return True
    return can_change(value) and not (is_stored and is_array(value))


_ORDER = {"state": 0, "array": 2}


def _all_or_nothing(updates: list[tuple[Any, ReducedState, ReducedState]]) -> None:
    done: list[tuple[Any, ReducedState, ReducedState, dict[str, Any] | None]] = []
    try:
        for value, new, old in updates:
            attributes = getattr(value, "__dict__", None) if new.kind == "state" else None
            done.append((value, new, old, attributes and dict(attributes)))
            restore(value, new, old)
    except BaseException:
        for value, new, old, attributes in reversed(done):
            with contextlib.suppress(Exception):
                restore(value, old, new)
            if attributes is not None:  # all attributes, also those that aren't pickled
                vars(value).clear()
                vars(value).update(attributes)
        raise
