"""Plots of a session for a user's own figures: matplotlib Axes in, Axes out.

They draw what the views show, of this moment or of a saved snapshot: `sheets` and `timeline`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from workbench import context
from workbench.core.snapshot import Snapshot
from workbench.engine import queries
from workbench.errors import SessionError
from workbench.plots import sheets
from workbench.plots.drawing import POINTS, WIDTH, Sheet, height_of
from workbench.plots.timeline import HEIGHT, timeline
from workbench.report import view_texts
from workbench.report.colors import BY
from workbench.report.facts import Held

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    return _in_rows(partial(sheets.occupancy, by=by), snapshot, ax)


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
    return _in_rows(sheets.pins, snapshot, ax)


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
    return _in_rows(sheets.costs, snapshot, ax)


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
    ax = ax or _new(HEIGHT, (0.08, 0.86, 30.0))
    timeline(ax, now)
    return ax


def _in_rows(
    rows: Callable[..., Sheet], snapshot: Snapshot | str | bytes | None, ax: Axes | None
) -> Axes:
    now, held = _resolved(snapshot)
    sheet = rows(now, held, room=None if ax is None else height_of(ax))
    ax = ax or _new(sheet.height, (0.02, 0.98, 8.0))
    sheet.draw(ax)
    return ax


def _resolved(snapshot: Snapshot | str | bytes | None) -> tuple[Snapshot, Held]:
    """Return what to draw; and the variables that hold it, if it is of now."""
    if isinstance(snapshot, Snapshot):
        return view_texts.without_internal(snapshot), {}
    if isinstance(snapshot, str | bytes):
        return view_texts.without_internal(Snapshot.from_json(snapshot)), {}
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


def _new(height: float, around: tuple[float, float, float]) -> Axes:
    """Return the Axes of a new figure, ``height`` points high. ``around``: its left and right end,
    in shares of the width, and the points below it."""
    from matplotlib import pyplot

    left, right, below = around
    whole = height + below + 8
    figure = pyplot.figure(figsize=(WIDTH, whole / POINTS), facecolor="none")
    figure.subplots_adjust(left, below / whole, right, 1 - 8 / whole)
    return figure.add_subplot()
