"""What a worker counts: a stream's lead over its reader, and what outlives its process."""

from __future__ import annotations

import mmap

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.worker.generators import Backpressure
from workbench.worker.remains import LineNotes


def test_what_its_run_told_of_the_reader_is_not_counted_twice() -> None:
    spec = ev.TaskSpec(ahead=2)
    backpressure = Backpressure(do.Run(1, 1, b"", (), (), 1, "f", 0, spec=spec, made=2, taken=2))
    backpressure.took(2)  # on its way when the task was sent again
    made = []
    while backpressure.has_room():
        made.append(backpressure.is_new())
        backpressure.made += 1
    assert made == [False, False, True, True]
    backpressure.took(3)
    assert backpressure.has_room()


def test_a_full_store_makes_its_lead_as_short_as_that() -> None:
    spec = ev.TaskSpec(ahead=16)
    backpressure = Backpressure(do.Run(1, 1, b"", (), (), 1, "f", 0, spec=spec))
    assert not backpressure.narrow(), "nothing of it is there"
    backpressure.made = 3
    backpressure.took(1)
    assert backpressure.narrow()
    assert not backpressure.has_room()
    backpressure.took(2)
    assert backpressure.has_room()


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
