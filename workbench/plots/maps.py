"""Draws the store in space and in time, each into one Axes: segments to scale, two minutes.

Asks nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from workbench.core.snapshot import HISTORY_SECONDS, ObjectRecord, Sample, Snapshot
from workbench.format import NOW, count, human_bytes
from workbench.plots.drawing import LINE, POINTS, SIZE, Rect, Sheet, beside, quiet, say
from workbench.report import facts, view_texts
from workbench.report.colors import INK, LIVE, SPILLED, TRACK, Coloring
from workbench.report.facts import Held
from workbench.report.lanes import Lane, lanes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BOXES = 3000
"""Boxes in all lanes; more objects are added up by place."""

MOST_LANES = 10
"""Segments that are shown before the machine's memory is."""

LANE = LINE + 22.0
"""Points per segment: a line, its box, and the space below."""

TIMELINE = 110.0
"""Height of the timeline, in points."""


def occupancy(ax: Axes, now: Snapshot, by: str = "type", held: Held | None = None) -> None:
    coloring = Coloring(now, by)
    height = ax.get_window_extent().height * POINTS / ax.figure.dpi
    shows_machine = height + 1 >= occupancy_height(now, MOST_LANES)
    fits = max(int((height - _around(now, shows_machine)) / LANE + 0.1), 1)
    drawn, left = lanes(now, coloring, MOST_BOXES, fits)
    sheet = Sheet(ax, max((lane.length for lane in drawn), default=1))
    _bar(sheet, view_texts.store_bar(now), now.capacity or 0, 14)
    if shows_machine and now.memory:  # the segments have priority
        _bar(sheet, view_texts.machine_bar(now), 0, 7)
    for lane in drawn:
        _lane(sheet, lane, held)
    if left:
        live = human_bytes(sum(segment.live for segment in left))
        sheet.note(f"and {count(len(left), 'segment')} more, {live} live")
    if not now.objects:
        sheet.note(view_texts.nothing(now)["objects"])
    elif now.segments is None:
        sheet.note(view_texts.nothing(now)["segments"])
    empty = [(TRACK, view_texts.EMPTY)] if drawn else []
    sheet.legend(
        [*((g.color, f"{g.label} {human_bytes(g.size)}") for g in coloring.groups), *empty]
    )


def occupancy_height(now: Snapshot, rows: int) -> float:
    used = sum(bool(segment.live or segment.granted) for segment in now.segments or ())
    return _around(now, True) + min(used, rows) * LANE


def _around(now: Snapshot, machine: bool) -> float:
    """Return the height above and below the segments: one bar or two, and legends."""
    return 4 * LINE + 14 + (2 * LINE + 18 if machine and now.memory else 0)


def _bar(sheet: Sheet, bar: view_texts.Bar, capacity: int, height: float) -> None:
    """Draw the parts of the whole to scale; what is on disk isn't part of it, and is only named."""
    sheet.line(bar.label, bar.figure, strong=True)
    if bar.whole:
        sizes = {part: size or 0 for part, size in bar.parts}
        scale = sheet.most / (max(capacity, sum(sizes.values())) or 1)
        bars, at = [], 0.0
        for part, size in sizes.items():
            if size:
                bars.append(Rect(at, size * scale, view_texts.BAR_PARTS[part].color))
            at += size * scale
        sheet.bars(bars, height)
    sheet.skip(3)
    sheet.legend(bar.key())
    sheet.skip(8)


def _lane(sheet: Sheet, lane: Lane, held: Held | None) -> None:
    sheet.line(lane.owner, count(lane.objects, "object"), view_texts.filled_text(lane.segment))
    bars = [
        Rect(
            box.start,
            box.length,
            box.color,
            0.5 if box.record and box.record.state == "freed" else 0.3 + 0.7 * box.full,
            _label(box.record, held or {}) if box.record else "",
        )
        for box in lane.boxes
    ]
    sheet.bars(bars, 15, lane.length)
    sheet.skip(LANE - LINE - 15)


