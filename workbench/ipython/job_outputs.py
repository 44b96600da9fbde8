"""What a background cell assigns: which of its tasks' results each name means. Asks nobody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.ref import ObjectRef

Outputs = dict[str, ObjectRef | list[ObjectRef]]
"""By name; a list, one for each item, of a cell that runs once per item."""


def outputs_of(names: Sequence[str], results: Sequence[ObjectRef | None], several: bool) -> Outputs:
    """By name, which of the results of a cell's tasks are for it; without those that are gone."""
    outputs: Outputs = {}
    for place, name in enumerate(names, 1):
        refs = [ref for ref in results[place :: 1 + len(names)] if ref is not None]
        if several:
            outputs[name] = refs
        elif refs:
            outputs[name] = refs[0]
    return outputs


def is_made(value: Any, made: ObjectRef | list[ObjectRef]) -> bool:
    """Whether a variable's value is still what a cell made. Only refs are compared: an array may
    refuse to be."""
    if not isinstance(made, list):
        return isinstance(value, ObjectRef) and value == made
    return isinstance(value, list) and len(value) == len(made) and all(map(is_made, value, made))
