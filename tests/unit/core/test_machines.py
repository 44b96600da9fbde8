"""The core's machines once more: they leave no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

from tests.unit.core.test_line_machine import LineMachine
from tests.unit.core.test_session_machine import SessionMachine
from tests.unit.core.test_spill_machine import SpillMachine
from tests.unit.core.test_task_machine import TaskMachine
from workbench.core import entry, tasks


@contextmanager
def no_collection() -> Iterator[None]:
    """When one is asked for, it looks at what is new alone."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def in_cycles() -> list[str]:
    """The core's records that only the collector finds. The server has none."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    left, gc.garbage[:] = list(gc.garbage), []
    records = [each for each in left if type(each).__module__ in (entry.__name__, tasks.__name__)]
    return [repr(type(each)) for each in records]


@pytest.mark.parametrize(
    "machine", [pytest.param(SessionMachine, marks=pytest.mark.extended), SpillMachine, TaskMachine]
)
def test_random_steps_leave_no_cycles(machine: type[RuleBasedStateMachine]) -> None:
    found: list[str] = []

    class Watched(machine):  # type: ignore[misc, valid-type]
        began = False

        @invariant()
        def begin_to_watch(self) -> None:
            if not self.began:
                gc.collect()  # the one before, as a whole, and a session that isn't used
                self.began = True

        def teardown(self) -> None:
            super().teardown()
            found.extend(in_cycles())

    with no_collection():
        run_state_machine_as_test(
            Watched, settings=settings(max_examples=2, database=None, derandomize=True)
        )
    assert not found


def test_actors_and_their_lines_leave_no_cycles() -> None:
    with no_collection():
        for seed in range(3):
            machine = LineMachine(Random(seed))
            machine.walk(40)
            assert not in_cycles()
            del machine
            gc.collect()
