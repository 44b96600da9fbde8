"""Intrusive LRU list: two slots per entry, no dict, which would take a hundred bytes an object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar


class LruNode:
    """What can be in one such order. Both are None while it isn't. Read neither."""

    __slots__ = ("newer", "older")

    def __init__(self) -> None:
        self.newer: LruNode | None = None
        self.older: LruNode | None = None


L = TypeVar("L", bound=LruNode)


class LruList(Generic[L]):
    """The order. A ring through `_end`, which stands between the newest and the oldest."""

    def __init__(self) -> None:
        self._end = LruNode()
        self._end.newer = self._end.older = self._end

    def __contains__(self, thing: L) -> bool:
        return thing.newer is not None

    def add(self, thing: L) -> None:
        """It is the newest now, whether it was in or not."""
        self.discard(thing)
        end, before = self._end, self._end.older
        assert before is not None
        thing.older, thing.newer = before, end
        before.newer = end.older = thing

    def discard(self, thing: L) -> None:
        """Take it out, if it is in. Nothing refers to it from here then."""
        older, newer = thing.older, thing.newer
        if older is not None and newer is not None:
            older.newer, newer.older = newer, older
            thing.older = thing.newer = None

    def is_newest(self, thing: L) -> bool:
        return thing.newer is self._end

    def __iter__(self) -> Iterator[L]:
        """From the oldest on. Each may be taken out when it comes."""
        link = self._end.newer
        while link is not None and link is not self._end:
            following = link.newer
            yield link  # type: ignore[misc]
            link = following