def _label(record: ObjectRecord, held: Held) -> str:
    """Return the name that a person gave it, if any."""
    return facts.names_of(record) or ", ".join(dict(held.get(record.id, ())))


# -- timeline ------------------------------------------------------------------------------------


def timeline(ax: Axes, now: Snapshot) -> None:
    quiet(ax)
    ax.set_xlim(-HISTORY_SECONDS, 0)
    history = view_texts.recent(now)
    if not history:
        say(ax, view_texts.nothing(now)["timeline"])
        return
    most = max(max(sample.live, sample.spilled or 0) for sample in history) or 1
    ax.set_ylim(-0.42 * most, 1.12 * most)
    ax.tick_params(bottom=True, labelbottom=True, labelleft=True)
    ax.set_xticks([-120, -90, -60, -30, 0], ["2 min ago", "90 s", "60 s", "30 s", NOW])
    _ticks_of_bytes(ax, most)
    for key, color, filled in (("live", LIVE, True), ("spilled", SPILLED, False)):
        if key == "spilled" and not any(sample.spilled for sample in history):
            continue
        x, y = _course(history, key)
        ax.step(x, y, where="post", color=color, linewidth=1.6, solid_joinstyle="round")
        if filled:
            ax.fill_between(x, y, step="post", color=color, alpha=0.16, linewidth=0)
    _names(ax, history[-1], most)
    _marks(ax, history, most)


def _course(history: Sequence[Sample], key: str) -> tuple[list[float], list[int]]:
    points = [(-sample.age, int(getattr(sample, key) or 0)) for sample in history]
    while len(points) > 1 and not points[1][1] and not points[0][1]:
        points.pop(0)
    points.append((0.0, points[-1][1]))
    x, y = zip(*points, strict=True)
    return list(x), list(y)


def _ticks_of_bytes(ax: Axes, most: float) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator

    ticks = [t for t in MaxNLocator(3, steps=[1, 2, 5, 10]).tick_values(0, most) if t <= most]
    ax.yaxis.set_major_locator(FixedLocator(ticks))
    ax.set_yticklabels([human_bytes(tick) if tick else "0" for tick in ticks])
    for tick in ticks:
        ax.axhline(tick, color=TRACK, linewidth=0.7, zorder=0)


def _names(ax: Axes, last: Sample, most: float) -> None:
    """Label the end of each line; labels of close lines are moved apart."""
    ends = [("live", last.live, LIVE)]
    if last.spilled:
        ends.append(("on disk", last.spilled, SPILLED))
    points = ax.get_window_extent().height * POINTS / ax.figure.dpi / 1.54
    apart = LINE / points * most
    ends.sort(key=lambda end: end[1])
    at = float("-inf")
    for label, size, color in ends:
        at = max(size, at + apart)
        beside(ax, at, f"{label} {human_bytes(size)}", color=color, fontsize=SIZE, weight="bold")


def _marks(ax: Axes, history: Sequence[Sample], most: float) -> None:
    """Draw a row of marks each for puts, frees and spills; larger marks for more."""
    happened = view_texts.happened(history)
    rows = (("put", "^", LIVE), ("free", "v", INK), ("spill", "D", SPILLED))
    for row, (what, marker, color) in enumerate(rows):
        y = (-0.13 - 0.115 * row) * most
        counts = [getattr(sample, f"{what}s") for sample in history]
        more = [max(b - a, 0) for a, b in pairwise(n or 0 for n in counts)]
        found = [(-s.age, n) for s, n in zip(history[1:], more, strict=True) if n]
        sizes = [12 + 10 * min(len(str(n)) - 1, 4) for _, n in found]
        ax.scatter(
            [x for x, _ in found],
            [y] * len(found),
            s=sizes,
            marker=marker,
            color=color,
            linewidths=0,
            alpha=0.9,
            clip_on=False,
        )
        beside(ax, y, count(happened[what], what), color=INK, fontsize=SIZE - 1)
