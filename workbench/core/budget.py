"""How much memory each arena may touch. Decides who grows, who trims, who waits, who is refused.

An arena's *grant* is the memory its owner may have touched: its live extents plus the warm free
ones it keeps for reuse. The grants and the inline objects together never exceed the capacity.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Arena:
    """One segment, one writer. Sizes in bytes."""

    segment: int
    size: int
    owner: int | None  # None: the writer is gone; freed extents go back to the machine
    granted: int = 0
    live: int = 0
    extents: dict[int, int] = field(default_factory=dict)  # offset → length, live ones


@dataclass(slots=True)
class Request:
    """A Grow that waits until others have trimmed."""

    client: int
    request: int
    nbytes: int
    asked: set[int] = field(default_factory=set)  # who has been asked to trim for it: once each


class Budget:
    """Grants by client.

    Parameters
    ----------
    capacity : int
        Bytes all arenas and inline objects may hold together.
    inline_bytes : callable() → int
        What the inline objects hold now.
    """

    def __init__(self, capacity: int, inline_bytes: Callable[[], int]) -> None:
        self.capacity = capacity
        self.arenas: dict[int, Arena] = {}  # by segment
        self._inline_bytes = inline_bytes
        self._queue: deque[Request] = deque()
        self._trimming: set[int] = set()  # clients whose Trimmed answer is due

    @property
    def granted(self) -> int:
        """Bytes given out, inline objects included."""
        return sum(a.granted for a in self.arenas.values()) + self._inline_bytes()

    @property
    def live(self) -> int:
        """Bytes of objects."""
        return sum(a.live for a in self.arenas.values()) + self._inline_bytes()

    def of(self, client: int) -> Arena | None:
        """The arena this client writes."""
        return next((a for a in self.arenas.values() if a.owner == client), None)

    # -- arenas -------------------------------------------------------------------------------

    def open(self, client: int, segment: int, size: int) -> None:
        """The client made an arena."""
        self.arenas[segment] = Arena(segment, size, client)

    def seal(self, segment: int, offset: int, length: int) -> None:
        """An extent holds an object now."""
        arena = self.arenas[segment]
        arena.extents[offset] = length
        arena.live += length
        arena.granted = max(arena.granted, arena.live)

    def release(self, segment: int, offset: int) -> Arena:
        """It doesn't any more."""
        arena = self.arenas[segment]
        length = arena.extents.pop(offset)
        arena.live -= length
        if arena.owner is None:
            arena.granted = arena.live
        return arena

    def orphan(self, client: int) -> Iterator[tuple[Arena, tuple[tuple[int, int], ...]]]:
        """The client is gone: yields its arenas and the gaps between live extents to punch."""
        self._trimming.discard(client)
        self._queue = deque(r for r in self._queue if r.client != client)
        for arena in self.arenas.values():
            if arena.owner == client:
                arena.owner = None
                arena.granted = arena.live
                yield arena, tuple(_gaps(arena))

    def close(self, segment: int) -> None:
        """Forget an arena that holds nothing."""
        del self.arenas[segment]

    # -- grants -------------------------------------------------------------------------------

    def ask(self, request: Request) -> None:
        """A client wants to grow. :meth:`settle` answers."""
        self._queue.append(request)

    def trimmed(self, client: int, nbytes: int, answer: bool) -> None:
        """A client gave back memory."""
        arena = self.of(client)
        if arena is not None:
            arena.granted = max(arena.live, arena.granted - nbytes)
        if answer:
            self._trimming.discard(client)

    def settle(self) -> Iterator[tuple[str, int, int, int]]:
        """What to tell whom now: ("grant", client, request, bytes), ("refuse", …, short by) or
        ("trim", client, 0, bytes).

        Requests are served in order: a large one isn't starved by small ones behind it.
        """
        while self._queue:
            head = self._queue[0]
            arena = self.of(head.client)
            short = self.granted + head.nbytes - self.capacity
            if arena is not None and short <= 0:
                self._queue.popleft()
                arena.granted += head.nbytes
                yield "grant", head.client, head.request, head.nbytes
                continue
            if self._trimming:
                return  # an answer is due, and will bring us back
            donors = [
                a for a in self.arenas.values()
                if a.owner not in (None, head.client) and a.granted > a.live
                and a.owner not in head.asked
            ]  # fmt: skip
            if arena is None or sum(a.granted - a.live for a in donors) < short:
                self._queue.popleft()
                yield "refuse", head.client, head.request, max(short, 1)
                continue
            for donor in donors:
                assert donor.owner is not None
                take = min(short, donor.granted - donor.live)
                self._trimming.add(donor.owner)
                head.asked.add(donor.owner)
                yield "trim", donor.owner, 0, take
                short -= take
                if short <= 0:
                    return


def _gaps(arena: Arena) -> Iterator[tuple[int, int]]:
    """What no live extent covers, as (offset, length)."""
    end = 0
    for offset in sorted(arena.extents):
        if offset > end:
            yield end, offset - end
        end = offset + arena.extents[offset]
    if end < arena.size:
        yield end, arena.size - end
