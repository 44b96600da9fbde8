"""The states of a task: the table itself. That tasks keep to it, every machine shows."""

from __future__ import annotations

import pytest

from workbench.core.events import Submit
from workbench.core.task_states import DONE, TRANSITIONS, WAITING, TaskState
from workbench.core.tasks import Task

STEPS = [(old, new) for old in TaskState for new in TaskState]


@pytest.mark.parametrize(("old", "new"), STEPS, ids=lambda state: state.name)
def test_a_task_takes_the_steps_of_the_table_and_no_others(old: TaskState, new: TaskState) -> None:
    task = Task(Submit(1, 0, b""), 1)
    task.state = old
    if new in TRANSITIONS[old]:
        task.to(new)
        assert task.state is new
    else:
        with pytest.raises(AssertionError, match=f"{old.name} → {new.name}"):
            task.to(new)


def test_it_may_end_in_any_state_and_gets_to_each() -> None:
    assert all(DONE in TRANSITIONS[state] for state in TaskState if state is not DONE)
    reached = {WAITING}
    for _ in TaskState:
        reached |= {new for old in reached for new in TRANSITIONS[old]}
    assert reached == set(TaskState)
