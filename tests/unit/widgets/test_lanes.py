"""Segments to scale: each object, or so many that they are added up by place."""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.unit.widgets.snapshots import DISK, HERE, MB, a_session, an_object
from workbench.core.snapshot import ObjectRecord
from workbench.report.colors import HUES, Coloring, hues
from workbench.report.lanes import Box, lanes

FIRST, SECOND = (HUES[n] for n in hues({"first": 2, "second": 1}, {}).values())


def _boxes(objects: list[ObjectRecord], most: int) -> tuple[Box, ...]:
    (segment, *_) = a_session(objects).segments or ()
    now = a_session(objects, segments=(structs.replace(segment, granted=0),))
    (lane,), left = lanes(now, Coloring(now), most, 3)
    assert not left
    assert (lane.segment.id, lane.objects) == (HERE, len(objects))
    return lane.boxes


def _objects(*sizes: int, gap: int = 0) -> list[ObjectRecord]:
    """Of two types in turn, one behind the other."""
    ends = [sum(sizes[:n]) + gap * n for n in range(len(sizes))]
    return [
        an_object(n + 1, size, ("first", "second")[n % 2], offset=at)
        for n, (size, at) in enumerate(zip(sizes, ends, strict=True))
    ]


def test_each_object_is_a_box_where_it_lies() -> None:
    objects = _objects(300, 100, gap=50)
    assert _boxes(objects[::-1], 2) == (
        Box(0, 300, FIRST, objects[0]),
        Box(350, 100, SECOND, objects[1]),
    )


def test_a_part_has_the_colour_of_most_bytes_in_it() -> None:
    # Two parts of 100 bytes: 80 and 20 in one, 40 and 60 in the other.
    assert _boxes(_objects(80, 20, 40, 60), 2) == (Box(0, 100, FIRST), Box(100, 100, SECOND))


def test_a_part_is_as_full_as_its_bytes() -> None:
    boxes = _boxes(_objects(30, 0, 0, 0, 20, gap=20), 2)  # 30 of 65, and 20 of 65
    assert [box.full for box in boxes] == pytest.approx([30 / 65, 20 / 65])
    assert _boxes(_objects(10, 10, 80, gap=200), 4)[0].start == 0


def test_a_lane_goes_on_where_memory_can_be_reused_but_a_file_ends() -> None:
    """As far as the live map draws it: see layout.test.js."""
    now = a_session([an_object(1, 10), an_object(2, 10, segment=DISK)])
    drawn, _ = lanes(now, Coloring(now), 9, 9)
    assert [lane.length for lane in drawn] == [10 + 48 * MB, 10]


def test_the_emptiest_segments_are_left_out() -> None:
    now = a_session([an_object(1, 10, offset=0), an_object(2, 30, segment=0x7002)])
    drawn, left = lanes(now, Coloring(now), 100, 1)
    assert [lane.owner for lane in drawn] == ["worker 1"]
    assert [segment.id for segment in left] == [HERE]
