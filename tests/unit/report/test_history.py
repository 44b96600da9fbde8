"""The history of cells: where its lines run, and what is said of a cell."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import Any

import pytest

from workbench.checkpoints.records import Checkpoint, Lost, StoredGroup
from workbench.report.graph import junctions
from workbench.report.history import MOST_ROWS, CellHistory, look

BOX: Any = None  # where it is stored
GROUP = StoredGroup(("a", "b"), BOX, 0, {}, frozenset(), 80, kinds={"a": "ndarray", "b": "list"})
LOST = {"f": Lost("TextIOWrapper", "a file", 4), "g": Lost("generator", "", 3)}
HAS = ((GROUP,), {"n": "<i>"}, {"np": "numpy"}, LOST, ("a", "n", "np"), ("x",))
CELL = Checkpoint(2, 1, 4, "<b>a</b> = `b`", 0.0, 0.0, *HAS, "/", ())


@pytest.mark.parametrize(
    ("points", "lines"),
    [
        # Of two that follow 1, the one that isn't present ends in it from its own lane.
        ([(3, 1), (2, 1), (1, None)], ["0>", "1|0>", "001"]),
        # A lane is used again once its line has ended.
        ([(5, 3), (4, 3), (3, 1), (2, 1), (1, None)], ["0>", "1|0>", "001>", "1|0>", "001"]),
    ],
)
def test_lines_run_in_lanes(points: list[tuple[int, int | None]], lines: list[str]) -> None:
    """Each row: its lane, the lanes that end in it, ``|`` those that pass, ``>`` if it goes on."""
    found = [
        f"{lane}{''.join(map(str, ends))}{''.join(f'|{each}' for each in passes)}{'>' * goes_on}"
        for lane, ends, passes, goes_on in junctions(points, points[0][0])
    ]
    assert found == lines
    assert [row.lane for row in junctions([(3, 2), (2, 1), (1, None)], 2)] == [1, 0, 0]  # 3: undone


def _said(page: str) -> str:
    return " ".join(html.unescape(re.sub("<.*?>", " ", page)).split())


def test_what_a_cell_changed_is_told_with_its_source() -> None:
    assert _said(look(CELL)) == (
        "variable type size note a ndarray 80 B stored together with b n str '<i>' np module numpy "
        "x deleted f TextIOWrapper not kept: a file Source <b>a</b> = `b`"
    )


def test_a_history_has_the_latest_cells_and_all_branches() -> None:
    cells = [replace(CELL, number=n, before=n - 1, cell=n) for n in range(1, MOST_ROWS + 4)]
    history = CellHistory(cells, {"<try>": 1, "main": 30}, "main")
    page = history._repr_html_()
    assert page.count("<details") == MOST_ROWS
    assert "Cell [30] a, n, np, del x ← main (here) 80 B" in _said(page)
    branches = str(replace(history, only_ends=True)).splitlines()[1:]
    assert [line.split("  ")[0] for line in branches] == ["<try>", "main (here)"]
