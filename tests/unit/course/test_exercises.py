"""What a check answers of unfinished cells, and of values that its look can't read; which exercises
a class has done, read from saved notebooks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from workbench.core.snapshot import JobRecord
from workbench.course.exercises import Exercise, Live, Outcome, RefusedError, right, wrong
from workbench.course.results import results
from workbench.engine.base import Engine
from workbench.errors import WorkbenchError

WORDS = ("one", "two", "three"), ("views.md", "What you see"), ("x",)
"""Hints, page and needs."""


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
    def look(live: Live) -> Outcome:
        raise error

    found = Exercise("look", look, *WORDS).ask(alone({"x": 1}))
    assert (found.state, str(found.sentence)) == ("wrong", says)


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
    found = Exercise("look", look, *WORDS, "flood").ask(alone(variables))
    assert found.state == ("wrong" if "flood" in variables else "untouched")
    assert str(found.sentence).startswith(says)


ASKED = "put_again: {}\nThe store has 12 months.\nhint 1: look\n{} 是不是副本？：已完成 {}/4 个练习"


def test_a_row_says_what_is_done_and_what_not(tmp_path: Path) -> None:
    """In any language; the latest output may be of a check that was run earlier."""
    texts = [ASKED.format("Right.", "○○●○", 1), ["not a check: 1\n", "x"],
             ASKED.format("尚未开始。", "●○○○", 1)]  # fmt: skip
    outputs = [{"data": {"text/plain": text}} for text in texts]
    cells = [{"outputs": [output, {"text": "printed"}]} for output in outputs] + [{"source": ""}]
    for folder in ("ada", ".ipynb_checkpoints"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "02.ipynb").write_text(json.dumps({"cells": cells}))
    (tmp_path / "new.ipynb").write_text('{"cells": []}')
    (tmp_path / "torn.ipynb").write_text('{"cells": [')
    rows = [re.split("  +", line) for line in str(results(tmp_path)).splitlines()]
    assert rows == [
        ["notebook", "lesson", "done", "not yet"],
        ["ada/02.ipynb", "Is it a copy?", "2 of 4", "own_copy, shareable"],
        ["new.ipynb", "no check was run"],
        ["torn.ipynb", rows[3][1]],
    ]
    assert rows[3][1].startswith("can't be read: ")
    assert str(results(tmp_path / "no")).endswith(f"There is no notebook in '{tmp_path}/no'.")
