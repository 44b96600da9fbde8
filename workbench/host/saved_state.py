"""State that tasks may change: values by their keys, as they were when first seen.

The parts are in `interpreter_state` and `library_state`. Each task pays for comparing all of them,
so an unchanged part must cost next to nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from operator import call
from typing import Any

GONE = object()
"""Stands for a missing value."""

Setting = tuple[Callable[[], Any], Callable[[Any], object]]
"""Two functions: one reads a value, one sets it."""

State = dict[Any, Any]


def put_entry(live: State, key: Any, value: Any) -> None:
    """Set or delete (`GONE`) an entry by `dict`'s own methods: matplotlib's check each name."""
    if value is GONE:
        dict.pop(live, key, None)
    else:
        dict.__setitem__(live, key, value)


class SavedState:
    """One part of the state; each value is compared and restored by itself.

    ``find`` returns the current values, None while their library isn't loaded; ``put``: see
    `put_entry`. ``ours`` are keys that are kept if they appear. ``first`` returns what to restore,
    in case tasks change values before the first look; default: the values at the first look.
    """

    def __init__(
        self,
        find: Callable[[], State | None],
        put: Callable[[State, Any, Any], object] = put_entry,
        ours: Iterable[Any] = (),
        first: Callable[[], State | None] | None = None,
    ) -> None:
        self._find = find
        self._put = put
        self._ours = frozenset(ours)
        self._first = first or self.look
        self._saved = self._first()

    def look(self) -> State | None:
        """Return a copy of the current values; None if their library isn't loaded."""
        live = self._find()
        return None if live is None else {k: _copied(v) for k, v in list(dict.items(live))}

    def learn(self, before: State | None, after: State | None) -> None:
        """Keep what changed between two looks, as it belongs to the process."""
        if self._saved is None:
            self._saved = after if before is None else self._first()
        if before is None or after is None or self._saved is None:
            return
        for key in differing(before, after):
            looks = (each.get(key, GONE) for each in (self._saved, before, after))
            put_entry(self._saved, key, _merged(*looks))

    def restore(self) -> None:
        """Restore what has changed."""
        live = self._find()
        if live is not None and self._saved is None:
            self._saved = self._first()
        saved = self._saved
        if live is None or saved is None:
            return
        try:
            if dict.__eq__(live, saved):
                return
        except Exception:  # arrays are in it, for example
            pass
        for key in differing(saved, dict(dict.items(live))):
            if key in self._ours and key not in saved:
                saved[key] = live[key]
                continue
            with suppress(Exception):  # can't be restored: a directory that is gone
                self._put(live, key, _copied(saved.get(key, GONE)))


def settings(find: Callable[[], Iterable[Setting] | None]) -> SavedState:
    """Return the state that pairs of functions read and set; ``find`` returns these, or None."""
    readers: list[Callable[[], Any]] = []
    writers: list[Callable[[Any], object]] = []

    def read() -> State | None:
        if not readers:
            for reader, writer in find() or ():
                readers.append(reader)
                writers.append(writer)
        return dict(enumerate(map(call, readers))) if readers else None

    return SavedState(read, lambda live, key, value: writers[key](value))


def differing(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> list[Any]:
    """Return the keys whose values differ, or that only one of the two has."""
    return [key for key in {**one, **other} if not _same(one.get(key, GONE), other.get(key, GONE))]


def _same(one: Any, other: Any) -> bool:
    """True if two values are identical or equal. False if they can't be compared."""
    try:
        return one is other or bool(one == other)
    except Exception:  # arrays, for example
        return False


def _merged(saved: Any, before: Any, after: Any) -> Any:
    """Return a saved value with an import's changes. Of a dict or list only what it has added or
    removed: the rest may be the task's. In a list, items added before all others stay in front,
    others go to the end."""
    if type(saved) is type(before) is type(after) is dict:
        return saved | {key: after[key] for key in differing(before, after) if key in after}
    if not (type(saved) is type(before) is type(after) is list):
        return after
    first = next((n for n, item in enumerate(after) if item in before), len(after))
    new = [item for item in after if item not in before and item not in saved]
    leading = [item for item in after[:first] if item in new]
    kept = [item for item in saved if item in after or item not in before]
    return [*leading, *kept, *(item for item in new if item not in leading)]


def _copied(value: Any) -> Any:
    """Return a copy of a container, as the original may change."""
    if type(value) is tuple:
        return tuple(map(_copied, value))
    return copy.copy(value) if type(value) in (list, dict, set) else value
