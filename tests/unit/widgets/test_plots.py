"""Plots of a session: Axes in, Axes out, of now or of a snapshot that was kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import workbench
from tests.unit.widgets import snapshots
from workbench import context
from workbench.core.snapshot import Snapshot
from workbench.errors import SessionError
from workbench.plots.sheets import MOST_BOXES
from workbench.report.colors import BAD, HUES

MB = snapshots.MB
PLOTS: list[Callable[..., Any]] = [
    workbench.plot_occupancy,
    workbench.plot_pins,
    workbench.plot_costs,
    workbench.plot_timeline,
]
every_plot = pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.__name__)


@pytest.fixture(autouse=True)
def _no_screen() -> Iterator[None]:
    from matplotlib import pyplot

    with pyplot.rc_context():
        pyplot.switch_backend("agg")
        yield
        pyplot.close("all")


def _axes(width: float = 8, height: float = 6) -> Any:
    from matplotlib.figure import Figure

    return Figure((width, height)).add_subplot()


def _all_texts(ax: Any) -> list[Any]:
    return [artist for artist in ax.findobj() if hasattr(artist, "get_text") and artist.get_text()]


def _texts(ax: Any) -> list[str]:
    return [text.get_text() for text in _all_texts(ax)]


def _boxes(ax: Any) -> list[tuple[float, float, str]]:
    """(start, length, colour) of all boxes, in the order in which they were drawn."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_hex

    found = []
    for collection in ax.findobj(PolyCollection):
        colors = collection.get_facecolor()
        for path, color in zip(collection.get_paths(), colors, strict=True):
            x = path.vertices[:, 0]
            found.append((x.min(), x.max() - x.min(), to_hex(color)))
    return found


@every_plot
def test_a_plot_goes_where_it_is_told_and_touches_nothing_else(plot: Callable[..., Any]) -> None:
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    figure = Figure((12, 5))
    left, right = figure.subplots(1, 2)
    assert plot(snapshots.usual(), ax=left) is left
    assert not pyplot.get_fignums()
    assert not right.has_data()
    assert not right.texts
    assert figure.axes == [left, right]
    figure.canvas.draw()
    ax = plot(snapshots.usual())  # notebooks show a figure that is open
    assert [pyplot.figure(number) for number in pyplot.get_fignums()] == [ax.figure]


@every_plot
@pytest.mark.parametrize("make", [snapshots.empty, snapshots.elsewhere, snapshots.hostile])
def test_all_there_is_can_be_drawn(plot: Callable[..., Any], make: Callable[[], Snapshot]) -> None:
    """Warnings are errors: also that of a font that lacks a letter."""
    ax = plot(make(), _axes())
    ax.figure.canvas.draw()
    assert _texts(ax)
    names = [text for text in _all_texts(ax) if "$" in text.get_text()]
    assert not [text for text in names if text.get_parse_math()]


@every_plot
def test_a_kept_snapshot_is_drawn_as_the_session_was(plot: Callable[..., Any]) -> None:
    now = snapshots.usual()
    kept = workbench.Snapshot.from_json(now.to_json())
    drawn = [_texts(plot(each, _axes())) for each in (now, now.to_json(), kept)]
    assert drawn[0] == drawn[1] == drawn[2]
    assert workbench.is_initialized() is False
    with pytest.raises(SessionError, match=r"no session to draw.*init\(\).*snapshot that was kept"):
        plot()
    with pytest.raises(ValueError, match="not a snapshot"):
        plot('{"a": 1}')
    with pytest.raises(TypeError, match="not of int"):
        plot(3)


@every_plot
def test_the_default_is_the_session_as_it_is(plot: Callable[..., Any]) -> None:
    engine: Any = SimpleNamespace(snapshot=snapshots.usual, ask=lambda query: {})
    context.set(engine)
    try:
        ax = plot(ax=_axes())
    finally:
        context.set(None)
    assert _texts(ax) == _texts(plot(snapshots.usual(), _axes()))


def test_segments_are_to_scale() -> None:
    ax = workbench.plot_occupancy(snapshots.usual(), _axes())
    assert ax.get_xlim() == (0, 209 * MB)  # as far as memory can be reused
    boxes = {(round(start / MB), round(length / MB)): color for start, length, color in _boxes(ax)}
    blue, orange, green = HUES[0], HUES[2], HUES[1]
    assert boxes[0, 80] == boxes[126, 24] == blue  # less a seam: a point, half a megabyte
    assert any(79 * MB < length < 80 * MB for _, length, _ in _boxes(ax))
    assert boxes[80, 42] == orange
    assert boxes[0, 30] == green  # on disk
    texts = _texts(ax)
    said = {"first-steps.ipynb", "worker 1", "disk", "161 MB live of 209 MB", "x", "train, frame"}
    assert said | {"live 189 MB", "on disk 30 MB", "This machine", "no object"} <= set(texts)


