"""What a notebook has and what a cell changed, within a budget, whatever the values are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from workbench.checkpoints.records import Checkpoint, Lost
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


HOSTILE = dict.fromkeys(("__repr__", "__len__", "__sizeof__", "__getattr__", "__bool__"), fails)

ODD = {
    "odd": type("Odd", (), {**HOSTILE, "shape": property(fails), "dtype": property(fails)})(),
    "mute": Raising("Mute", (), HOSTILE)(),
    "inside": [type("array", (np.ndarray,), HOSTILE)(3)],
    "surrogate": "\ud800" * 3,
}


def checkpoint(number: int, changed: tuple[str, ...], **lost: Lost) -> Checkpoint:
    none: Mapping[str, Any] = {}
    return Checkpoint(
        number, number - 1, number, "", 0.0, 0.0, (), none, none, lost, changed, ("gone",), "", ()
    )


def notebook(variables: dict[str, Any], *line: Checkpoint) -> Any:
    """As much of one as is asked."""
    return SimpleNamespace(
        variables=variables,
        own_names=lambda: list(variables),
        keeping=SimpleNamespace(line=list(line)),
        shell=SimpleNamespace(run_line_magic=fails),
    )


def test_it_says_which_cell_changed_what_and_since_when() -> None:
    line = checkpoint(9, ("b",)), checkpoint(8, ("a", "b"), c=Lost("", "", 8)), checkpoint(7, ())
    there = notebook({"new": 1, "a": np.ones((2, 3)), "b": [1], "c": 2}, *line)
    told = answers.state(there, since=8)
    found = [(v["name"], v["cell"], v["changed"]) for v in told["variables"]]
    assert found == [("b", 9, True), ("a", 8, False), ("new", None, None), ("c", None, None)]
    assert told["variables"][1]["shape"] == [2, 3]
    assert {v["changed"] for v in answers.state(there, since=1)["variables"]} == {None}
    last = answers.changed(there)
    assert (last["cell"], [v["name"] for v in last["variables"]]) == (9, ["b"])
    assert last["deleted"] == ["gone"]
    unkept = answers.changed(notebook({"a": 1}))
    assert (unkept["kept"], unkept["variables"]) == (False, [])


@pytest.mark.parametrize("budget", [0, 200, 2000])
def test_what_has_no_room_is_counted(budget: int) -> None:
    told = answers.state(notebook({f"x{n}": n for n in range(100)}), budget=budget)
    assert len(told["variables"]) + told["left_out"] == 100
    assert len(json.dumps(told)) <= max(budget, 100)
    assert bool(told["variables"]) == (budget > 0)


def test_odd_objects_raise_no_error() -> None:
    told = answers.state(notebook(ODD), [*ODD, "none"], values=True, since=1)
    assert [v["name"] for v in told["variables"]] == list(ODD)
    assert (told["missing"], told["left_out"]) == (["none"], 0)
    assert json.loads(json.dumps(told)) == told
    assert answers.changed(notebook(ODD, checkpoint(1, tuple(ODD))))["cell"] == 1
    there = notebook(ODD)
    assert answers.explain(there, "cost", "odd")["kind"] == "error"
    there.shell.run_line_magic = pytest.fail  # only what asks is run
    assert answers.explain(there, "reset", "-f")["kind"] == "error"


def test_a_jobs_output_is_read_on_from_where_the_last_answer_ended() -> None:
    job, log = JobRecord(1, 1, "fit", "running", 1.0, 0, 0, (), False), Log(text=8)

    def printed(begin: int) -> tuple[int, int, str]:
        begin, end, text = of_output(job, [*log], begin)["output"].values()
        return begin, end, text

    log.add(Output(1, "stdout", b"one\n", origin=5))
    assert printed(0) == (0, 4, "one\n")
    log.add(Output(1, "stderr", b"two\n"))
    assert printed(4) == (4, 8, "two\n")
    assert printed(8) == (8, 8, "")
    log.add(Output(1, "stdout", b"three\n"))  # there is no room for the first line any more
    assert printed(4) == (8, 14, "three\n")
    log.add(Output(1, "clear", b"{}"))
    log.add(Output(1, "stdout", b"anew\n"))
    assert printed(14) == (0, 5, "anew\n")
