"""What a check answers of unfinished cells, and of values that its look can't read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from workbench.core.snapshot import JobRecord
from workbench.course.exercises import Live, Outcome, Page, RefusedError, exercise, right, wrong
from workbench.engine.base import Engine
from workbench.errors import WorkbenchError

HINTS = "one", "two", "three"


def alone(variables: Mapping[str, Any]) -> Live:
    """A notebook's variables; the looks here ask no session."""
    return Live(variables, cast(Engine, None))


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("queued", "The cell that makes `x` hasn't begun: ask again when it is done."),
        ("running", "The cell that makes `x` is still running: ask again when it is done."),
        ("failed", "The last background cell that makes `x` has failed."),
        ("stopped", "The last background cell that makes `x` was stopped."),
    ],
)
def test_a_cell_that_isnt_done_is_said_to_be(state: str, says: str) -> None:
    job = JobRecord(1, 1, "cell", state, 0.0, 0, 0, ("x",), False)
    done = JobRecord(1, 1, "cell", "done", 0.0, 0, 0, ("x",), False)
    assert alone({}).done(done, "x") is done
    with pytest.raises(RefusedError) as refused:
        alone({}).done(job, "x")
    runs = state in ("queued", "running")
    assert refused.value.outcome.state == ("unready" if runs else "wrong")
    assert str(refused.value.outcome.sentence) == says


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (KeyError("months"), "`x` has another shape than asked for (KeyError: 'months')."),
        (WorkbenchError("no session"), "This can't be checked: WorkbenchError: no session"),
        (OSError("no file"), "This can't be checked: OSError: no file"),
        (RefusedError(wrong("`{name}` is old.", name="x")), "`x` is old."),
    ],
)
def test_what_a_look_raises_is_a_sentence(error: Exception, says: str) -> None:
    @exercise(HINTS, Page("views.md", "What you see"), needs=("x",))
    def look(live: Live) -> Outcome:
        raise error

    found = look.ask(alone({"x": 1}))
    assert (found.state, str(found.sentence)) == ("wrong", says)


@exercise(HINTS, Page("views.md", "What you see"), needs=("x",), subject="flood")
def look(live: Live) -> Outcome:
    return right("{first}", first=live["flood"][0])


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({}, "There is no variable `x` now: run the exercise's cell, above this check."),
        ({"x": ...}, "`x` has no value yet: its cell waits for you."),
        # Somebody may have deleted it, as an exercise on memory suggests.
        ({"x": 1}, "There is no variable `flood` now: run the cell above that makes it."),
        ({"x": 1, "flood": []}, "`flood` has another shape than asked for (IndexError: list index"),
    ],
)
def test_what_is_missing_is_told_from_what_is_empty(variables: dict[str, Any], says: str) -> None:
    found = look.ask(alone(variables))
    assert found.state == ("wrong" if "flood" in variables else "untouched")
    assert str(found.sentence).startswith(says)
