"""Figures in words. The cases are the page's too: `tests/js/format.test.js` reads the same file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workbench import format as figures

CASES = json.loads((Path(__file__).parent / "format_cases.json").read_text())
FUNCTIONS = {
    "bytes": figures.human_bytes,
    "rate": figures.human_rate,
    "seconds": figures.human_seconds,
    "age": figures.human_age,
    "elapsed": figures.human_elapsed,
    "count": figures.human_count,
    "counted": figures.count,
    "share": figures.human_share,
}
"""By their names in `format.js`."""


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [(name, given, wanted) for name, cases in CASES.items() for given, wanted in cases],
)
def test_figures(name: str, given: object, wanted: str) -> None:
    arguments = given if isinstance(given, list) else [given]
    assert FUNCTIONS[name](*arguments) == wanted


@pytest.mark.parametrize(
    ("s", "text"),
    [(28800.0, "8 h"), (3600, "1 h"), (5400, "90 min"), (120.0, "2 min"), (90, "90 s")],
)
def test_times_that_people_set(s: float, text: str) -> None:
    assert figures.human_time(s) == text


def test_lists_that_are_cut_say_how_much_is_left() -> None:
    assert figures.listed(["a", "b"], 2) == "a, b"
    assert figures.listed(["a", "b", "c"], 2) == "a, b and 1 more"
