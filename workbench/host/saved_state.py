"""State that tasks may change, by the shape it has: settings, entries of a dict, a list.

What there is of it: `interpreter_state`, `library_state`. Each task pays for comparing all of
it, so what is as it was must cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from operator import call
from typing import Any, Protocol

GONE = object()
"""In place of a value: there is none."""

Setting = tuple[Callable[[], Any], Callable[[Any], object]]
"""What reads it, and what sets it."""


class Saved(Protocol):
    """One part of it, as it was when this was made."""

    def look(self) -> Any:
        """It now: a copy, to be compared. None if its library isn't loaded."""

    def learn(self, before: Any, after: Any) -> None:
        """What is different between two looks belongs to the process: it stays."""

    def restore(self) -> None:
        """Put back what is different."""


class SavedSettings:
    """What functions tell and others set, each for itself."""

    def __init__(self, *settings: Setting) -> None:
        self._readers = [read for read, _ in settings]
        self._writers = [write for _, write in settings]
        self._saved = self.look()

    def look(self) -> tuple[Any, ...]:
        return tuple(map(call, self._readers))

    def learn(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
        looks = zip(self._saved, before, after, strict=True)
        self._saved = tuple(saved if same(was, now) else now for saved, was, now in looks)

    def restore(self) -> None:
        live = self.look()
        if same(live, self._saved):
            return
        for write, now, saved in zip(self._writers, live, self._saved, strict=True):
            if not same(now, saved):
                with suppress(Exception):  # one that can't be put back: a directory that is gone
                    write(saved)


def put_entry(live: dict[Any, Any], key: Any, value: Any) -> None:
    """Set it, or delete it (`GONE`). As in any dict: that of matplotlib checks each name."""
    if value is GONE:
        dict.pop(live, key, None)
    else:
        dict.__setitem__(live, key, value)


class SavedEntries:
    """A dict's entries, each for itself.

    ``find`` gives the dict, None while its library isn't loaded; ``put``: see `put_entry`.
    ``ours`` are keys that may come: they stay from then on.
    """

    def __init__(
        self,
        find: Callable[[], dict[Any, Any] | None],
        put: Callable[[dict[Any, Any], Any, Any], object] = put_entry,
        ours: Iterable[Any] = (),
    ) -> None:
        self._find = find
        self._put = put
        self._ours = frozenset(ours)
        self._saved = self.look()

    def look(self) -> dict[Any, Any] | None:
        live = self._find()
        if live is None:
            return None
        return {key: _copied(value) for key, value in list(dict.items(live))}

    def learn(self, before: dict[Any, Any] | None, after: dict[Any, Any] | None) -> None:
        if after is None:
            return
        if before is None or self._saved is None:
            self._saved = after
            return
        for key in differing(before, after):
            put_entry(self._saved, key, after.get(key, GONE))

    def restore(self) -> None:
        live = self._find()
        if live is None:
            return
        if self._saved is None:
            self._saved = self.look()
            return
        try:
            if dict.__eq__(live, self._saved):
                return
        except Exception:  # arrays are in it, for example
            pass
        for key in differing(self._saved, dict(dict.items(live))):
            if key in self._ours and key not in self._saved:
                self._saved[key] = live[key]
            else:
                self._put(live, key, _copied(self._saved.get(key, GONE)))


class SavedList:
    """A list's items, in their order. ``find`` gives it, ``then`` is called when it was changed."""

    def __init__(
        self, find: Callable[[], list[Any]], then: Callable[[], object] = lambda: None
    ) -> None:
        self._find = find
        self._then = then
        self._saved = self.look()

    def look(self) -> list[Any]:
        return list(self._find())

    def learn(self, before: list[Any], after: list[Any]) -> None:
        """What came before all others stays there, what came later goes to the end."""
        if before == after:
            return
        first = next((n for n, item in enumerate(after) if item in before), len(after))
        new = [item for item in after if item not in before and item not in self._saved]
        saved = [item for item in self._saved if item in after or item not in before]
        leading = [item for item in after[:first] if item in new]
        self._saved = [*leading, *saved, *(item for item in new if item not in leading)]

    def restore(self) -> None:
        live = self._find()
        if live != self._saved:
            live[:] = self._saved
            self._then()


def differing(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> list[Any]:
    """The keys whose values aren't the same, or that only one of them has."""
    return [key for key in {**one, **other} if not same(one.get(key, GONE), other.get(key, GONE))]


def same(one: Any, other: Any) -> bool:
    """Whether two values are one, or equal. What can't be compared isn't."""
    try:
        return one is other or bool(one == other)
    except Exception:  # arrays, for example
        return False


def _copied(value: Any) -> Any:
    """A list of its own: somebody may add to the other."""
    return list(value) if type(value) is list else value