def test_objects_are_coloured_by_what_is_asked_for() -> None:
    def colors(by: str) -> dict[int, str]:
        ax = workbench.plot_occupancy(snapshots.usual(), _axes(), by=by)
        return {round(start / MB): color for start, length, color in _boxes(ax) if length > 4 * MB}

    by_owner = colors("owner")
    assert by_owner[80] == by_owner[126] == HUES[0]
    assert colors("movable")[80] == HUES[0]
    assert colors("movable")[126] == HUES[1]  # pinned
    by_age = colors("age")
    assert len({by_age[80], by_age[152], by_age[164]}) == 3
    with pytest.raises(ValueError, match="by type, owner, age, movable, not by 'size'"):
        workbench.plot_occupancy(snapshots.usual(), by="size")


def test_many_objects_are_added_up_by_place() -> None:
    ax = workbench.plot_occupancy(snapshots.crowd(5_000), _axes())
    assert len(_boxes(ax)) < MOST_BOXES + 20
    assert "3 333 objects" in _texts(ax)
    ends = max(start + length for start, length, _ in _boxes(ax))
    assert ends <= ax.get_xlim()[1] * 1.001


def test_a_low_plot_counts_segments_and_a_higher_one_shows_more_objects() -> None:
    texts = _texts(workbench.plot_occupancy(snapshots.usual(), _axes(height=2.2)))
    assert any(text.startswith("and 2 segments more") for text in texts)
    assert "This machine" not in texts  # segments come first

    def left(height: float) -> int:
        texts = _texts(workbench.plot_pins(snapshots.crowd(100), _axes(height=height)))
        return int(next(text for text in texts if re.match(r"and \d", text)).split()[1])

    assert left(16) < left(8) < left(4) < 100


def test_reasons_hold_so_many_bytes() -> None:
    ax = workbench.plot_pins(snapshots.usual(), _axes(14, 8))
    texts = _texts(ax)
    named = texts.index("named")
    assert texts[named : named + 3] == ["named", "2 objects", "122 MB"]
    lengths = [round(length / MB) for _, length, color in _boxes(ax) if color in HUES]
    assert 122 in lengths
    assert any("named x, ref in first-steps.ipynb, arrays" in text for text in texts)
    assert HUES[1] in {color for _, length, color in _boxes(ax) if round(length / MB) == 80}


def test_costs_stand_beside_each_other() -> None:
    ax = workbench.plot_costs(snapshots.usual(), _axes())
    assert ax.get_xlim()[1] == pytest.approx(0.022)  # seconds of the dearest
    copied = max(length for _, length, color in _boxes(ax) if color == HUES[0])
    assert copied == pytest.approx(0.020, rel=0.01)
    texts = _texts(ax)
    assert "ndarray float64 (10000000,) · 80 MB · copied at 4 GB/s" in texts
    advice = next(t for t in _all_texts(ax) if t.get_text().startswith("serialized"))
    assert advice.get_text() == "serialized 3 ×: put it once · 10.7 ms"
    assert advice.get_color() == BAD
    starts = [start for start, length, color in _boxes(ax) if color == HUES[0]]
    assert max(starts) == pytest.approx(0.002)  # behind the pickling


def test_the_timeline_is_stairs_with_marks() -> None:
    now = snapshots.usual()
    ax = workbench.plot_timeline(now, _axes())
    assert ax.get_xlim() == (-120, 0)
    live, spilled = ax.get_lines()[-2:]
    assert live.get_drawstyle() == "steps-post"
    assert list(np.asarray(live.get_xdata())) == [-112.0, -90.0, -64.5, -40.0, -12.0, -3.0, 0.0]
    assert np.asarray(live.get_ydata())[-1] == now.live
    assert np.asarray(spilled.get_ydata())[-1] == now.spilled
    puts, frees, spills = (np.asarray(marks.get_offsets())[:, 0] for marks in ax.collections[-3:])
    assert list(puts) == [-90.0, -64.5, -12.0, -3.0]
    assert list(frees) == [-64.5, -40.0, -12.0]
    assert list(spills) == [-40.0, -12.0]
    assert {"13 puts", "5 frees", "2 spills", "live 189 MB", "on disk 30 MB"} <= set(_texts(ax))


@every_plot
def test_no_text_lies_over_another(plot: Callable[..., Any]) -> None:
    ax = plot(snapshots.crowd(10))
    ax.figure.canvas.draw()
    texts = [text for text in _all_texts(ax) if text.get_visible()]
    for one, other in combinations([text.get_window_extent() for text in texts], 2):
        shared = min(one.x1, other.x1) - max(one.x0, other.x0)
        high = min(one.y1, other.y1) - max(one.y0, other.y0)
        assert shared < 1 or high < 3, (one, other)
