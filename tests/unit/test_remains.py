"""What outlives a worker's process."""

from __future__ import annotations

import mmap

from workbench.worker.remains import LineNotes


def test_of_each_line_that_is_open_the_last_call_is_told() -> None:
    notes = LineNotes(mmap.mmap(-1, mmap.PAGESIZE))
    begins, begins_too = notes.add(7), notes.add(8)
    begins(1)
    begins(3)
    begins_too(2)
    assert sorted(notes.read()) == [(7, 3), (8, 2)]
    notes.remove(7)
    assert notes.read() == ((8, 2),)
    begins = notes.add(9)
    assert sorted(notes.read()) == [(8, 2), (9, 0)]
    begins(5)
    assert sorted(notes.read()) == [(8, 2), (9, 5)]
