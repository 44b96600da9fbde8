"""Decides which objects share a colour in still pictures. Pure.

The hues are Okabe and Ito's (jfly.uni-koeln.de/color), made darker or lighter until they have a
contrast of 3:1 with white and with near-black: a still picture can't know its background.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple
from zlib import crc32

from workbench.core.snapshot import ObjectRecord, Snapshot
from workbench.format import UNKNOWN
from workbench.report.facts import kind_of
from workbench.report.processes import owners_of

HUES = ("#0072b2", "#c97f00", "#00896a", "#b65a90", "#d55e00", "#3f97cf")
OTHER = "#808080"
TRACK = "#80808040"
"""Colour of empty space. With alpha, so that it is quiet on any background."""

INK = "#7a7a7a"
"""Colour of text that must be readable on white and on near-black: about 4.3:1 with both."""

LIVE, REUSABLE, SPILLED, BAD = HUES[0], "#7fb2d3", HUES[1], HUES[4]

STATES = {
    "running": HUES[0],
    "busy": HUES[0],
    "done": HUES[2],
    "failed": BAD,
    "blocked": SPILLED,
}
"""Colours of jobs and workers by state; other states are grey."""

BY = ("type", "owner", "age", "movable")
"""Properties that objects can be coloured by."""

AGES = (
    (10.0, "#b8860b", "under 10 s"),
    (60.0, "#4f9a4d", "under 1 min"),
    (600.0, "#1f8a8c", "under 10 min"),
    (3600.0, "#4f7bc0", "under 1 h"),
    (None, "#8a6bbf", "older"),
)
"""Age limit in seconds, and colour and label of objects younger than that."""

STRENGTHS: dict[str | None, tuple[str, str]] = {
    "resident": (HUES[1], "can't move to disk"),
    "alive": (HUES[0], "can move to disk"),
    "freed": (OTHER, "freed, still shown"),
    None: (OTHER, f"can move to disk: {UNKNOWN}"),
}
"""Colour and label by `ObjectRecord.strength`."""


_OWN_HUES = {"ndarray": 0, "this notebook": 0, "DataFrame": 2, "list": 3, "dict": 1, "str": 5}
"""Index of the hue that a common label has in every session."""


def hues(sizes: Mapping[str, int], given: Mapping[str, int]) -> dict[str, int]:
    """Return the index in `HUES` of each label: those with most bytes get one, and keep it.

    ``given``: earlier result. A label's own hue, if it is free, follows from its name, so that it
    is the same in any session with few labels.
    """
    kept = dict(given)
    for label in given:
        if label not in sizes and len(kept) >= len(HUES):
            del kept[label]
    for label in sorted(sizes, key=lambda each: (-sizes[each], each)):
        free = [n for n in range(len(HUES)) if n not in kept.values()]
        if label not in kept and free:
            own = _OWN_HUES.get(label, crc32(label.encode(errors="surrogatepass")) % len(HUES))
            kept[label] = own if own in free else free[own % len(free)]
    return kept


class Group(NamedTuple):
    """Objects of one colour. ``size`` in bytes."""

    label: str
    color: str
    number: int
    size: int


class Coloring:
    """Colours for the objects of one snapshot, ``by`` one of `BY`.

    ``groups`` is the legend: the largest group first; ages and what can move in their own order.
    """

    def __init__(self, snapshot: Snapshot, by: str = "type") -> None:
        if by not in BY:
            raise ValueError(f"Objects can be coloured by {', '.join(BY)}, not by {by!r}.")
        self.by = by
        self._owner: Mapping[int, str] = owners_of(snapshot) if by == "owner" else {}
        sizes: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for record in snapshot.objects:
            label = self._label(record)
            sizes[label] += record.size
            counts[label] += 1
        self._color = self._given(sizes)
        shown = [Group(k, color, counts[k], sizes[k]) for k, color in self._color.items()]
        others = [label for label in sizes if label not in self._color]
        if others:
            count, size = sum(counts[k] for k in others), sum(sizes[k] for k in others)
            shown.append(Group(f"{len(others)} others", OTHER, count, size))
        self.groups = tuple(shown)

    def color_of(self, record: ObjectRecord) -> str:
        return self._color.get(self._label(record), OTHER)

    def _label(self, record: ObjectRecord) -> str:
        match self.by:
            case "type":
                return kind_of(record)
            case "owner":
                return self._owner.get(record.segment, UNKNOWN)
            case "age":
                age = record.age
                if age is None:
                    return UNKNOWN
                return next(label for limit, _, label in AGES if limit is None or age < limit)
            case _:
                return STRENGTHS[record.strength][1]

    def _given(self, sizes: Counter[str]) -> dict[str, str]:
        if self.by == "age":
            ages = {label: color for _, color, label in AGES} | {UNKNOWN: OTHER}
            return {label: color for label, color in ages.items() if label in sizes}
        if self.by == "movable":
            return {label: color for color, label in STRENGTHS.values() if label in sizes}
        given = hues(sizes, {})
        colors = {k: HUES[given[k]] for k, _ in sizes.most_common() if k in given}
        left = [label for label in sizes if label not in colors]
        if len(left) == 1:  # one label alone needs no "others"
            colors[left[0]] = OTHER
        return colors
