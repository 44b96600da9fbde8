"""Checks whether variables still equal their stored objects, and stores changed ones again.

Runs user code (their objects' ``__reduce__``): only in the main thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from workbench.engine.base import Engine
from workbench.engine.queries import Compare, Describe, StoredAs
from workbench.ipython.bindings import Binding, Bindings
from workbench.ipython.output import Router
from workbench.ipython.progress import watch_put
from workbench.ref import ObjectRef
from workbench.report.freshness import (
    Unknown,
    changed_text,
    restless_text,
    unknown_texts,
    would_change_text,
)
from workbench.serialization.comparison import Comparison, Verdict
from workbench.serialization.known_memory import noting


class Freshness:
    """Stored variables that one cell reads: each is compared once, all within one budget."""

    def __init__(self, bindings: Bindings, engine: Engine, router: Router | None = None) -> None:
        self._router = router  # shows the progress of a put
        self._notes: list[str] = []
        self._unknown: list[Unknown] = []
        self._bindings = bindings
        self._engine = engine
        self._compared: dict[str, list[str]] = {}  # variable → names under which it is read
        self._changed: dict[str, Binding] = {}  # by variable
        self._spent = 0.0  # seconds of work, on comparing

    def note(self, text: str) -> None:
        self._notes.append(text)

    @property
    def notes(self) -> list[str]:
        """Remarks about the variables; one line for all that weren't compared."""
        return [*self._notes, *unknown_texts(self._unknown)]

    def ref(self, name: str, value: Any) -> ObjectRef | None:
        """Return the stored object that a variable's value is or was, if it still exists."""
        known = self._bindings.find(name, value)
        if known is None:
            ref = self._engine.ask(StoredAs(value))
            return None if ref is None or self._is_gone(ref) else ref
        variable, binding = known
        if self._is_gone(binding.ref):
            return None
        if variable not in self._compared:
            self._compared[variable] = []
            spent = self._spent
            found, reason = self._compare(binding, value)
            if found.verdict is Verdict.CHANGED:
                self._changed[variable] = binding
            elif found.verdict is Verdict.UNKNOWN:
                others = spent if found.seconds <= binding.check.budget else 0.0
                unknown = Unknown(name, binding.age, found.seconds, reason, others)
                self._unknown.append(unknown)
        self._compared[variable].append(name)
        return binding.ref

    def is_stored(self, name: str, value: Any) -> bool:
        """True if there is such a stored object; doesn't check whether the value has changed."""
        known = self._bindings.find(name, value)
        ref = self._engine.ask(StoredAs(value)) if known is None else known[1].ref
        return ref is not None and not self._is_gone(ref)

    def pickling(self, name: str, value: Any) -> float:
        """Return the seconds that pickling a stored variable's value is known to take."""
        known = self._bindings.find(name, value)
        return 0.0 if known is None else known[1].check.pickling

    def preview_advice(self, name: str) -> str:
        """Return what would happen to a changed variable in a preview; '' if it hasn't changed."""
        for variable, binding in self._changed.items():
            if name in self._compared[variable]:
                return would_change_text(name, binding.came)
        return ""

    def forget(self, name: str) -> None:
        """Forget a variable, because it goes by value after all."""
        for variable, names in self._compared.items():
            if name in names:
                names.remove(name)
                if not names:
                    self._changed.pop(variable, None)

    def renew(self, captured: dict[str, Any]) -> None:
        """Store changed variables again, and make ``captured`` refer to the new objects.

        Raises
        ------
        SerializationError
            If it can't be stored any more.
        """
        while self._changed:
            variable, binding = next(iter(self._changed.items()))
            names = self._compared[variable]
            captured |= dict.fromkeys(names, self._store_again(names[0], variable, binding))
            del self._changed[variable]

    def _store_again(self, name: str, variable: str, binding: Binding) -> ObjectRef:
        """Store a value as `%put` did: under the same name, unless that is another's now."""
        engine, old, value = self._engine, binding.ref, binding.value()
        described = engine.ask(Describe(old.id, patient=True))
        names = described.object.names if described is not None else (binding.stored,)
        own = binding.stored if binding.stored in names else ""
        watched: AbstractContextManager[object] = nullcontext()
        if self._router is not None:
            watched = watch_put(self._router, engine, {name: value}, ())
        began = time.perf_counter()
        with watched, noting(value) as memory:
            ref, about = engine.put(value, own)
        seconds = time.perf_counter() - began
        if described is not None and described.object.pinned:
            engine.pin(ref, True)
            engine.pin(old, False)
        came = binding.came if binding.stored else "it was stored"
        new = self._bindings.note(variable, value, ref, came, own, about, memory)
        if self._compare(new, value)[0].verdict is Verdict.CHANGED:
            self._notes.append(restless_text(name, seconds))
        else:
            kept = ", ".join(n for n in names if n not in ("", own))
            self._notes.append(changed_text(name, binding.came, seconds, kept))
        return ref

    def _compare(self, binding: Binding, value: Any) -> tuple[Comparison, str]:
        found = _compare(self._engine, binding, value, self._spent)
        self._spent += found[0].spent
        return found

    def _is_gone(self, ref: ObjectRef) -> bool:
        """True if the object was freed, or is of a session that ended."""
        return ref.session != self._engine.session or self._engine.state(ref) == "failed"


@contextmanager
def compared(bindings: Bindings, engine: Engine, ref: ObjectRef) -> Iterator[None]:
    """Compare the variables that are this object, and set their verdicts while in the context."""
    found = bindings.bindings_of(ref)
    try:
        for _, binding in found:
            binding.verdict = _compare(engine, binding, binding.value())[0].verdict
        yield
    finally:
        for _, binding in found:
            binding.verdict = None


def _compare(
    engine: Engine, binding: Binding, value: Any, spent: float = 0.0
) -> tuple[Comparison, str]:
    """Return the comparison; and the reason if it was impossible."""
    if not binding.can_change or engine.ask(StoredAs(value)) == binding.ref:
        return Comparison(Verdict.SAME, 0.0), ""
    try:
        return engine.ask(Compare(binding.ref, value, binding.check, spent)), ""
    except LookupError as error:
        return Comparison(Verdict.UNKNOWN, 0.0), str(error)
