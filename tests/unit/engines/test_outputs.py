"""A task is over when its end and all that it showed have come, in whichever order."""

from __future__ import annotations

import pytest

from workbench.engines.cluster.backend import Message, TaskEnd
from workbench.engines.cluster.outputs import PATIENCE, Outputs

TASK = 5


def message(worker: int = 1, task: int = TASK) -> Message:
    return Message(task, "stdout", b"text", 0, 0, worker=worker)


def end(shown: int, worker: int = 1) -> TaskEnd:
    return TaskEnd(TASK, "done", 0.0, shown, worker=worker)


@pytest.mark.parametrize("order", ["mmme", "mmem", "memm", "emmm"])
def test_it_is_over_once_all_is_there_in_any_order(order: str) -> None:
    outputs, over = Outputs(), list[TaskEnd]()
    outputs.expect(TASK)
    for what in order:
        assert not over
        if what == "m":
            outputs.came(message())
        else:
            outputs.ended(end(3), over.append, 0.0)
    assert len(over) == 1
    assert outputs.due() is None
    assert outputs.ended(end(9), over.append, 0.0), "nobody expects it"


def test_it_is_complete_after_a_while_without() -> None:
    outputs, over = Outputs(), list[TaskEnd]()
    outputs.expect(TASK)
    outputs.came(message())
    assert not outputs.ended(end(2), over.append, 10.0)
    assert outputs.due() == 10.0 + PATIENCE
    told: list[tuple[int, bool]] = []
    tell = lambda task: told.append((task, bool(over)))
    outputs.late(10.0 + PATIENCE / 2, tell)
    assert told == []
    outputs.late(10.0 + PATIENCE, tell)
    assert told == [(TASK, False)], "it is told before it is over"
    assert over
    outputs.came(message())  # later than that: shown, and counted nowhere
    assert outputs.due() is None
    outputs.expect(TASK)
    assert not outputs.ended(end(2), over.append, 10.0)
    outputs.forget(TASK)
    assert outputs.due() is None


def test_what_an_earlier_try_showed_counts_for_that() -> None:
    outputs, over = Outputs(), list[TaskEnd]()
    outputs.expect(TASK)
    for _ in range(3):
        outputs.came(message(worker=1))
    outputs.ended(end(2, worker=2), over.append, 0.0)
    outputs.came(message(worker=2))
    assert not over
    outputs.came(message(worker=2))
    assert over
