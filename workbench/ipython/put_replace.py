"""Replaces a variable's private value by the stored one, and reports the memory freed."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from typing import Any

from workbench.core.events import About
from workbench.engine.base import Engine
from workbench.engine.queries import Compare, Describe, StoredAs
from workbench.error_notes.readonly import arrays_in
from workbench.format import human_bytes
from workbench.ipython.notebook import Notebook
from workbench.ref import ObjectRef
from workbench.serialization.comparison import Verdict

MOST_VARIABLES = 500  # searched for other holders of the memory
MOST_NAMED = 3  # holders that are named


def replace(notebook: Notebook, engine: Engine, name: str, ref: ObjectRef) -> str:
    """Bind the variable to the stored object; return a half-sentence about its memory.

    The caller mustn't hold the old value. Freed memory is that of arrays that died, so that
    other holders of one (another variable, ``Out``, a slice) show up.
    """
    variables = notebook.variables
    private = {id(a): (weakref.ref(a), a.nbytes) for a in _owners(variables[name])}
    variables[name] = shown = engine.get([ref], None, False)[0]
    notebook.bindings.replaced(name, shown)
    held = {key: nbytes for key, (array, nbytes) in private.items() if array() is not None}
    freed = sum(nbytes for _, nbytes in private.values()) - sum(held.values())
    text = f"`{name}` is a read-only view of it now"
    if freed:
        text += f", {human_bytes(freed)} freed"
    if held:
        holders = " and ".join(_holders(variables, name, held)) or "something else"
        text += (
            f", but {human_bytes(sum(held.values()))} of private memory stay: {holders} "
            f"{'hold' if ' and ' in holders else 'holds'} the same arrays"
        )
    return text


def unchanged(
    notebook: Notebook, engine: Engine, name: str, variable: str, value: Any
) -> tuple[ObjectRef, About] | None:
    """Return the stored object of that name, if the variable was put under it and is unchanged: no
    room for a second one is needed. Compares however long it takes.

    ``variable`` is the one to be replaced, "" for none.
    """
    found = notebook.bindings.find(variable, value) if variable else None
    if found is None or found[1].stored != name:
        return None
    ref = found[1].ref
    is_ours = ref.session == engine.session
    described = engine.ask(Describe(ref.id, patient=True)) if is_ours else None
    record = None if described is None else described.object
    if record is None or record.about is None or name not in record.names:
        return None
    if engine.ask(StoredAs(value)) != ref:
        try:
            compared = engine.ask(Compare(ref, value, found[1].check, -math.inf))
        except LookupError:  # it is on disk
            return None
        if compared.verdict is not Verdict.SAME:
            return None
    return ref, record.about


def _owners(value: Any) -> Iterator[Any]:
    """Yield the arrays that own the memory of a value's arrays."""
    for array in arrays_in(value):
        if _is_array(array):
            while _is_array(array.base):
                array = array.base
            if array.flags.owndata:
                yield array


def _is_array(thing: Any) -> bool:
    """True if it is an ndarray of any subclass, and not one of numpy's scalars."""
    return hasattr(type(thing), "__array_finalize__")


def _holders(variables: dict[str, Any], name: str, held: dict[int, int]) -> list[str]:
    """Return other variables that have some of these arrays. They are alive, so ids are valid."""
    found: dict[str, None] = {}
    for other, value in list(variables.items())[:MOST_VARIABLES]:
        if other != name and any(id(array) in held for array in _owners(value)):
            found["`Out`" if other.startswith("_") else f"`{other}`"] = None
    return [n for n in found if n != "`Out`" or len(found) == 1][:MOST_NAMED]
