"""Draws the last two minutes of a session: bytes by time, and marks. Asks nobody."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from workbench.core.snapshot import HISTORY_SECONDS, Sample, Snapshot
from workbench.format import NOW, count, human_bytes
from workbench.plots.drawing import LINE, SIZE, Sheet, beside, height_of, note
from workbench.report import view_texts
from workbench.report.colors import INK, LIVE, SPILLED, TRACK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT = 110.0
"""In points, of a new figure."""

MARKS = (("put", "^", LIVE), ("free", "v", INK), ("spill", "D", SPILLED))


def timeline(ax: Axes, now: Snapshot) -> None:
    history = view_texts.recent(now)
    if not history:
        Sheet(1, [note(view_texts.nothing(now)["timeline"])]).draw(ax)
        return
    lines = [("live", "live", LIVE), ("spilled", "on disk", SPILLED)]
    lines = [each for each in lines if any(getattr(sample, each[0]) for sample in history)]
    lines = lines or [("live", "live", LIVE)]
    most = max(max(sample.live, sample.spilled or 0) for sample in history) or 1
    _frame(ax, most)
    for key, _, color in lines:
        x, y = _course(history, key)
        ax.step(x, y, where="post", color=color, linewidth=1.6, solid_joinstyle="round")
        if key == "live":
            ax.fill_between(x, y, step="post", color=color, alpha=0.16, linewidth=0)
    apart, at = LINE * 1.54 / height_of(ax) * most, float("-inf")
    ends = [(getattr(history[-1], key) or 0, label, color) for key, label, color in lines]
    for size, label, color in sorted(ends):  # close ones are moved apart
        at = max(size, at + apart)
        beside(ax, at, f"{label} {human_bytes(size)}", color=color, fontsize=SIZE, weight="bold")
    _marks(ax, history, most)


def _frame(ax: Axes, most: float) -> None:
    """Leave only the times, the bytes, and a quiet line for each of these."""
    from matplotlib.ticker import MaxNLocator

    ax.set_facecolor("none")
    ax.spines[:].set_visible(False)
    ax.set_xlim(-HISTORY_SECONDS, 0)
    ax.set_ylim(-0.42 * most, 1.12 * most)
    ax.set_xticks([-120, -90, -60, -30, 0], ["2 min ago", "90 s", "60 s", "30 s", NOW])
    ticks = [t for t in MaxNLocator(3, steps=[1, 2, 5, 10]).tick_values(0, most) if t <= most]
    ax.set_yticks(ticks, [human_bytes(tick) if tick else "0" for tick in ticks])
    ax.tick_params(length=0, labelsize=SIZE - 1, labelcolor=INK)
    ax.grid(False)
    ax.grid(axis="y", color=TRACK, linewidth=0.7)
    ax.set_axisbelow(True)


def _course(history: Sequence[Sample], key: str) -> tuple[list[float], list[int]]:
    points = [(-sample.age, int(getattr(sample, key) or 0)) for sample in history]
    while len(points) > 1 and not points[1][1] and not points[0][1]:
        points.pop(0)
    points.append((0.0, points[-1][1]))
    x, y = zip(*points, strict=True)
    return list(x), list(y)


def _marks(ax: Axes, history: Sequence[Sample], most: float) -> None:
    """Draw a row of marks each for puts, frees and spills; larger marks for more."""
    happened = view_texts.happened(history)
    for row, (what, marker, color) in enumerate(MARKS):
        y = (-0.13 - 0.115 * row) * most
        counts = [getattr(sample, f"{what}s") or 0 for sample in history]
        more = [max(b - a, 0) for a, b in pairwise(counts)]
        found = [(-s.age, n) for s, n in zip(history[1:], more, strict=True) if n]
        ax.scatter(
            [x for x, _ in found],
            [y] * len(found),
            s=[12 + 10 * min(len(str(n)) - 1, 4) for _, n in found],
            marker=marker,
            color=color,
            linewidths=0,
            alpha=0.9,
            clip_on=False,
        )
        beside(ax, y, count(happened[what], what), color=INK, fontsize=SIZE - 1)
