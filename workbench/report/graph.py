"""The line of a history with its branches: the lane of each row, and its HTML, beside `markup`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from workbench.report.markup import Html, as_html, mood_color

HEIGHT, LANE = 26, 14
"""Pixels of a row, also in the page's style sheet, and of a lane."""

MOST_LANES = 8
"""Further lanes are drawn on the last."""


class Junction(NamedTuple):
    """A row: its point is in ``lane``. Lines from above end in it (``ends``: their lanes), or
    pass by; ``goes_on``: a line leads down from it."""

    lane: int
    ends: tuple[int, ...]
    passes: tuple[int, ...]
    goes_on: bool


def junctions(points: Sequence[tuple[int, int | None]], first: int) -> list[Junction]:
    """Return the row of each point: its number and that of the one before it, the highest first.

    The line of ``first`` has lane 0, to its beginning.
    """
    known = {number for number, _ in points}
    lanes: list[int | None] = [None] * (len(points) + 1)  # the point that each leads down to
    found = []
    for number, before in points:
        ends = [lane for lane, to in enumerate(lanes) if to == number]
        lane = 0 if number == first else min(ends, default=lanes.index(None, 1))
        passes = [each for each, to in enumerate(lanes) if to is not None and to != number]
        for each in ends:
            lanes[each] = None
        lanes[lane] = before if before in known else None
        found.append(Junction(lane, tuple(ends), tuple(passes), before in known))
    return found


def width_of(rows: Iterable[Junction]) -> int:
    """Return the pixels that a drawing of these rows takes."""
    return max((_x(max(each.lane, *each.passes, 0)) for each in rows), default=0) + LANE // 2


def drawn(row: Junction, width: int, is_here: bool | None = None) -> Html:
    """Return the drawing of a row, to stand right below the row above; without ``is_here``, what
    leads from it to the next row, along the left edge of what stands between."""
    x, middle, goes_on = _x(row.lane), HEIGHT // 2, [row.lane] * row.goes_on
    if is_here is None:
        style = "position:absolute;left:0;top:0;height:100%"
        lines = [(lane, f"M{_x(lane)} 0v9999") for lane in (*row.passes, *goes_on)]
    else:
        style = f"display:block;height:{HEIGHT}px"
        lines = [(lane, f"M{_x(lane)} 0v{HEIGHT}") for lane in row.passes]
        lines += [(n, f"M{_x(n)} 0Q{_x(n)} {middle} {x} {middle}") for n in row.ends]
        lines += [(lane, f"M{x} {middle}V{HEIGHT}") for lane in goes_on]
    marks = [f'<path d="{path}" style="fill:none;{_stroke(lane)}"></path>' for lane, path in lines]
    if is_here is not None:
        inside = mood_color("busy") if is_here else "var(--jp-layout-color1,Canvas)"
        point = f'cx="{x}" cy="{middle}" r="4" style="fill:{inside};{_stroke(row.lane)}"'
        marks.append(f"<circle {point}></circle>")
    return Html(f'<svg aria-hidden="true" style="{style};width:{width}px">{"".join(marks)}</svg>')


def fold(width: int, cells: Sequence[str], body: Html) -> Html:
    """Return a row that opens when it is pressed: a drawing of that ``width`` and further cells, of
    which the second takes the room."""
    row = (
        f"display:grid;grid-template-columns:{width}px 5.5em minmax(8em,1fr) 5.5em 5em 5em;"
        f"gap:0 .8em;align-items:center;height:{HEIGHT}px;font-variant-numeric:tabular-nums"
    )
    cell = "overflow:hidden;text-overflow:ellipsis;white-space:nowrap;text-align:"
    inside = "".join(
        f'<span style="{cell}{"right" if place > 2 else "left"}">{as_html(each)}</span> '
        for place, each in enumerate(cells)
    )
    below = f"position:relative;overflow-x:auto;padding:.2em 0 .8em calc({width}px + .8em)"
    return Html(
        f'<details style="margin:0"><summary style="{row};cursor:pointer">{inside}</summary>'
        f'<div style="{below}">{body}</div></details>'
    )


def _x(lane: int) -> int:
    return LANE // 2 + LANE * min(lane, MOST_LANES)


def _stroke(lane: int) -> str:
    return f"stroke:{mood_color('idle' if lane else 'busy')};stroke-width:1.5"
