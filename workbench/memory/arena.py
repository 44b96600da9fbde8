"""The allocator of a segment: best fit, reusing warm memory first. Pure: integers in and out.

Every free extent is wholly *warm* (its pages were touched, so they hold memory and are fast to
write) or wholly *cold* (no memory behind it). Warm ones are used first. Adjacent
extents of one temperature are merged.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

from workbench.system.sizes import round_up


@dataclass(frozen=True, slots=True)
class Extent:
    """``length`` bytes at ``offset``; ``warm`` if the pages have been touched."""

    offset: int
    length: int
    warm: bool


class _FreeList:
    """Free extents of one temperature: by offset for merging, by size for best fit."""

    def __init__(self) -> None:
        self.at: dict[int, int] = {}  # offset → length
        self._end_at: dict[int, int] = {}  # end → offset
        self._by_size: list[tuple[int, int]] = []  # (length, offset), sorted
        self.total = 0

    def add(self, offset: int, length: int) -> None:
        before = self._end_at.get(offset)
        if before is not None:
            length += self.at[before]
            offset = before
            self.remove(before)
        after = self.at.get(offset + length)
        if after is not None:
            self.remove(offset + length)
            length += after
        self.at[offset] = length
        self._end_at[offset + length] = offset
        insort(self._by_size, (length, offset))
        self.total += length

    def remove(self, offset: int) -> int:
        length = self.at.pop(offset)
        del self._end_at[offset + length]
        del self._by_size[bisect_left(self._by_size, (length, offset))]
        self.total -= length
        return length

    def take(self, length: int) -> int | None:
        """Cut ``length`` bytes off the best fit; return its offset, or None."""
        place = bisect_left(self._by_size, (length, 0))
        if place == len(self._by_size):
            return None
        whole, offset = self._by_size[place]
        self.remove(offset)
        if whole > length:
            self.add(offset + length, whole - length)
        return offset

    def largest(self) -> int:
        """Return the offset of the largest extent. There must be one."""
        return self._by_size[-1][1]


class Arena:
    """The allocator of one segment of ``size`` bytes of address space, a multiple of `PAGE`."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.live: dict[int, int] = {}  # offset → length
        self.live_bytes = 0
        self._warm = _FreeList()
        self._cold = _FreeList()
        self._cold.add(0, size)

    @property
    def footprint(self) -> int:
        """Bytes of memory the arena holds: live and warm free."""
        return self.live_bytes + self._warm.total

    def allocate(self, nbytes: int, warm: bool) -> Extent | None:
        """Take the best fit among warm, or cold, free extents; None if none is large enough."""
        length = round_up(nbytes)
        offset = (self._warm if warm else self._cold).take(length)
        if offset is None:
            return None
        self.live[offset] = length
        self.live_bytes += length
        return Extent(offset, length, warm)

    def free(self, offset: int, touched: bool = True) -> int:
        """Free an extent; return its length. ``touched=False`` if there is no memory behind it.

        Raises KeyError if no live extent begins there.
        """
        length = self.live.pop(offset)
        self.live_bytes -= length
        (self._warm if touched else self._cold).add(offset, length)
        return length

    def cool(self, nbytes: int) -> list[Extent]:
        """Make ``nbytes`` or more of warm free extents (or all) cold; return them, to punch."""
        chosen = []
        while nbytes > 0 and self._warm.total:
            offset = self._warm.largest()
            length = self._warm.remove(offset)
            if length > round_up(nbytes):
                self._warm.add(offset, length - round_up(nbytes))
                offset += length - round_up(nbytes)
                length = round_up(nbytes)
            self._cold.add(offset, length)
            chosen.append(Extent(offset, length, False))
            nbytes -= length
        return chosen
