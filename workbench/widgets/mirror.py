"""Mirror of a session, kept up to date by changes: objects with rows, and sums of all others.

Pure bookkeeping, no thread, no page. Its cost depends on the number of changes, not of
objects.
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import NamedTuple

from workbench.core.snapshot import Change, ObjectRecord, Snapshot
from workbench.report.facts import is_internal, kind_of

MOST = 4_000
"""Objects with a row of their own: those with a name or pin, and the largest."""

BIN = 1 << 20
"""Bytes of a segment in which objects without a row are counted together."""


class Other(NamedTuple):
    """Data about an object without a row."""

    kind: str
    size: int
    segment: int
    offset: int


Importance = tuple[bool, int]


class Mirror:
    """See the module. Objects are identified by their ids."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.session: Snapshot | None = None  # latest, without its objects
        self.listed: dict[int, ObjectRecord] = {}
        self.born: dict[int, float | None] = {}  # when the listed ones came, in seconds since 1970
        self.others: dict[int, Other] = {}
        self.changed: set[int] = set()  # changed or gone, since this was last emptied
        self._heap: list[tuple[Importance, int]] = []  # of the listed, and of some former ones
        self._bins: dict[int, Counter[int]] = {}  # segment → bin → bytes
        self._kinds: dict[str, list[int]] = {}  # kind → count and bytes

    def apply(self, change: Change) -> None:
        self.session = change.session
        for id in change.gone:
            self._remove(id)
        for record in change.objects:
            self._remove(record.id)
            if not is_internal(record):
                self._add(record, change.session.taken)
        if len(self._heap) > 2 * len(self.listed) + 100:
            self._heap = [(_importance(r), id) for id, r in self.listed.items()]
            heapq.heapify(self._heap)

    @property
    def is_thin(self) -> bool:
        """True if so many rows are gone that other objects should have one: begin anew."""
        return bool(self.others) and len(self.listed) < self._most // 2

    def records(self) -> tuple[ObjectRecord, ...]:
        now = 0.0 if self.session is None else self.session.taken
        born = self.born
        return tuple(
            record if (since := born[id]) is None else record.at(now - since)
            for id, record in self.listed.items()
        )

    def kinds(self) -> list[tuple[str, int, int]]:
        """Return type, number and bytes of the others; most bytes first."""
        found = [(kind, n, size) for kind, (n, size) in self._kinds.items()]
        return sorted(found, key=lambda each: -each[2])

    def bins(self, segment: int, end: int, parts: int) -> list[int]:
        """Return the others' bytes in each of ``parts`` equal parts of a segment up to ``end``.

        Objects of one `BIN` count where it begins.
        """
        sums = [0] * parts
        for number, size in self._bins.get(segment, {}).items():
            sums[min(number * BIN * parts // max(end, 1), parts - 1)] += size
        return sums

    def _add(self, record: ObjectRecord, now: float) -> None:
        importance = _importance(record)
        if len(self.listed) >= self._most:
            least = self._least()
            if importance <= least[0]:
                return self._count(record)
            heapq.heappop(self._heap)
            self.changed.add(least[1])
            del self.born[least[1]]
            self._count(self.listed.pop(least[1]))
        self.listed[record.id] = record
        self.born[record.id] = None if record.age is None else now - record.age
        self.changed.add(record.id)
        heapq.heappush(self._heap, (importance, record.id))
        return None

    def _least(self) -> tuple[Importance, int]:
        while True:
            importance, id = self._heap[0]
            record = self.listed.get(id)
            if record is not None and _importance(record) == importance:
                return importance, id
            heapq.heappop(self._heap)

    def _count(self, record: ObjectRecord) -> None:
        kind = kind_of(record)
        self.others[record.id] = Other(kind, record.size, record.segment, record.offset)
        self._sum(self.others[record.id], 1)

    def _remove(self, id: int) -> None:
        if self.listed.pop(id, None) is not None:
            del self.born[id]
            self.changed.add(id)
        elif (other := self.others.pop(id, None)) is not None:
            self._sum(other, -1)

    def _sum(self, other: Other, sign: int) -> None:
        kind = self._kinds.setdefault(other.kind, [0, 0])
        kind[0] += sign
        kind[1] += sign * other.size
        if not kind[0]:
            del self._kinds[other.kind]
        if other.segment:
            bins = self._bins.setdefault(other.segment, Counter())
            number = other.offset // BIN
            bins[number] += sign * other.size
            if not bins[number]:
                del bins[number]
                if not bins:
                    del self._bins[other.segment]


def _importance(record: ObjectRecord) -> Importance:
    return bool(record.names or record.pinned or record.job), record.size
