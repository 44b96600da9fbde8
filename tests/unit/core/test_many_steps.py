"""The slow run: a hundred thousand random steps through each of the core's machines."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

from tests.unit.core.test_actor_machine import ActorMachine
from tests.unit.core.test_session_machine import SessionMachine
from tests.unit.core.test_spill_machine import SpillMachine
from tests.unit.core.test_task_machine import TaskMachine

STEPS = 100_000


@pytest.mark.slow
@pytest.mark.parametrize("machine", [ActorMachine, SessionMachine, SpillMachine, TaskMachine])
def test_a_hundred_thousand_steps(machine: type[RuleBasedStateMachine]) -> None:
    steps = count()
    taken = 0

    class Counted(machine):  # type: ignore[misc, valid-type]
        @invariant()
        def one_more(self) -> None:
            nonlocal taken
            taken = next(steps)

    while taken < STEPS:
        run_state_machine_as_test(Counted, settings=settings(max_examples=200, database=None))
