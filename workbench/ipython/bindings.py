"""Variables of the notebook that are stored objects, so that they travel by reference.

A variable counts as stored as long as it is the same object that `%put` stored or `%get` brought:
the test is identity. Meanwhile the notebook holds a ref to the stored object. `freshness` finds
out whether the object has changed.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from workbench.core.events import About
from workbench.engine.base import ROOT_NOTE
from workbench.ref import ObjectRef
from workbench.report.freshness import held_text
from workbench.serialization.comparison import ChangeCheck, Verdict
from workbench.serialization.known_memory import KnownMemory
from workbench.serialization.object_state import is_immutable

WORTH_KNOWING = 1 << 20
"""Bytes of a pickle from which the time of the put predicts that of a check."""

_COMMON = (int, float, str, bool, tuple)
"""Types whose values Python shares between variables: identity means nothing."""


class Binding:
    """A variable's value and the stored object that it is.

    ``came``: the magic that bound it; ``stored``: the name under which it was put. ``verdict`` is
    the result of a recent comparison.
    """

    def __init__(
        self, value: Any, ref: ObjectRef, came: str, stored: str, check: ChangeCheck
    ) -> None:
        self.ref = ref
        self.came = came
        self.stored = stored
        self.since = time.time()
        self.verdict: Verdict | None = None
        self.can_change = not is_immutable(value)
        self.check = check
        self.value: Callable[[], Any]
        try:
            self.value = weakref.ref(value)
        except TypeError:  # no weak refs to ints, lists, dicts: kept until `prune`
            self.value = lambda: value

    @property
    def age(self) -> float:
        """Seconds since it was bound."""
        return max(time.time() - self.since, 0.0)


class Bindings:
    """Maps variable names to bindings, for the variables of one notebook."""

    def __init__(self) -> None:
        self._known: dict[str, Binding] = {}

    def note(
        self,
        name: str,
        value: Any,
        ref: ObjectRef,
        came: str = "%get",
        stored: str = "",
        about: About | None = None,
        memory: KnownMemory | None = None,
    ) -> Binding:
        """Note that the variable's value is the stored object of ``ref``; see `Binding`.

        ``about`` and what its put noted are given if the object was made from this value.
        """
        known = self._known.get(name)
        is_same = known and known.ref == ref and known.value() is value
        check = known.check if known and is_same else _check_of(about)
        check.memory = memory or check.memory
        noted = self._known[name] = Binding(value, ref, came, stored, check)
        return noted

    def replaced(self, name: str, value: Any) -> None:
        """Note that the variable now shows its stored object."""
        known = self._known[name]
        self.note(name, value, known.ref, known.came, known.stored)

    def find(self, name: str, value: Any) -> tuple[str, Binding] | None:
        """Find the stored object that this value is, noted under this name or another."""
        known = self._known.get(name)
        if known is not None and known.value() is value:
            return name, known
        if value is None or isinstance(value, _COMMON):
            return None
        everything = list(self._known.items())
        return next(((n, each) for n, each in everything if each.value() is value), None)

    def bindings_of(self, ref: ObjectRef) -> list[tuple[str, Binding]]:
        """Return the variables that are this object."""
        return [(name, each) for name, each in self._known.items() if each.ref == ref]

    def held(self) -> dict[str, ObjectRef]:
        """Return the refs by what holds them, for `%why`."""
        return {
            f"{name}{ROOT_NOTE}{held_text(each.came, each.since, _verdict(each))}": each.ref
            for name, each in list(self._known.items())
        }

    def prune(self, variables: Mapping[str, Any]) -> None:
        """Forget variables that are gone or have another value; called after each cell."""
        for name, each in list(self._known.items()):
            if name not in variables or variables[name] is not each.value():
                del self._known[name]

    def clear(self) -> None:
        self._known.clear()


def _check_of(about: About | None) -> ChangeCheck:
    if about is None:
        return ChangeCheck(is_built=True)
    # The time of a short pickle says little: other processes may have had the processor.
    pickling = about.pickle_seconds if about.inband >= WORTH_KNOWING else 0.0
    return ChangeCheck(False, about.pickle_seconds + about.copy_seconds, pickling)


def _verdict(binding: Binding) -> str:
    if not binding.can_change:
        return Verdict.SAME.value
    return "" if binding.verdict is None else binding.verdict.value
