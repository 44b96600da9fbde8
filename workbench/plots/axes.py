"""Plots of a session for a user's own figures: matplotlib Axes in, Axes out.

They draw what the views show, of this moment or of a saved snapshot. `maps` and `charts` draw;
nothing here decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench import context
from workbench.core.snapshot import Snapshot
from workbench.engine import queries
from workbench.errors import SessionError
from workbench.plots import charts, maps
from workbench.plots.drawing import POINTS
from workbench.report import view_texts
from workbench.report.colors import BY
from workbench.report.facts import Held

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 8.0
"""Width in inches of a new figure."""

MOST_ROWS = 12


def plot_occupancy(
    snapshot: Snapshot | str | bytes | None = None, ax: Axes | None = None, *, by: str = "type"
) -> Axes:
    """Draw where the memory goes: the store's capacity, and its segments with every object.

    Segments are lanes on one scale (bytes, from the left), objects boxes at their places in them.
    For more than 3 000 objects, boxes are parts of the lane: the colour is that of the most bytes
    in the part, and an emptier part is paler.

    Parameters
    ----------
    snapshot : Snapshot or str, optional
        The result of `workbench.snapshot`, or the text from its ``to_json``. Default: the
        current session, now.
    ax : Axes, optional
        Where to draw; pyplot is not touched then. Its size limits how many segments are
        shown. Default: a new figure.
    by : str
        Meaning of the colours: ``type``, ``owner``, ``age`` or ``movable`` (to disk).

    Returns
    -------
    Axes
        The x axis is in bytes of the segments, the y axis in points from the top.

    Raises
    ------
    ValueError
        If objects can't be coloured by that, or the text is no snapshot.
    SessionError
        If there is no snapshot, and no session to take one from.
    TypeError
        If it is something else.
    """
    if by not in BY:
        raise ValueError(f"Objects can be coloured by {', '.join(BY)}, not by {by!r}.")
    now, held = _resolved(snapshot)
    high = maps.occupancy_height(now, maps.MOST_LANES)
    ax = _axes(ax, high)
    maps.occupancy(ax, now, by, held)
    return ax


def plot_pins(snapshot: Snapshot | str | bytes | None = None, ax: Axes | None = None) -> Axes:
    """Draw what keeps objects: bytes for each reason, then the largest objects with their reasons.

    Parameters
    ----------
    snapshot, ax
        As in `plot_occupancy`. The size of the Axes decides how many objects are listed.

    Returns
    -------
    Axes
        The x axis is in bytes, the y axis in points from the top.

    Raises
    ------
    ValueError, SessionError, TypeError
        As `plot_occupancy` does.
    """
    now, held = _resolved(snapshot)
    ax = _axes(ax, charts.pins_height(now, MOST_ROWS))
    charts.pins(ax, now, held)
    return ax


def plot_costs(snapshot: Snapshot | str | bytes | None = None, ax: Axes | None = None) -> Axes:
    """Draw what serialization costs: seconds of pickling, copying and loading, the most first.

    Each object's bytes and copy speed are shown beside it; and "put it once" if it was serialized
    repeatedly.

    Parameters
    ----------
    snapshot, ax
        As in `plot_occupancy`. The size of the Axes decides how many objects are listed.

    Returns
    -------
    Axes
        The x axis is in seconds, the y axis in points from the top.

    Raises
    ------
    ValueError, SessionError, TypeError
        As `plot_occupancy` does.
    """
    now, held = _resolved(snapshot)
    ax = _axes(ax, charts.costs_height(now, MOST_ROWS))
    charts.costs(ax, now, held)
    return ax


def plot_timeline(snapshot: Snapshot | str | bytes | None = None, ax: Axes | None = None) -> Axes:
    """Draw the last two minutes: bytes in memory and on disk; puts, frees and spills as marks.

    Parameters
    ----------
    snapshot, ax
        As in `plot_occupancy`.

    Returns
    -------
    Axes
        The x axis is in seconds, 0 is when the snapshot was taken; the y axis is in bytes. The
        lines' names are to the right of the Axes.

    Raises
    ------
    ValueError, SessionError, TypeError
        As `plot_occupancy` does.
    """
    now, _ = _resolved(snapshot)
    ax = _axes(ax, maps.TIMELINE, ends=True)
    maps.timeline(ax, now)
    return ax


def _resolved(snapshot: Snapshot | str | bytes | None) -> tuple[Snapshot, Held | None]:
    """Return what to draw; and the variables that hold it, if it is of now."""
    if isinstance(snapshot, Snapshot):
        return view_texts.without_internal(snapshot), None
    if isinstance(snapshot, str | bytes):
        return view_texts.without_internal(Snapshot.from_json(snapshot)), None
    if snapshot is not None:
        raise TypeError(
            f"A plot is of a snapshot, or of the text that its to_json() made, not of "
            f"{type(snapshot).__name__}."
        )
    engine = context.get()
    if engine is None:
        raise SessionError(
            "There is no session to draw. `workbench.init()` or `%load_ext workbench` begins one; "
            "or give a snapshot that was kept: plot_occupancy(text)."
        )
    return view_texts.without_internal(engine.snapshot()), engine.ask(queries.Held())


def _axes(ax: Axes | None, height: float, ends: bool = False) -> Axes:
    """Return the given Axes, or that of a new figure ``height`` points high."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    around = (0.08, 0.86, 30.0) if ends else (0.02, 0.98, 8.0)
    whole = height + around[2] + 8
    figure = pyplot.figure(figsize=(WIDTH, whole / POINTS), facecolor="none")
    figure.subplots_adjust(around[0], around[2] / whole, around[1], 1 - 8 / whole)
    return figure.add_subplot()
