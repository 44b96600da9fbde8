"""Maps the names that a background cell assigns to results of its tasks. Asks no session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.ref import ObjectRef

Outputs = dict[str, ObjectRef | list[ObjectRef]]
"""Refs by name; a list, one per item, for a cell that runs once per item."""


def outputs_of(names: Sequence[str], results: Sequence[ObjectRef | None], several: bool) -> Outputs:
    """Return the results of a cell's tasks by name, without those that are gone."""
    outputs: Outputs = {}
    for place, name in enumerate(names, 1):
        refs = [ref for ref in results[place :: 1 + len(names)] if ref is not None]
        if several:
            outputs[name] = refs
        elif refs:
            outputs[name] = refs[0]
    return outputs


def is_made(value: Any, made: ObjectRef | list[ObjectRef]) -> bool:
    """True if a variable's value is still what a cell made. Compares only refs: an array may
    refuse to be compared."""
    if not isinstance(made, list):
        return isinstance(value, ObjectRef) and value == made
    return isinstance(value, list) and len(value) == len(made) and all(map(is_made, value, made))
