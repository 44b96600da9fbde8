"""Memory grants: how much each arena may touch; which one grows, trims, waits or is refused.

An arena's *grant* is the memory its owner may have touched: its live extents plus the warm free
ones it keeps for reuse. Grants never exceed the capacity. Inline objects count too. Each process
may send some unasked (`inline_allowance`) even beyond the capacity: then no arena grows. It asks
for more; when inline objects have used their share, it puts objects into its arena.

The machine's free memory limits grants too, because other processes and other sessions take memory
as well. It is measured for each request.

An arena without an owner is written by no process any more, or by the server, which moves objects
there: to disk, where they take no memory, or back to memory.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from workbench.core.catalog import Catalog
from workbench.core.events import Value
from workbench.system.sizes import PAGE, inline_allowance, round_up

SEGMENT_SIZE = 1 << 30
"""Bytes of address space of the server's own segments, unless one object needs more."""

SLACK = 1 / 64
"""Share of the capacity that is trimmed beyond what inline objects need, because they come a few at
a time."""

PATIENCE = 2.0
"""Seconds in which a process must trim. A stopped process keeps others waiting only once: it isn't
asked again until it has answered."""

INLINE_SHARE = 1 / 2
"""Share of the capacity for inline objects and tasks' arguments, which can't be moved."""

INLINE_GRACE = 1 << 20
"""Bytes that a client may send beyond its allowance before it is hung up on."""

SERVER = 0
"""Client number of the server, which asks for memory for an object that comes back from disk."""


@dataclass(slots=True)
class ArenaUsage:
    """Use of one segment, which has one writer. Sizes in bytes, whole pages."""

    segment: int
    size: int
    owner: int | None  # None: its writer has left, or is the server
    disk: bool = False
    granted: int = 0
    live: int = 0
    end: int = 0  # of the last extent; the server's next one begins there
    extents: dict[int, int] = field(default_factory=dict)  # offset → pages, live ones

    def lengths(self) -> dict[int, int]:
        return {offset: pages * PAGE for offset, pages in self.extents.items()}


@dataclass(slots=True)
class GrowRequest:
    """A Grow that waits until others have made room, with ``spill`` by moving objects to disk, too.

    ``returned``: bytes freed in the asker's own arena meanwhile, which it can use, too.
    """

    client: int
    request: int
    nbytes: int
    spill: bool = True
    returned: int = 0
    spent: set[int] = field(default_factory=set)  # clients that gave less than asked
    is_heard: bool = False  # its line callers were asked for earlier Drops


