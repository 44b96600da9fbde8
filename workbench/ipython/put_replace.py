"""A variable's private value exchanged for the stored one, and the memory that this frees."""

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
from workbench.serialization.comparison import ChangeCheck, Verdict

MOST_VARIABLES = 500  # looked through for who else has the memory
MOST_NAMED = 3  # of those that do, how many are named


def replace(notebook: Notebook, engine: Engine, name: str, ref: ObjectRef) -> str:
    """Bind the variable to what the store has; says in half a sentence what became of its memory.

    The caller mustn't hold the old value. What is freed is counted by the arrays that died, so
    whatever else holds one (another variable, ``Out``, a slice) shows.
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
    """The object of that name, if the variable was put as it and is the same still: then there
    need be no room for a second one. However long it takes to compare.

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
            compared = engine.ask(Compare(ref, value, ChangeCheck(False, math.inf), 0.0))
        except LookupError:  # it is on disk
            return None
        if compared.verdict is not Verdict.SAME:
            return None
    return ref, record.about


def _owners(value: Any) -> Iterator[Any]:
    """The arrays that own the memory in which a value's arrays are."""
    for array in arrays_in(value):
        if _is_array(array):
            while _is_array(array.base):
                array = array.base
            if array.flags.owndata:
                yield array


def _is_array(thing: Any) -> bool:
    """An ndarray of whatever subclass, and not one of numpy's numbers."""
    return hasattr(type(thing), "__array_finalize__")


def _holders(variables: dict[str, Any], name: str, held: dict[int, int]) -> list[str]:
    """Other variables that have some of these arrays. They live, so their ids are still theirs."""
    found: dict[str, None] = {}
    for other, value in list(variables.items())[:MOST_VARIABLES]:
        if other != name and any(id(array) in held for array in _owners(value)):
            found["`Out`" if other.startswith("_") else f"`{other}`"] = None
    return [n for n in found if n != "`Out`" or len(found) == 1][:MOST_NAMED]
