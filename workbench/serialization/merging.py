"""Merges what was done to one object in two places, from the state that it had before.

Pure: of each state only the parts are compared, as `object_state.is_same` does.
"""

from __future__ import annotations

from typing import Any

from workbench.serialization.object_state import ReducedState, is_same

MERGED = ("list", "dict", "set")
"""Kinds of states that can be merged."""


class ConflictError(Exception):
    """Both changed the same part of an object, so that one change would be lost."""


def merged(before: ReducedState, ours: ReducedState, theirs: ReducedState) -> ReducedState:
    """Return the state with the changes of both; where the order counts, theirs come last.

    Lists can be merged if one side only appended, dicts if no key was changed by both.

    Raises
    ------
    ConflictError
        If they can't be merged.
    """
    if not before.kind == ours.kind == theirs.kind or ours.kind not in MERGED:
        raise ConflictError
    parts = before.parts, ours.parts, theirs.parts
    if ours.kind == "set":
        return theirs._replace(parts=_sets(*map(set, parts)))
    return theirs._replace(parts=_lists(*parts) if ours.kind == "list" else _dicts(*parts))


def _lists(before: list[Any], ours: list[Any], theirs: list[Any]) -> list[Any]:
    size = len(before)
    if is_same(before, theirs[:size]):
        return ours + theirs[size:]
    if is_same(before, ours[:size]):
        return theirs + ours[size:]
    raise ConflictError


def _dicts(before: dict[Any, Any], ours: dict[Any, Any], theirs: dict[Any, Any]) -> dict[Any, Any]:
    changed = [_changed(before, ours), _changed(before, theirs)]
    if changed[0] & changed[1]:
        raise ConflictError
    made = {key: value for key, value in ours.items() if key not in changed[1] or key in theirs}
    return made | {key: value for key, value in theirs.items() if key in changed[1]}


def _changed(before: dict[Any, Any], after: dict[Any, Any]) -> set[Any]:
    """Return the keys that were added, deleted, or have another value."""
    stays = {k for k, v in before.items() if k in after and is_same([v], [after[k]])}
    return {*before, *after} - stays


def _sets(before: set[Any], ours: set[Any], theirs: set[Any]) -> list[Any]:
    return [*(ours | (theirs - before)) - (before - theirs)]