class Budget:
    """Grants of memory to clients. ``capacity``: bytes for arenas in memory and inline objects.

    ``make_room(bytes)`` moves so much to disk; False if that can't be done. ``let_go(bytes)`` frees
    so much of uncollected results of jobs; False if there is none.
    """

    def __init__(self, capacity: int, messages: Catalog) -> None:
        self.make_room: Callable[[int], bool] = lambda nbytes: False
        self.let_go: Callable[[int], bool] = lambda nbytes: False
        self.callers: Callable[[int], Iterable[int]] = lambda client: ()
        self.capacity = capacity
        self.arenas: dict[int, ArenaUsage] = {}  # by segment
        self.spilled = 0  # bytes on disk
        # Bytes that may be touched before the machine's headroom is reached; None: to be measured.
        self.room: float | None = math.inf
        self.measures = False  # True if `room` is measured
        self._granted = 0
        self._live = 0
        self._messages = messages  # has bytes outside of segments, see `in_messages`
        # Client → allowances for inline objects that it got, less what it sent. The first
        # allowance, which needs no asking, isn't counted.
        self.inline_left: dict[int, int] = {}
        self._least_left = -inline_allowance(capacity) - INLINE_GRACE
        self._by_owner: dict[int, ArenaUsage] = {}
        self._files: dict[int, int] = {}  # segment on disk, not sealed yet → its client
        self._filling: dict[bool, ArenaUsage] = {}  # on disk? → the server's that it fills
        self._own_segments = 0
        self.requests: deque[GrowRequest] = deque()  # in order
        # client whose Trimmed is due → bytes asked of it, until when
        self.trimming: dict[int, tuple[int, float]] = {}
        self.late: dict[int, int] = {}  # client that didn't answer in time → bytes asked of it
        # Clients that gave less than was asked, and got none back since.
        self._dry: set[int] = set()

    @property
    def granted(self) -> int:
        """Bytes of memory given out, inline objects included."""
        return self._granted + self._messages.inline_bytes

    @property
    def live(self) -> int:
        """Bytes of objects in memory."""
        return self._live + self._messages.inline_bytes

    def arena_of(self, client: int) -> ArenaUsage | None:
        return self._by_owner.get(client)

    def open(self, client: int, segment: int, size: int) -> bool:
        """Add the arena that a client made; False if it has one already."""
        if client in self._by_owner:
            return False
        self.arenas[segment] = self._by_owner[client] = ArenaUsage(segment, size, client)
        return True

    def open_file(self, client: int, segment: int, size: int) -> None:
        """Add a file in which a client writes one object, before that is sealed."""
        self.arenas[segment] = ArenaUsage(segment, size, None, disk=True)
        self._files[segment] = client

    def reserve(self, nbytes: int, disk: bool) -> tuple[int, int]:
        """Take an extent in a segment of the server's; return (segment, offset). Counts at once."""
        length = round_up(nbytes)
        arena = self._filling.get(disk)
        if arena is None or arena.end + length > arena.size:
            self._own_segments += 1  # a client's have its prefix, and no prefix is 0
            arena = ArenaUsage(self._own_segments, max(SEGMENT_SIZE, length), None, disk)
            self._filling[disk] = self.arenas[arena.segment] = arena
        offset = arena.end
        self.seal(arena.segment, offset, length)
        return arena.segment, offset

    def allow_inline(self, client: int) -> bool:
        """Grant ``client`` another allowance of inline objects, if there is room; True if so."""
        allowance = inline_allowance(self.capacity)
        more = allowance + self.in_messages()
        if (
            self._messages.inline_bytes + more > self.capacity * INLINE_SHARE
            or self.live + more > self.capacity
            or (self.room is not None and self.room < allowance)
        ):
            return False
        self.inline_left[client] = self.inline_left.get(client, 0) + allowance
        return True

    def in_messages(self) -> int:
        """Return bytes besides objects: tasks' arguments, and unused allowances."""
        return self._messages.argument_bytes + sum(
            left for left in self.inline_left.values() if left > 0
        )

    def admits_inline(self, client: int, nbytes: int) -> bool:
        """True if ``client`` may send so many bytes in a message; they count. One byte is free:
        None, or the mark for arguments that are an object."""
        if nbytes <= 1:
            return True
        left = self.inline_left[client] = self.inline_left.get(client, 0) - nbytes
        return left >= self._least_left

    def admits(self, client: int, values: Sequence[Value]) -> bool:
        """True if ``client`` may seal these: inline, in files it wrote, or in its own arena.

        A failed value is always inline, and doesn't count: it becomes the value of every task that
        depends on it, and an extent belongs to one object.
        """
        small, files, placed = 0, list[Value](), list[Value]()
        for value in values:
            if value.segment:
                (files if value.segment in self._files else placed).append(value)
            elif len(value.header) > 1 and not value.failed:
                small += len(value.header)
        if small and not self.admits_inline(client, small):
            return False
        if files and not self._admits_files(client, files):
            return False
        return not placed or self._admits_placed(client, placed)

    def _admits_files(self, client: int, values: Sequence[Value]) -> bool:
        """True if each value is a whole file that ``client`` wrote, each a different one."""
        return len({v.segment for v in values}) == len(values) and all(
            self._files[v.segment] == client
            and not v.offset
            and 0 < v.length == self.arenas[v.segment].size
            and v.digest
            and not v.failed
            for v in values
        )

    def _admits_placed(self, client: int, values: Sequence[Value]) -> bool:
        """True if they are in free parts of the arena of ``client``, and within its grant."""
        arena = self.arena_of(client)
        if arena is None:
            return False
        offsets = {v.offset for v in values}
        return (
            len(offsets) == len(values)
            and arena.extents.keys().isdisjoint(offsets)
            and sum(round_up(v.length) for v in values) <= arena.granted - arena.live
            and all(
                v.segment == arena.segment
                and not v.failed
                and not v.digest
                and v.offset % PAGE == 0
                and 0 < v.length <= arena.size - v.offset
                for v in values
            )
        )

    def seal(self, segment: int, offset: int, length: int) -> None:
        """Count an object's extent; bytes, the length is rounded up to pages."""
        arena = self.arenas[segment]
        self._files.pop(segment, None)
        length = round_up(length)
        arena.extents[offset] = length // PAGE  # a small int takes no memory of its own
        arena.end = max(arena.end, offset + length)
        arena.live += length
        if arena.disk:
            self.spilled += length
        else:
            self._live += length
            if arena.owner is None:
                self._grant(arena, length)

    def release(self, segment: int, offset: int, cold: bool = False) -> tuple[ArenaUsage, int]:
        """Remove an extent; return its arena and length. ``cold``: its pages were, or will be,
        given back to the machine."""
        arena = self.arenas[segment]
        self._dry.discard(arena.owner or 0)
        length = arena.extents.pop(offset) * PAGE
        arena.live -= length
        if arena.disk:
            self.spilled -= length
        else:
            self._live -= length
            if cold or arena.owner is None:
                self._grant(arena, -length)
        return arena, length

    def orphan(self, client: int) -> Iterator[tuple[ArenaUsage, tuple[tuple[int, int], ...]]]:
        """Remove a client that left; yield its files, and its arena with the gaps to punch."""
        self.trimming.pop(client, None)
        self.late.pop(client, None)
        self._dry.discard(client)
        self.inline_left.pop(client, None)
        self.requests = deque(r for r in self.requests if r.client != client)
        for segment in [segment for segment, owner in self._files.items() if owner == client]:
            del self._files[segment]
            yield self.arenas[segment], ()
        arena = self._by_owner.pop(client, None)
        if arena is not None:
            arena.owner = None
            self._grant(arena, arena.live - arena.granted)
            yield arena, tuple(_gaps(arena))

    def close(self, segment: int) -> None:
        arena = self.arenas.pop(segment)
        if self._filling.get(arena.disk) is arena:
            del self._filling[arena.disk]

    def _grant(self, arena: ArenaUsage, nbytes: int) -> None:
        arena.granted += nbytes
        self._granted += nbytes
        if self.room is not None:
            self.room -= nbytes

    def ask(self, request: GrowRequest) -> None:
        self.requests.append(request)
        if self.measures:
            self.room = None

    @property
    def has_work(self) -> bool:
        if self.requests or self.trimming:
            return True
        return self._granted + self._messages.inline_bytes > self.capacity

    def trim_all(self, now: float) -> Iterator[tuple[int, int]]:
        """Yield (client, bytes) to trim: all free memory, because nobody uses the session."""
        for arena in self._donors():
            if arena.owner not in self.trimming:
                assert arena.owner is not None
                nbytes = arena.granted - arena.live
                self.trimming[arena.owner] = nbytes, now + PATIENCE
                yield arena.owner, nbytes

    def trimmed(self, client: int, nbytes: int, answer: bool) -> None:
        """Take in that a client has given back ``nbytes``, when asked (``answer``) or by itself."""
        arena = self.arena_of(client)
        if arena is not None:
            self._grant(arena, max(arena.live - arena.granted, -nbytes))
        if not answer:
            return
        asked = self.trimming.pop(client, (0, 0.0))[0] or self.late.pop(client, 0)
        if nbytes < asked:
            self._dry.add(client)
            if self.requests:
                self.requests[0].spent.add(client)

    def credit_waiting_owner(self, owner: int | None, nbytes: int) -> bool:
        """Count freed bytes for the first request if ``owner`` made it; True if so."""
        if not self.requests or self.requests[0].client != owner:
            return False
        self.requests[0].returned += nbytes
        return True

    def withheld(self) -> dict[int, int]:
        """Return the free memory, in bytes, of each client that doesn't answer."""
        arenas = {client: self._by_owner[client] for client in self.late}
        warm = {client: arena.granted - arena.live for client, arena in arenas.items()}
        return {client: nbytes for client, nbytes in warm.items() if nbytes}

    def deadline(self) -> float | None:
        """Return when the first client that hasn't trimmed is given up; None: never."""
        return min((until for _, until in self.trimming.values()), default=None)

    def serve_requests(
        self, now: float, more_to_come: bool = False
    ) -> Iterator[tuple[str, int, int, int]]:
        """Yield what to send: ("grant", client, request, bytes), ("refuse", …, bytes missing;
        "deny" if the client will ask again with ``spill``) or ("trim", client, 0, bytes).

        Requests are served in order: small ones can't starve a large one. Room is made first from
        others' free warm memory, then from uncollected results of jobs, and last by moving objects
        to disk. None of that while ``more_to_come`` frees memory.
        """
        for late in [c for c, (_, until) in self.trimming.items() if until <= now]:
            asked = self.trimming.pop(late)[0]
            if asked:
                self.late[late] = asked
        while self.requests:
            if self.room is None:
                return  # the room is being measured
            head = self.requests[0]
            arena = self.arena_of(head.client)
            nbytes = max(head.nbytes - head.returned, 0)
            short = self._short(nbytes)
            nobody = arena is None and head.client != SERVER
            if short <= 0 and not nobody:
                self.requests.popleft()
                if arena is not None:
                    self._grant(arena, nbytes)
                yield "grant", head.client, head.request, nbytes
                continue
            if self.trimming or more_to_come:
                return  # called again when it comes, or more objects are freed
            if not head.is_heard:  # calls by lines overtake their callers' Drops
                head.is_heard = True
                for caller in self.callers(head.client):
                    self.trimming[caller] = 0, now + PATIENCE
                    yield "trim", caller, 0, 0
                continue
            donors = [a for a in self._donors() if a is not arena and a.owner not in head.spent]
            spare = sum(a.granted - a.live for a in donors)
            if not nobody and head.spill and spare < short and self.let_go(short - spare):
                head.spent.clear()  # the freed bytes may be in their arenas
                continue
            if not nobody and donors and (spare >= short or head.spill):
                yield from self._trim(donors, short, now)
                return
            if not nobody and head.spill and self.make_room(short):
                return  # called again when objects have moved
            self.requests.popleft()
            yield "refuse" if head.spill else "deny", head.client, head.request, max(short, 1)
        if not self.trimming and self.granted > self.capacity:  # by inline objects
            excess = self.granted - self.capacity + int(self.capacity * SLACK)
            donors = [arena for arena in self._donors() if arena.owner not in self._dry]
            yield from self._trim(donors, excess, now)

    def _short(self, nbytes: int) -> int:
        """Return how many bytes the capacity or the machine lacks for a grant."""
        short = self.granted + self.in_messages() + nbytes - self.capacity
        if self.room is not None and self.room < nbytes:
            short = max(short, nbytes - max(int(self.room), 0))
        return short

    def _donors(self) -> list[ArenaUsage]:
        """Return arenas with free warm memory whose owners answer."""
        return [
            arena
            for arena in self._by_owner.values()
            if arena.granted > arena.live and arena.owner not in self.late
        ]

    def _trim(
        self, donors: Iterable[ArenaUsage], nbytes: int, now: float
    ) -> Iterator[tuple[str, int, int, int]]:
        for donor in donors:
            if nbytes <= 0:
                return
            assert donor.owner is not None
            take = min(nbytes, donor.granted - donor.live)
            self.trimming[donor.owner] = take, now + PATIENCE
            yield "trim", donor.owner, 0, take
            nbytes -= take


def _gaps(arena: ArenaUsage) -> Iterator[tuple[int, int]]:
    end = 0
    for offset, length in sorted(arena.lengths().items()):
        if offset > end:
            yield end, offset - end
        end = offset + length
    if end < arena.size:
        yield end, arena.size - end
