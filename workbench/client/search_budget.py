"""How much a search of this process's objects may do: a number of objects, not a time.

On a busy machine a search takes longer, and finds as much.
"""

from __future__ import annotations

from collections.abc import Callable

MOST, MOST_DEEP = 3_000_000, 300_000_000
"""Most objects that a search looks at, one several times; the latter if it is to be deep."""

REPORTED = 100_000
"""Objects looked at between two reports of progress."""


class EnoughError(Exception):
    """The search has looked at as many objects as it may."""


class SearchBudget:
    """Counts the objects that a search looks at. ``progress`` is told of them from time to time."""

    def __init__(
        self, deep: bool = False, progress: Callable[[int], object] = bool, most: int | None = None
    ) -> None:
        self._left = (MOST_DEEP if deep else MOST) if most is None else most
        self._more, self._progress = self._left // 2, progress
        self._looked = self._reported = 0

    def spend(self, objects: int) -> None:
        """Count these, which are looked at next; EnoughError if there were enough before."""
        if self._left < 0:
            raise EnoughError
        self._left -= objects
        self._looked += objects
        if self._looked - self._reported >= REPORTED:
            self._reported = self._looked
            self._progress(self._looked)

    def extend(self) -> None:
        """Allow some more, to use what has been found."""
        self._left = max(self._left, self._more)
