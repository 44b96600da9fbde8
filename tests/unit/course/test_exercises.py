"""What a check answers of unfinished cells, and of values that its look can't read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from workbench.core.snapshot import JobRecord
from workbench.course.clusters import line
from workbench.course.exercises import Live, Outcome, Page, RefusedError, exercise, right, wrong
from workbench.course.resilience import went_on
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


def test_a_variable_that_the_look_misses_is_named() -> None:
    """After a restart: ``flood`` is asked for by the look itself, since it may be anybody's."""

    @exercise(HINTS, Page("views.md", "What you see"), subject="flood")
    def look(live: Live) -> Outcome:
        return right("{count}", count=len(live["flood"]))

    found = look.ask(alone({}))
    assert found.state == "untouched"
    assert str(found.sentence) == (
        "There is no variable `flood` now: run the cell above that makes it."
    )


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


def test_what_is_missing_is_told_from_what_is_empty() -> None:
    """Somebody may have deleted it, as an exercise on memory suggests."""

    @exercise(HINTS, Page("views.md", "What you see"), needs=("x",))
    def look(live: Live) -> Outcome:
        raise AssertionError("nothing to look at")

    for variables, says in (
        ({}, "There is no variable `x` now: run the"),
        ({"x": ...}, "`x` has no value yet: its cell"),
    ):
        found = look.ask(alone(variables))
        assert found.state == "untouched"
        assert str(found.sentence).startswith(says)


def test_the_variable_that_is_named_may_be_another_than_is_needed() -> None:
    assert "`flood` has another shape" in str(went_on.ask(alone({"flood": []})).sentence)


def test_an_option_may_have_its_value_behind_an_equals_sign() -> None:
    address = "tcp://10.0.0.7:8786"
    for between in " =":
        given = f"%workbench start --engine{between}dask --address{between}{address}"
        said = right("That session would run on Dask at {address}.", address=address)
        assert line.ask(alone({"line": given})) == said
