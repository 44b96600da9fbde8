"""A view dies with the last thing made from it, and not before."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from workbench.memory import segment as seg
from workbench.memory.views import Views, Watch

SIZE = 16 * 4096
SEGMENT = 7


class Reader:
    """A process's views of one segment, and what it hears of their ends."""

    def __init__(self, died: Callable[[Watch], object] | None = None) -> None:
        self.dead: list[int] = []
        self.views = Views(died or self._died)
        fds = seg.create(SIZE)
        writable = np.frombuffer(seg.map_writable(fds.writable, SIZE), np.uint8)
        writable[:] = np.arange(SIZE, dtype=np.uint8)
        self.views.map(SEGMENT, os.dup(fds.readonly), SIZE)
        fds.close()

    def _died(self, watch: Watch) -> None:
        if self.views.finalized(watch):
            self.dead.append(watch.id)


@pytest.fixture
def reader() -> Iterator[Reader]:
    reader = Reader()
    yield reader
    reader.views.close()


def test_a_view_is_read_only_and_shows_the_extent(reader: Reader) -> None:
    view, new = reader.views.open(1, SEGMENT, 4096, 100)
    assert new
    assert not view.flags.writeable
    assert view.tobytes() == bytes(range(100))
    with pytest.raises(ValueError, match=r"WRITEABLE|read-only"):
        view.flags.writeable = True


def test_while_it_lives_it_is_given_again(reader: Reader) -> None:
    first, new = reader.views.open(1, SEGMENT, 0, 100)
    again, second = reader.views.open(1, SEGMENT, 0, 100)
    assert (new, second) == (True, False)
    assert again is first
    del first
    gc.collect()
    assert reader.dead == []
    assert reader.views.shows()
    del again
    gc.collect()
    assert reader.dead == [1]
    assert not reader.views.shows()
    assert reader.views.open(1, SEGMENT, 0, 100)[1]


MADE_FROM_IT = {
    "slice of a slice": lambda v: v[10:90][5:][::2],
    "another dtype": lambda v: v.view("f8")[1:].reshape(-1, 1).T,
    "memoryview": lambda v: memoryview(v)[3:7],
    "ndarray on its buffer": lambda v: np.ndarray((5, 2), "u2", v[8:28]),
    "an empty slice": lambda v: v[5:5],
    "unpickled": lambda v: pickle.loads(
        pickle.dumps(
            [np.arange(12.0), b"x"], 5, buffer_callback=(out := []).append
        ),
        buffers=[v[:96]] * len(out),
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", MADE_FROM_IT)
def test_what_is_made_from_it_keeps_it_alive(reader: Reader, how: str) -> None:
    view, _ = reader.views.open(1, SEGMENT, 0, 96)
    made = MADE_FROM_IT[how](view)
    del view
    gc.collect()
    assert reader.dead == []
    del made
    gc.collect()
    assert reader.dead == [1]


def test_the_end_of_an_old_view_is_not_that_of_a_new_one() -> None:
    late: list[Watch] = []
    reader = Reader(late.append)
    view, _ = reader.views.open(1, SEGMENT, 0, 10)
    del view
    gc.collect()
    newer, new = reader.views.open(1, SEGMENT, 0, 10)
    assert new
    assert not reader.views.finalized(late[0])
    assert reader.views.shows()
    del newer
    reader.views.close()


def test_an_empty_view_dies_too(reader: Reader) -> None:
    view, _ = reader.views.open(1, SEGMENT, 4096, 0)
    assert view.size == 0
    del view
    gc.collect()
    assert reader.dead == [1]


def test_a_mapping_goes_with_its_last_view(reader: Reader) -> None:
    def mappings() -> int:
        with open("/proc/self/maps") as maps:
            return sum("memfd:workbench" in line for line in maps)

    before = mappings()
    view = reader.views.open(1, SEGMENT, 0, 4)[0][1:]
    reader.views.close()
    assert mappings() == before
    assert view.tolist() == [1, 2, 3], "it outlives close"
    del view
    assert mappings() == before - 1


def test_a_descriptor_that_cannot_be_mapped_is_closed(reader: Reader, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * SIZE)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="denied"):
        reader.views.map(8, os.open(file, os.O_WRONLY), SIZE)
    assert os.listdir("/proc/self/fd") == before


def test_mapping_a_segment_again_leaks_no_descriptor(reader: Reader) -> None:
    fds = seg.create(SIZE)
    try:
        before = len(os.listdir("/proc/self/fd"))
        reader.views.map(SEGMENT, os.dup(fds.readonly), SIZE)
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        fds.close()
