"""The allocator: whatever is asked of it, its extents tile the segment, and warm ones go first."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from workbench.memory.arena import Arena, Extent
from workbench.system.sizes import PAGE, round_up

PAGES = 64


class Allocations(RuleBasedStateMachine):
    """Allocates, frees and cools; the model is the temperature of every page."""

    @initialize()
    def begin(self) -> None:
        self.arena = Arena(PAGES * PAGE)
        self.pages = ["cold"] * PAGES
        self.live: dict[int, int] = {}

    def _paint(self, offset: int, length: int, what: str) -> None:
        first, count = offset // PAGE, length // PAGE
        self.pages[first : first + count] = [what] * count

    def _longest(self, what: str) -> int:
        best = run = 0
        for page in self.pages:
            run = run + 1 if page == what else 0
            best = max(best, run)
        return best * PAGE

    @rule(nbytes=st.integers(0, 20 * PAGE), warm=st.booleans())
    def allocate(self, nbytes: int, warm: bool) -> None:
        temperature = "warm" if warm else "cold"
        room = self._longest(temperature)
        extent = self.arena.allocate(nbytes, warm)
        if extent is None:
            assert round_up(nbytes) > room, "there was room, all in one piece"
            return
        assert extent.warm is warm
        assert extent.length == round_up(nbytes) >= max(nbytes, 1)
        first = extent.offset // PAGE
        taken = self.pages[first : first + extent.length // PAGE]
        assert set(taken) == {temperature}, "gave away what was not free, or not that warm"
        self._paint(extent.offset, extent.length, "live")
        self.live[extent.offset] = extent.length

    @precondition(lambda self: self.live)
    @rule(data=st.data(), touched=st.booleans())
    def free(self, data: st.DataObject, touched: bool) -> None:
        offset = data.draw(st.sampled_from(sorted(self.live)))
        self.arena.free(offset, touched)
        self._paint(offset, self.live.pop(offset), "warm" if touched else "cold")

    @rule(nbytes=st.integers(0, 20 * PAGE))
    def cool(self, nbytes: int) -> None:
        warm = self.pages.count("warm") * PAGE
        cooled = self.arena.cool(nbytes)
        total = sum(extent.length for extent in cooled)
        assert total == min(warm, round_up(nbytes) if nbytes else 0)
        for extent in cooled:
            first = extent.offset // PAGE
            assert set(self.pages[first : first + extent.length // PAGE]) == {"warm"}
            self._paint(extent.offset, extent.length, "cold")

    @rule(offset=st.integers(0, PAGES * PAGE))
    def free_what_is_not_there(self, offset: int) -> None:
        if offset not in self.live:
            with pytest.raises(KeyError):
                self.arena.free(offset)

    @invariant()
    def the_books_are_right(self) -> None:
        assert self.arena.live == self.live
        assert self.arena.live_bytes == sum(self.live.values())
        assert self.arena.footprint - self.arena.live_bytes == self.pages.count("warm") * PAGE
        assert self.arena.footprint == (PAGES - self.pages.count("cold")) * PAGE

    def teardown(self) -> None:
        if hasattr(self, "arena"):
            for offset in list(self.live):
                self.arena.free(offset)
            whole = self.arena.cool(PAGES * PAGE)
            assert self.arena.footprint == 0, whole
            assert self.arena.allocate(PAGES * PAGE, warm=False) == Extent(0, PAGES * PAGE, False)


TestAllocations = Allocations.TestCase


def test_the_smallest_that_fits_is_taken() -> None:
    arena = Arena(20 * PAGE)
    offsets = []
    for pages in (1, 4, 1, 2, 1):
        extent = arena.allocate(pages * PAGE, warm=False)
        assert extent is not None
        offsets.append(extent.offset)
    arena.free(offsets[1])
    arena.free(offsets[3])
    assert arena.allocate(2 * PAGE, warm=True) == Extent(offsets[3], 2 * PAGE, True)
