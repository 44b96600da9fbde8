"""Which notebook variables are stored objects, so that they travel by reference.

A variable counts as stored as long as it is the very object that `%put` stored or `%get` brought:
the test is identity. While it is, the notebook holds a ref to the stored object. Whether it has
changed meanwhile, `freshness` finds out.
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
from workbench.serialization.object_state import is_immutable

WORTH_KNOWING = 1 << 20
"""Bytes of a pickle from which what the put took says what a check would."""

_COMMON = (int, float, str, bool, tuple)
"""Types whose values Python shares between variables: identity means nothing."""


class Binding:
    """A variable's value and the stored object that it is.

    ``came``: by what; ``stored``: the name under which the variable was put; ``about``: what that
    took. ``verdict`` is there while somebody has just compared.
    """

    def __init__(
        self, value: Any, ref: ObjectRef, came: str, stored: str = "", about: About | None = None
    ) -> None:
        self.ref = ref
        self.came = came
        self.stored = stored
        self.since = time.time()
        self.verdict: Verdict | None = None
        self.can_change = not is_immutable(value)
        self.check = _check_of(about)
        self.value: Callable[[], Any]
        try:
            self.value = weakref.ref(value)
        except TypeError:  # ints, lists, dicts can't be watched: kept until `prune`
            self.value = lambda: value

    @property
    def age(self) -> float:
        """Seconds."""
        return max(time.time() - self.since, 0.0)


class Bindings:
    """Variable name → binding, for the variables of one notebook."""

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
    ) -> Binding:
        """The variable's value is the stored object that ``ref`` refers to; see `Binding`.

        ``about`` says that the object was made from this value, and not this value from it.
        """
        noted = self._known[name] = Binding(value, ref, came, stored, about)
        return noted

    def replaced(self, name: str, value: Any) -> None:
        """The variable shows its stored object now."""
        known = self._known[name]
        self.note(name, value, known.ref, known.came, known.stored)

    def find(self, name: str, value: Any) -> tuple[str, Binding] | None:
        """The stored object that this value is, noted under this name or another."""
        known = self._known.get(name)
        if known is not None and known.value() is value:
            return name, known
        if value is None or isinstance(value, _COMMON):
            return None
        everything = list(self._known.items())
        return next(((n, each) for n, each in everything if each.value() is value), None)

    def of(self, ref: ObjectRef) -> list[tuple[str, Binding]]:
        """The variables that are this object."""
        return [(name, each) for name, each in self._known.items() if each.ref == ref]

    def held(self) -> dict[str, ObjectRef]:
        """The refs by what holds them, for `%why`."""
        return {
            f"{name}{ROOT_NOTE}{held_text(each.came, each.since, _verdict(each))}": each.ref
            for name, each in list(self._known.items())
        }

    def prune(self, variables: Mapping[str, Any]) -> None:
        """After each cell: forget variables that are gone or have another value."""
        for name, each in list(self._known.items()):
            if name not in variables or variables[name] is not each.value():
                del self._known[name]

    def clear(self) -> None:
        self._known.clear()


def _check_of(about: About | None) -> ChangeCheck:
    if about is None:
        return ChangeCheck(is_built=True)
    # Of a short pickle the time says little: others may have had the processor meanwhile.
    pickling = about.pickle_seconds if about.inband >= WORTH_KNOWING else 0.0
    return ChangeCheck(False, about.pickle_seconds + about.copy_seconds, pickling)


def _verdict(binding: Binding) -> str:
    if not binding.can_change:
        return Verdict.SAME.value
    return "" if binding.verdict is None else binding.verdict.value
