"""The line of a history with its branches: the lane of each row, and its drawing. Pure.

Makes HTML beside `markup`, from numbers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from workbench.report.markup import MUTED, Html, as_html, mood_color

HEIGHT = 26
"""Pixels of a row, also in a page's style sheet."""

LANE = 14
MOST_LANES = 8
"""Lanes beside each other; further ones are drawn on the last."""


_CHIP = "margin-left:.5em;padding:0 .5em;border:1px solid rgba(128,128,128,.5);border-radius:9px"


class Junction(NamedTuple):
    """One row: its point is in ``lane``. Lines from above end in it (``ends``: their lanes), or
    pass by; ``goes_on``: a line leads down from it."""

    lane: int
    ends: tuple[int, ...]
    passes: tuple[int, ...]
    goes_on: bool

    @property
    def below(self) -> tuple[int, ...]:
        """The lanes that lead to the next row."""
        return (*self.passes, self.lane) if self.goes_on else self.passes


def junctions(points: Sequence[tuple[int, int | None]], first: int) -> list[Junction]:
    """Return the row of each point.

    Parameters
    ----------
    points : sequence of tuple
        The number of each, and that of the one before it; the highest first.
    first : int
        The one whose line has lane 0, to its beginning.
    """
    known = {number for number, _ in points}
    lanes: list[int | None] = [None]  # which point each leads down to
    found = []
    for number, before in points:
        ends = [lane for lane, to in enumerate(lanes) if to == number]
        free = [lane for lane, to in enumerate(lanes) if to is None and lane]
        lane = 0 if number == first else min(ends or free or [len(lanes)])
        passes = [each for each, to in enumerate(lanes) if to is not None and to != number]
        for each in ends:
            lanes[each] = None
        goes_on = before in known
        if goes_on:
            lanes += [None] * (lane + 1 - len(lanes))
            lanes[lane] = before
        found.append(Junction(lane, tuple(ends), tuple(passes), goes_on))
    return found


def width_of(rows: Iterable[Junction]) -> int:
    """Return the pixels that a drawing of these rows takes."""
    most = max((max(each.lane, *each.ends, *each.passes, 0) for each in rows), default=0)
    return LANE * (min(most, MOST_LANES) + 1)


def drawn(row: Junction, width: int, is_here: bool) -> Html:
    """Return the drawing of one row, to be put right below that of the row above."""
    middle, x = HEIGHT // 2, _x(row.lane)
    lines = [_line(lane, f"M{_x(lane)} 0V{HEIGHT}") for lane in row.passes]
    for lane in row.ends:
        lines.append(_line(lane, f"M{_x(lane)} 0Q{_x(lane)} {middle} {x} {middle}"))
    if row.goes_on:
        lines.append(_line(row.lane, f"M{x} {middle}V{HEIGHT}"))
    color = _color(row.lane)
    inside = color if is_here else "var(--jp-layout-color1,Canvas)"
    point = (
        f'<circle cx="{x}" cy="{middle}" r="4" '
        f'style="fill:{inside};stroke:{color};stroke-width:1.5"></circle>'
    )
    size = f"display:block;width:{width}px;height:{HEIGHT}px"
    return _svg(size, "".join((*lines, point)))


def drawn_on(row: Junction, width: int) -> Html:
    """Return the lines that lead from a row to the next, as high as what stands between them, in
    whose left edge they are drawn."""
    size = f"position:absolute;left:0;top:0;width:{width}px;height:100%"
    return _svg(size, "".join(_line(lane, f"M{_x(lane)} 0V9999") for lane in row.below))


def fold(
    width: int, cells: Sequence[str], chips: Sequence[str] = (), body: Sequence[Html] = ()
) -> Html:
    """Return a row that opens when it is pressed: a drawing of that ``width`` and further cells, of
    which the second takes the room, with ``chips`` behind it. Without a ``body``: the heads."""
    columns = f"{width}px 5.5em minmax(8em,1fr) 5.5em 5em 5em"
    style = (
        f"display:grid;grid-template-columns:{columns};gap:0 .8em;align-items:center;"
        f"height:{HEIGHT}px;font-variant-numeric:tabular-nums;white-space:nowrap"
    )
    more = "".join(f' <span style="{_CHIP}">{as_html(chip)}</span>' for chip in chips)
    inside = "".join(
        f'<span style="overflow:hidden;text-overflow:ellipsis;text-align:'
        f'{"right" if place > 2 else "left"}">{as_html(cell)}{more if place == 2 else ""}</span> '
        for place, cell in enumerate(cells)
    )
    if not body:
        return Html(f'<div style="{style};{MUTED}">{inside}</div>')
    lines, shown = body
    return Html(
        f'<details style="margin:0"><summary style="{style};cursor:pointer">{inside}</summary>'
        '<div style="position:relative;overflow-x:auto;'
        f'padding:.2em 0 .8em calc({width}px + .8em)">'
        f"{lines}{shown}</div></details>"
    )


def _svg(style: str, inside: str) -> Html:
    return Html(f'<svg aria-hidden="true" style="{style}">{inside}</svg>')


def _line(lane: int, path: str) -> str:
    return f'<path d="{path}" style="fill:none;stroke:{_color(lane)};stroke-width:1.5"></path>'


def _x(lane: int) -> int:
    return LANE // 2 + LANE * min(lane, MOST_LANES)


def _color(lane: int) -> str:
    return mood_color("idle" if lane else "busy")
