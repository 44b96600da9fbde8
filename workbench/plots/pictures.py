"""The views of a session as one PNG: put below each other on a canvas of its own.

Drawn with matplotlib's Figure and Agg canvas, so that what a person does with pyplot at the same
time, in another thread, is never touched.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.core.snapshot import Snapshot
from workbench.plots import charts, maps
from workbench.plots.drawing import LINE, POINTS, write
from workbench.report import view_texts
from workbench.report.facts import Held
from workbench.report.html import Still

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 720.0
"""Of a picture, in points: 1000 pixels."""

DOTS = 100
MARGIN = 14.0
"""Points at the sides."""

ENDS = (60.0, 104.0, 30.0)
"""To the left and right of a timeline and below it, for its labels."""


TITLE = 22.0
MOST_LETTERS = 120
"""Of a line of the caption."""

MOST_ROWS = 7


class _Pane(NamedTuple):
    """One Axes, so many points high, with so many to its left, right and below it."""

    title: str
    height: float
    draw: Callable[[Axes], None]
    left: float = MARGIN
    right: float = MARGIN
    below: float = 12.0


def picture(still: Still) -> bytes:
    """What a still form shows, as a PNG, some 1000 pixels wide, on no ground of its own."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    now = view_texts.shown(still.snapshot)
    panes = [pane for part in still.parts for pane in _panes(part, now, still.held)]
    caption = wrap(still.caption(), MOST_LETTERS)
    height = sum(TITLE + pane.height + pane.below for pane in panes) + (1 + len(caption)) * LINE
    figure = Figure((WIDTH / POINTS, height / POINTS), dpi=DOTS, facecolor="none")
    canvas = FigureCanvasAgg(figure)
    top = height
    for pane in panes:
        write(figure, MARGIN / WIDTH, (top - LINE) / height, pane.title, fontsize=10, weight="bold")
        top -= TITLE + pane.height
        width = WIDTH - pane.left - pane.right
        box = (pane.left / WIDTH, top / height, width / WIDTH, pane.height / height)
        pane.draw(figure.add_axes(box))
        top -= pane.below
    for line, text in enumerate(reversed(caption)):
        write(figure, MARGIN / WIDTH, (6 + line * LINE) / height, text, style="italic")
    return _encoded(canvas)


def _encoded(canvas: Any) -> bytes:
    """Two greys and eight hues, mixed with nothing: 256 colours do, in a third of the bytes."""
    from PIL import Image

    canvas.draw()
    image = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba())
    out = io.BytesIO()
    few = image.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.save(out, format="png")
    return out.getvalue()


def _panes(part: str, now: Snapshot, held: Held | None) -> list[_Pane]:
    match part:
        case "occupancy":
            high = maps.occupancy_height(now, maps.MOST_LANES)
            return [
                _Pane("Occupancy", high, lambda ax: maps.occupancy(ax, now, held=held)),
                _Pane("Last two minutes", maps.TIMELINE, lambda ax: maps.timeline(ax, now), *ENDS),
            ]
        case "pins":
            high = charts.pins_height(now, MOST_ROWS)
            return [_Pane("Pins", high, lambda ax: charts.pins(ax, now, held))]
        case "costs":
            high = charts.costs_height(now, MOST_ROWS)
            return [_Pane("Costs", high, lambda ax: charts.costs(ax, now, held))]
        case _:
            high = charts.jobs_height(now, MOST_ROWS)
            return [_Pane("Jobs", high, lambda ax: charts.jobs(ax, now))]
