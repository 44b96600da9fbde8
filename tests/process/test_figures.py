"""Figures that were drawn in a task: who gets one can draw it, change it and draw it again."""

from __future__ import annotations

import io

import numpy as np
import pytest
from matplotlib.figure import Figure

import workbench as wb
from workbench.engine.base import Engine

pytestmark = pytest.mark.extended  # of read-only arrays in objects, others tell too

DRAWN = {
    "lines": "ax.plot(x, y); ax.twinx().plot(x, y); ax.legend(['a'])",
    "colour bar": "fig.colorbar(ax.imshow(square)); ax.scatter(x, y, c=y, s=y)",
    "mesh": "ax.pcolormesh(square); ax.contourf(square[:50, :50])",
    "masked": "ax.imshow(np.ma.masked_less(square, 0.5)); ax.plot(np.ma.masked_less(y, 0.5))",
}

CHANGES = (
    "ax.set_xlim(0, 2); ax.margins(0.2); ax.autoscale_view(); ax.set_ylim(0.1, 3)",
    "fig.set_size_inches(3, 3); fig.subplots_adjust(left=0.3)",
    "for line in ax.lines: line.set_ydata(line.get_ydata() * 2)",
    "for each in [*ax.images, *ax.collections]: each.set_clim(0, 0.5); each.set_cmap('gray')",
    "ax.dataLim.x0 = 0; ax.viewLim.intervalx = (0, 1)",
    "ax.start_pan(1, 1, 1); ax.drag_pan(1, None, 20, 20); ax.end_pan()",
)


@wb.remote
def draw(code: str) -> Figure:
    random, fig = np.random.default_rng(0), Figure()
    x, y, square = np.linspace(0, 1, 20_000), random.random(20_000), random.random((140, 140))
    exec(code, {"np": np, "fig": fig, "ax": fig.subplots(), "x": x, "y": y, "square": square})
    fig.draw_without_rendering()
    return fig


@wb.remote
def redraw(fig: Figure) -> tuple[bool, bool]:
    """Whether its picture changes with it, and is the same once it was stored again."""

    def picture(figure: Figure) -> bytes:
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=30)
        return file.getvalue()

    first = picture(fig)
    for change in CHANGES:
        exec(change, {"fig": fig, "ax": fig.axes[0]})
        fig.draw_without_rendering()
    last = picture(fig)
    return last != first, picture(wb.get(wb.put(fig))) == last


def test_a_figure_can_be_drawn_and_changed(session: Engine) -> None:
    got = {kind: wb.get(redraw.remote(draw.remote(code))) for kind, code in DRAWN.items()}
    assert got == dict.fromkeys(DRAWN, (True, True))


@wb.remote
def writeable(fig: Figure) -> list[bool]:
    axes = fig.axes[0]
    read = axes.lines[0].get_ydata(orig=True), axes.images[0].get_array().data
    written = axes.spines["left"].get_path().vertices, axes.viewLim.get_points()
    return [array.flags.writeable for array in (*read, *written)]


def test_only_what_matplotlib_writes_to_is_copied(session: Engine) -> None:
    ref = draw.remote("ax.plot(x, y); ax.imshow(square)")
    assert wb.get(writeable.remote(ref)) == [False, False, True, True]
