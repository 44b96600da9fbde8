"""How much memory each arena may touch. Decides who grows, who trims, who waits, who is refused.

An arena's *grant* is the memory its owner may have touched: its live extents plus the warm free
ones it keeps for reuse. Nothing is granted past the capacity. Inline objects count too, but come
unasked: they alone can exceed it, and then nobody's arena grows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from workbench.core.events import Value


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
    spent: set[int] = field(default_factory=set)  # who gave less than was asked: has no more


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
        self._trimming: dict[int, int] = {}  # client whose Trimmed is due → bytes asked of it

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

    def admits(self, client: int, values: Iterable[Value]) -> bool:
        """Whether ``client`` may seal these: in its own arena, where nothing is, within its grant.

        A failed value is inline always: it becomes the value of every task that depends on it,
        and an extent belongs to one object.
        """
        placed = [v for v in values if v.segment]
        if not placed:
            return True
        arena = self.arenas.get(placed[0].segment)
        if arena is None or arena.owner != client:
            return False
        offsets = {v.offset for v in placed}
        return (
            len(offsets) == len(placed)
            and offsets.isdisjoint(arena.extents)
            and sum(v.length for v in placed) <= arena.granted - arena.live
            and all(
                v.segment == arena.segment
                and not v.failed
                and 0 < v.length <= arena.size - v.offset
                for v in placed
            )
        )

    def seal(self, segment: int, offset: int, length: int) -> None:
        """An extent holds an object now."""
        arena = self.arenas[segment]
        arena.extents[offset] = length
        arena.live += length

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
        self._trimming.pop(client, None)
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
        if answer and nbytes < self._trimming.pop(client, 0) and self._queue:
            self._queue[0].spent.add(client)

    @property
    def is_asked(self) -> bool:
        """Whether anybody waits for memory."""
        return bool(self._queue)

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
                and a.owner not in head.spent
            ]  # fmt: skip
            if arena is None or sum(a.granted - a.live for a in donors) < short:
                self._queue.popleft()
                yield "refuse", head.client, head.request, max(short, 1)
                continue
            for donor in donors:
                assert donor.owner is not None
                take = min(short, donor.granted - donor.live)
                self._trimming[donor.owner] = take
                yield "trim", donor.owner, 0, take
                short -= take
                if short <= 0:
                    return

    def check(self) -> None:
        """Raise AssertionError unless each arena holds what it says, within what it was granted."""
        for segment, arena in self.arenas.items():
            assert arena.segment == segment
            assert arena.live == sum(arena.extents.values())
            assert arena.live <= arena.granted
            for offset, length in arena.extents.items():
                assert 0 <= offset < offset + length <= arena.size
            if arena.owner is None:
                assert arena.granted == arena.live, "memory nobody will use again"
                assert arena.extents, "an empty arena without an owner"
        assert sum(a.granted for a in self.arenas.values()) <= self.capacity
        assert self._trimming.keys() <= {a.owner for a in self.arenas.values()}
        if self._queue:
            assert self._trimming, "somebody waits for memory, and nobody was asked for it"


def _gaps(arena: Arena) -> Iterator[tuple[int, int]]:
    """What no live extent covers, as (offset, length)."""
    end = 0
    for offset in sorted(arena.extents):
        if offset > end:
            yield end, offset - end
        end = offset + arena.extents[offset]
    if end < arena.size:
        yield end, arena.size - end
