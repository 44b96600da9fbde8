"""What stays of the views in a notebook: text and HTML of one frozen moment."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.unit.widgets import snapshots
from workbench.core.snapshot import Snapshot
from workbench.format import OWN
from workbench.report.colors import HUES, INK
from workbench.report.html import COLUMNS, MOST_BOXES, MOST_ROWS, PARTS, Still
from workbench.report.markup import Html

GOLDEN = Path(__file__).parent / "golden"
REGENERATE = "WORKBENCH_GOLDEN"
"""Set it to have the golden files written anew. Then look at what `git diff` says."""

MOMENTS: dict[str, Callable[[], Snapshot]] = {
    "usual": snapshots.usual,
    "empty": snapshots.empty,
    "elsewhere": snapshots.elsewhere,
    "hostile": snapshots.hostile,
    "crowd": lambda: snapshots.crowd(1000),
}


@pytest.fixture(autouse=True)
def _east_of_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times are shown as clocks show them here."""
    monkeypatch.setenv("TZ", "HERE-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(params=MOMENTS)
def moment(request: pytest.FixtureRequest) -> Snapshot:
    return MOMENTS[request.param]()


@pytest.mark.parametrize("form", ["txt", "html"])
@pytest.mark.parametrize("name", [name for name in MOMENTS if name != "crowd"])
def test_what_stays_is_what_was_looked_at(name: str, form: str) -> None:
    still = Still(PARTS, MOMENTS[name]())
    # A line for each element, so that a difference can be read.
    made = str(still) if form == "txt" else still.html().replace("><", ">\n<")
    file = GOLDEN / f"{name}.{form}"
    if os.environ.get(REGENERATE):
        file.parent.mkdir(exist_ok=True)
        file.write_text(made + "\n")
    assert made + "\n" == file.read_text(), f"set {REGENERATE}=1 if this is meant"


class _Page(HTMLParser):
    """Elements must nest, and be none but those that every mail program shows."""

    ALLOWED = frozenset({"b", "code", "div", "span", "table", "tbody", "td", "th", "thead", "tr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.styles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.ALLOWED
        assert {name for name, _ in attrs} <= {"style", "title", "role", "aria-label"}
        self.styles += [value or "" for name, value in attrs if name == "style"]
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def _parsed(page: str) -> _Page:
    parser = _Page()
    parser.feed(page)
    parser.close()
    assert not parser.open
    return parser


def test_text_fits_a_terminal_and_names_are_text_in_html(moment: Snapshot) -> None:
    still = Still(PARTS, moment)
    assert max(map(len, str(still).splitlines())) <= COLUMNS
    parsed = _parsed(still.html())
    assert not [style for style in parsed.styles if "url(" in style or "expression" in style]
    text = "".join(parsed.texts)
    assert "&lt;" not in text  # escaped once
    if moment.session == snapshots.HOSTILE:
        assert text.count("<script>alert(1)</script>") > 5


def test_without_styles_every_figure_is_still_there() -> None:
    """As where a mail program or GitHub takes them away."""
    still = Still(PARTS, snapshots.usual())
    bare = Html(re.sub(r' (style|role|aria-label|title)="[^"]*"', "", still.html()))
    texts = "".join(_parsed(bare).texts).replace("\xa0", " ")
    for said in ("live 189 MB", "reusable 48 MB", "on disk 30 MB", "serialized 3 ×", "15:05:12"):
        assert said in texts
    assert re.search("█{20}", texts)  # the map, in letters
    # Where styles are kept these letters are not shown: the boxes are.
    assert "█" * 20 not in re.sub(r'<code style="display:none">.*?</code>', "", still.html())


def test_boxes_are_to_scale_and_never_too_many() -> None:
    page = Still(("occupancy",), snapshots.usual()).html()
    x = re.search(r'title="x: ndarray[^"]*, 80 MB" style="([^"]*)"', page)
    assert x is not None
    assert "width:38.277%" in x[1]  # 80 of 209 MB
    assert HUES[0] in x[1]
    for number in (100, 20_000):
        page = Still(("occupancy",), snapshots.crowd(number)).html()
        assert 20 < page.count("float:left") <= MOST_BOXES + 10
        for row in re.findall(r'role="img".*?</code>', page):
            widths = re.findall(r"[;\"](?:margin-left|width):([\d.]+)%", row)
            assert sum(map(float, widths)) <= 100.0


def test_what_is_left_out_is_told_and_sums_are_of_all() -> None:
    text = str(Still(("pins",), snapshots.crowd(1000)))
    assert re.search(rf"and {1000 - MOST_ROWS} more, [\d.]+ MB", text)
    listed = [snapshots.an_object(n, 10, where="inline", segment=0) for n in range(1, 6)]
    now = snapshots.a_session(listed, count=9000, live=5_000_000, segments=())
    text = str(Still(("occupancy", "pins", "costs"), now))
    assert "5 MB of objects too small for shared memory" in text
    assert text.count("of 9 000 objects, 5 are listed") == 3


def test_many_jobs_and_workers_are_counted() -> None:
    job, worker = snapshots.JOBS[1], snapshots.WORKERS[0]
    jobs = tuple(msgspec.structs.replace(job, number=number) for number in range(1, 41))
    workers = tuple(msgspec.structs.replace(worker, number=number) for number in range(1, 51))
    still = Still(("jobs",), snapshots.a_session((), jobs=jobs, workers=workers))
    lines = str(still).splitlines()
    assert len(lines) < 2 * MOST_ROWS + 10
    assert lines[2].startswith("#40")  # the latest first
    assert [line for line in lines if line.startswith("and ")] == ["and 10 more", "and 20 more"]


def test_rows_are_called_as_people_know_them_and_what_runs_cells_is_not_shown() -> None:
    held = {3: (("weights", "ref"), ("Out[3]", "view")), 1: (("other", "ref"),)}
    rows = str(Still(("pins",), snapshots.usual(), held)).splitlines()
    assert any(row.startswith("weights ") for row in rows)
    own = snapshots.an_object(2, 5, f"{OWN}Namespace", where="inline", segment=0)
    text = str(Still(PARTS, snapshots.a_session([snapshots.an_object(1, 10), own], count=1)))
    assert "1 object" in text
    assert "Namespace" not in text


def test_parts_are_shown_in_the_order_asked_for() -> None:
    text = str(Still(("jobs", "pins"), snapshots.usual()))
    assert 0 <= text.index("Jobs") < text.index("Pins")
    assert "Occupancy" not in text
    for wrong in ((), ("occupancy", "nothing")):
        with pytest.raises(ValueError, match="The views are occupancy, pins, costs, jobs"):
            Still(wrong, snapshots.usual())


def test_colours_can_be_read_on_white_and_on_black() -> None:
    """3:1 is what WCAG 2.2 asks for of large text and graphics (1.4.11)."""

    def luminance(color: str) -> float:
        parts = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ (0.2126, 0.7152, 0.0722))

    for color in (*HUES, INK):
        light = luminance(color)
        assert min(1.05 / (light + 0.05), (light + 0.05) / (luminance("#111111") + 0.05)) >= 3
