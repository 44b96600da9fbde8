"""How far a stream may be ahead of its reader, as the worker counts it."""

from __future__ import annotations

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.worker.generators import Outflow


def test_what_its_run_told_of_the_reader_is_not_counted_twice() -> None:
    spec = ev.TaskSpec(ahead=2)
    outflow = Outflow(do.Run(1, 1, b"", (), (), 1, "f", 0, spec=spec, made=2, taken=2))
    outflow.took(2)  # on its way when the task was sent again
    made = []
    while outflow.has_room():
        made.append(outflow.is_new())
        outflow.made += 1
    assert made == [False, False, True, True]
    outflow.took(3)
    assert outflow.has_room()


def test_a_full_store_makes_its_lead_as_short_as_that() -> None:
    spec = ev.TaskSpec(ahead=16)
    outflow = Outflow(do.Run(1, 1, b"", (), (), 1, "f", 0, spec=spec))
    assert not outflow.narrow(), "nothing of it is there"
    outflow.made = 3
    outflow.took(1)
    assert outflow.narrow()
    assert not outflow.has_room()
    outflow.took(2)
    assert outflow.has_room()
