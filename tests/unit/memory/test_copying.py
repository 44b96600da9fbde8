"""Bytes arrive as they were, whatever the layout, the size and the temperature of the pages."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.patience import TIMEOUT
from workbench.memory import segment as seg
from workbench.memory.arena import Extent
from workbench.memory.copying import PARALLEL_BYTES, WRITE_CHUNK, Copier, Filling, fill, write_cold
from workbench.system.ki_protection import interrupt, ki_protection
from workbench.system.sizes import PAGE

Array = npt.NDArray[np.generic]

LAYOUTS = {
    "c": lambda a: a,
    "fortran": np.asfortranarray,
    "transposed": lambda a: a.T,
    "every other": lambda a: a[::2],
    "backwards": lambda a: a[::-1],
    "columns": lambda a: a[:, 1:-1],
    "broadcast": lambda a: np.broadcast_to(a[0], a.shape),
    "one row": lambda a: a[:1],
}


@pytest.fixture
def copier() -> Iterator[Copier]:
    copier = Copier(3)
    yield copier
    copier.close()
    assert not [t for t in threading.enumerate() if "workbench-copy" in t.name]


@pytest.mark.parametrize("rows", [7, 1 + PARALLEL_BYTES // 800])
def test_every_layout_small_and_split_over_threads(copier: Copier, rows: int) -> None:
    whole = np.arange(rows * 100, dtype=np.float64).reshape(rows, 100)
    cube = np.arange(rows * 64).reshape(1, -1, 64)
    odd = [(), (0,), (0, 3), (1,), (1, 1, 1), (1, rows * 100), (rows * 100, 1)]
    for source in (
        *(layout(whole) for layout in LAYOUTS.values()),
        *(np.asarray(np.random.default_rng(0).random(shape)) for shape in odd),
        *(cube.transpose(order) for order in ((2, 1, 0), (1, 2, 0), (2, 0, 1))),
    ):
        target = np.empty(source.shape, source.dtype)
        copier.copy([(target, source)])
        assert (target == source).all()


def test_an_interrupted_copy_is_whole_before_anybody_hears_of_it() -> None:
    """Whoever is interrupted gives the extent back; it may be somebody else's the moment after."""
    source = np.arange(3 * PARALLEL_BYTES).reshape(3, -1)  # the other thread's share is the larger
    target = np.zeros_like(source)

    @contextmanager
    def interrupted() -> Iterator[None]:
        with ki_protection():
            interrupt(threading.get_ident())
            yield

    with closing(Copier(2, interrupted)) as copier, ThreadPoolExecutor(1) as threads:
        copying = threads.submit(copier.copy, [(target, source)])
        assert isinstance(copying.exception(TIMEOUT), KeyboardInterrupt)
        assert (target == source).all()


def test_one_large_element_is_no_reason_to_split(copier: Copier) -> None:
    source = np.zeros(1, dtype=[("a", "u1", 2 * PARALLEL_BYTES)])
    source["a"][0, -1] = 7
    target = np.empty_like(source)
    copier.copy([(target, source)])
    assert target["a"][0, -1] == 7


class Region:
    """A segment of 64 pages with its writable mapping."""

    def __init__(self) -> None:
        self.size = 64 * PAGE
        self.fds = seg.create(self.size)
        self.mapped = np.frombuffer(seg.map_writable(self.fds.writable, self.size), np.uint8)

    def close(self) -> None:
        self.fds.close()


@given(
    arrays=st.lists(
        hnp.arrays(
            st.sampled_from(["u1", "<i4", ">f8", "M8[s]", "S3", "c16", "?"]),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6),
        ),
        max_size=4,
    ),
    warm=st.booleans(),
    transpose=st.booleans(),
    huge=st.booleans(),
)
def test_fill_puts_each(arrays: list[Array], warm: bool, transpose: bool, huge: bool) -> None:
    region, copier = Region(), Copier(1)
    parts = []
    offset = 0
    for array in arrays:
        parts.append((offset, array.T if transpose else array))
        offset += -(-array.nbytes // 64) * 64
    extent = Extent(2 * PAGE, 8 * PAGE, warm)
    try:
        fill(region.mapped, region.fds.writable, extent, parts, copier, huge)
        written = region.mapped[extent.offset : extent.offset + extent.length]
        for offset, part in parts:
            got = written[offset : offset + part.nbytes].tobytes()
            assert got == np.ascontiguousarray(part).tobytes()
        assert not region.mapped[: extent.offset].any(), "wrote before the extent"
        assert not region.mapped[extent.offset + extent.length :].any(), "wrote behind it"
    finally:
        copier.close()
        region.close()


def test_cold_writes_go_on_where_the_kernel_stopped() -> None:
    size = WRITE_CHUNK + 3 * PAGE + 5
    fds = seg.create(2 * size)
    try:
        data = np.arange(size, dtype=np.uint8)
        write_cold(fds.writable, data, PAGE)
        mapped = np.frombuffer(seg.map_readonly(fds.readonly, 2 * size), np.uint8)
        assert (mapped[PAGE : PAGE + size] == data).all()
        assert not mapped[PAGE + size :].any()
    finally:
        fds.close()


@pytest.mark.parametrize("size", [3, 1])
def test_an_error_in_one_thread_is_raised(copier: Copier, size: int) -> None:
    """Of one element each piece but the first gets nothing, so only other threads fail."""
    target = np.empty((2 * PARALLEL_BYTES,), np.uint8)
    with pytest.raises(ValueError, match="broadcast"):
        copier.copy([(target, np.empty((size,), np.uint8))])


@given(st.lists(st.sampled_from([0, 1, 1000, PARALLEL_BYTES // 3, PARALLEL_BYTES]), max_size=9))
def test_large_and_small_ones_together(sizes: list[int]) -> None:
    pairs = [(np.zeros(n, np.uint8), np.full(n, i + 1, np.uint8)) for i, n in enumerate(sizes)]
    with closing(Copier(3)) as copier:
        copier.copy(pairs)
    assert all(np.array_equal(target, source) for target, source in pairs)


def test_who_looks_meanwhile_sees_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large arrays are copied in pieces; the figures are gone when it is over."""
    monkeypatch.setattr("workbench.memory.copying.PIECE_BYTES", 1 << 20)
    source = np.arange(PARALLEL_BYTES)  # 8 bytes each
    target = np.empty_like(source)
    with closing(Copier(2)) as copier:
        filling, pieces = Filling(source.nbytes), []

        def note(nbytes: int) -> None:
            filling.add(nbytes)
            pieces.append(nbytes)

        copier.copy([(target, source)], note)
        assert (target == source).all()
        assert filling.done == filling.whole == source.nbytes
        assert max(pieces) <= 1 << 20
        assert copier.filling is None


def test_its_speed_is_measured_with_the_memory_that_it_may_take(copier: Copier) -> None:
    tracemalloc.start()
    try:
        assert copier.speed(4 << 20) > 0
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()
