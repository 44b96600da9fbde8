"""Segments as lanes, objects as boxes in them, to scale. Pure: bytes in, shares of a lane out.

Where objects are too many to tell apart, they are added up by place.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from workbench.core.snapshot import ObjectRecord, SegmentRecord, Snapshot
from workbench.report.colors import Coloring
from workbench.report.processes import owners_of


class Box(NamedTuple):
    """Part of a lane: ``start`` and ``length`` in bytes. ``record`` is its object; None if there
    are several: then ``color`` is that of most bytes, ``full`` the share that is taken (0 to 1)."""

    start: float
    length: float
    color: str
    record: ObjectRecord | None = None
    full: float = 1.0


class Lane(NamedTuple):
    """A segment with this number of ``objects``. ``length`` in bytes: to the end of its last
    object, or of the reusable memory beyond it."""

    owner: str
    segment: SegmentRecord
    length: int
    objects: int
    boxes: tuple[Box, ...]


def lanes(
    snapshot: Snapshot, coloring: Coloring, boxes: int, most: int
) -> tuple[list[Lane], list[SegmentRecord]]:
    """Return the ``most`` fullest segments, files last, with ``boxes`` in all; and the others."""
    inside = defaultdict(list)
    for record in snapshot.objects:
        if record.segment:
            inside[record.segment].append(record)
    used = [segment for segment in snapshot.segments or () if segment.live or segment.granted]
    used.sort(key=lambda segment: segment.disk)
    kept = {segment.id for segment in sorted(used, key=lambda s: -s.live)[:most]}
    names = owners_of(snapshot)
    shown = []
    for segment in used:
        if segment.id in kept:
            records = sorted(inside[segment.id], key=lambda r: r.offset)
            room = boxes // max(len(kept), 1)
            reusable = 0 if segment.disk else segment.granted
            length = max([segment.end, reusable, *(r.offset + r.size for r in records[-1:])])
            if len(records) <= room:
                drawn = [Box(r.offset, r.size, coloring.color_of(r), r) for r in records]
            else:
                drawn = _together(records, coloring, length, room)
            shown.append(Lane(names[segment.id], segment, length, len(records), tuple(drawn)))
    return shown, [segment for segment in used if segment.id not in kept]


def _together(
    records: list[ObjectRecord], coloring: Coloring, length: int, parts: int
) -> list[Box]:
    """Divide the lane into equal parts, each with its main colour; join full neighbours of one."""
    part = length / parts
    weights: list[defaultdict[str, float]] = [defaultdict(float) for _ in range(parts)]
    for record in records:
        at, end = float(record.offset), record.offset + record.size
        color = coloring.color_of(record)
        index = int(at / part)
        while index < parts and at < end:
            upto = min(end, (index + 1) * part)
            weights[index][color] += max(upto - at, 0.0)
            at, index = upto, index + 1
    boxes: list[Box] = []
    for index, weight in enumerate(weights):
        if not weight:
            continue
        full = min(sum(weight.values()) / part, 1.0)
        full = 1.0 if full > 0.999 else full
        color = max(weight, key=weight.__getitem__)
        last = boxes[-1] if boxes else None
        touches = last is not None and abs(last.start + last.length - index * part) < part / 2
        if last is not None and touches and last.color == color and last.full == full == 1.0:
            boxes[-1] = last._replace(length=last.length + part)
        else:
            boxes.append(Box(index * part, part, color, None, full))
    return boxes
