"""The history of cells: where its lines run, and what is said of a cell."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from workbench.checkpoints.records import Checkpoint, Lost, Part
from workbench.report.graph import MOST_LANES, drawn, junctions, width_of
from workbench.report.history import MOST_ROWS, CellHistory

EMPTY = Checkpoint(1, None, 1, "", 0.0, 0.0, (), {}, {}, {}, (), (), "/", ())


def _part(*names: str) -> Part:
    kinds = dict.fromkeys(names, "ndarray float64 (9,)")
    box: Any = None  # where it is stored
    return Part(names, box, 0, {}, frozenset(), 80, since=2, kinds=kinds)


CHANGED = replace(
    EMPTY,
    number=2,
    before=1,
    cell=4,
    source="<b>a</b> = `b`",
    seconds=0.5,
    parts=(_part("a", "b"), _part("other")),
    plain={"n": "<i>"},
    modules={"np": "numpy"},
    lost={"f": Lost("TextIOWrapper", "a file", 4), "g": Lost("generator", "", 3)},
    changed=("a", "n", "np"),
    deleted=("x",),
)


@pytest.mark.parametrize(
    ("points", "first", "lines"),
    [
        ([(2, 1), (1, None)], 2, ["0:>", "0:0"]),
        # After %undo of 3: what followed leaves the line to the side.
        ([(3, 2), (2, 1), (1, None)], 2, ["1:>", "0:1>", "0:0"]),
        # Two cells follow 1; the one that isn't present ends in it from its own lane.
        ([(3, 1), (2, 1), (1, None)], 3, ["0:>", "1:|0>", "0:01"]),
        # A lane is used again once its line has ended.
        (
            [(5, 3), (4, 3), (3, 1), (2, 1), (1, None)],
            5,
            ["0:>", "1:|0>", "0:01>", "1:|0>", "0:01"],
        ),
        # The one before is gone: the line begins here.
        ([(9, 8), (4, 3)], 9, ["0:", "1:"]),
    ],
)
def test_lines_run_in_lanes(
    points: list[tuple[int, int | None]], first: int, lines: list[str]
) -> None:
    """Each row: its lane, the lanes that end in it, ``|`` those that pass, ``>`` if it goes on."""
    found = [
        f"{row.lane}:{''.join(map(str, row.ends))}{''.join(f'|{n}' for n in row.passes)}"
        f"{'>' if row.goes_on else ''}"
        for row in junctions(points, first)
    ]
    assert found == lines


def test_many_branches_take_no_more_room_than_some() -> None:
    found = junctions([(n, 1) for n in range(60, 1, -1)] + [(1, None)], 60)
    width = width_of(found)
    assert width < 14 * (MOST_LANES + 2)
    assert f"M{width + 7} " not in "".join(drawn(row, width, False) for row in found)


class _Texts(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_what_a_cell_changed_is_told_with_its_source() -> None:
    history = CellHistory((EMPTY, CHANGED), {"main": 2, "<try>": 1}, "main")
    page = _Texts(history.look(2))
    text = " ".join(page.texts)
    for said in (
        *("a ndarray float64 (9,) 80 B stored together with b", "n str  '<i>'", "np module  numpy"),
        *("x   deleted", "f TextIOWrapper  not kept: a file", "<b>a</b> = `b`"),
    ):
        assert " ".join(said.split()) in " ".join(text.split())
    assert "generator" not in text  # another cell's
    assert not {"b", "i"} & {*page.tags} - {"b"}
    assert history.look(3) == ""
    top, first = history.rows
    assert (top.title, top.changed, top.size, top.all) == (
        "Cell [4]",
        "a, n, np, del x",
        "80 B",
        "160 B",
    )
    assert (top.branches, top.here, first.branches, first.here) == (
        ["main (here)"],
        True,
        ["<try>"],
        False,
    )
    assert "<try>" in _Texts(history._repr_html_()).texts
    msgspec.json.encode(history.rows)


def test_the_still_opens_the_latest_cells_and_counts_the_others() -> None:
    cells = [
        replace(CHANGED, number=n, before=n - 1 or None, cell=n) for n in range(1, MOST_ROWS + 5)
    ]
    history = CellHistory(cells, {"main": MOST_ROWS + 4}, "main")
    page = _Texts(history._repr_html_())
    assert page.tags.count("details") == page.tags.count("summary") == MOST_ROWS
    assert any("and 4 earlier ones" in text for text in page.texts)
    assert str(history).count("`np`") == MOST_ROWS + 4
