"""What the core lets go of is gone at once: the server has no garbage collector."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

from tests.unit.core.test_actor_machine import ActorMachine
from tests.unit.core.test_session_machine import SessionMachine
from tests.unit.core.test_spill_machine import SpillMachine
from tests.unit.core.test_task_machine import TaskMachine
from workbench.core import entry, tasks


@pytest.mark.parametrize("machine", [ActorMachine, SessionMachine, SpillMachine, TaskMachine])
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
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            gc.set_debug(0)
            left, gc.garbage[:] = list(gc.garbage), []
            found.extend(repr(type(each)) for each in left if _is_record(each))

    gc.collect()
    gc.freeze()  # so that a collection looks at what is new alone
    gc.disable()
    try:
        run_state_machine_as_test(
            Watched, settings=settings(max_examples=3, database=None, derandomize=True)
        )
    finally:
        gc.enable()
        gc.unfreeze()
    assert not found


def _is_record(each: Any) -> bool:
    return type(each).__module__ in (entry.__name__, tasks.__name__)
