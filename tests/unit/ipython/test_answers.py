"""What a notebook has and what a cell changed, within a budget, whatever the values are."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from workbench.core.events import Output
from workbench.core.logs import Log
from workbench.core.snapshot import JobRecord
from workbench.ipython import answers
from workbench.report.json import of_output


class Raising(type):
    """A metaclass of classes that tell nothing."""

    def __getattribute__(cls, name: str) -> Any:
        raise SystemExit(name)


def fails(*_: Any) -> Any:
    raise ValueError


def odd() -> dict[str, Any]:
    """No test before or after has them: who looks at all objects would meet them."""
    hostile = dict.fromkeys(("__repr__", "__len__", "__sizeof__", "__getattr__", "__bool__"), fails)
    return {
        "odd": type("Odd", (), {**hostile, "shape": property(fails), "dtype": property(fails)})(),
        "mute": Raising("Mute", (), hostile)(),
        "inside": [type("array", (np.ndarray,), hostile)(3)],
        "surrogate": "\ud800" * 3,
    }


def cell(number: int, *changed: str) -> Any:
    return SimpleNamespace(cell=number, changed=changed, deleted=["d"], lost={}, not_compared={})


def notebook(variables: dict[str, Any], *line: Any) -> Any:
    """As much of one as is asked."""
    shell, keeping = SimpleNamespace(run_line_magic=fails), SimpleNamespace(line=list(line))
    parts = {"variables": variables, "keeping": keeping, "shell": shell}
    return SimpleNamespace(own_names=lambda: list(variables), **parts)


def test_it_says_which_cell_changed_what_and_since_when() -> None:
    line = cell(9, "b"), cell(8, "a", "b"), cell(7)
    there = notebook({"new": 1, "a": np.ones((2, 3)), "b": [1]}, *line)
    told = answers.state(there, since=8)["variables"]
    found = [(each["name"], each["cell"], each["changed"]) for each in told]
    assert found == [("b", 9, True), ("a", 8, False), ("new", None, None)]
    assert told[1]["shape"] == [2, 3]
    assert {each["changed"] for each in answers.state(there, since=1)["variables"]} == {None}
    last = answers.changed(there)
    assert (last["cell"], last["variables"][0]["name"], last["deleted"]) == (9, "b", ["d"])
    assert not answers.changed(notebook({"a": 1}))["kept"]

    many = answers.state(notebook({f"x{n}": n for n in range(100)}), budget=2000)
    assert 2000 - 100 < len(json.dumps(many)) <= 2000
    assert len(many["variables"]) + many["left_out"] == 100


def test_odd_objects_raise_no_error() -> None:
    there = notebook(odds := odd(), cell(1, *odds))
    told = answers.state(there, [*odds, "none"], values=True, since=1)
    assert [v["name"] for v in told["variables"]] == list(odds)
    assert json.loads(json.dumps(told)) == told
    assert len(answers.changed(there)["variables"]) == len(odds)
    assert answers.explain(there, "cost", "odd")["kind"] == "error"
    there.shell.run_line_magic = pytest.fail  # only what asks is run
    assert answers.explain(there, "reset", "-f")["kind"] == "error"


def test_a_jobs_output_is_read_on_from_where_the_last_answer_ended() -> None:
    job, log = JobRecord(1, 1, "fit", "running", 1.0, 0, 0, (), False), Log(text=8)
    for kind, data, begin, answer in (
        ("stdout", "one\n", 0, (0, 4, "one\n")),
        ("stderr", "two\n", 4, (4, 8, "two\n")),
        ("stdout", "three\n", 4, (8, 14, "three\n")),  # the lines before aren't kept any more
        ("stdout", "", 14, (14, 14, "")),
        ("clear", "{}", 14, (14, 14, "")),  # it waits for what comes then
        ("stdout", "anew\n", 14, (0, 5, "anew\n")),
    ):
        log.add(Output(1, kind, data.encode(), origin=5))
        assert (*of_output(job, [*log], begin)["output"].values(),) == answer
