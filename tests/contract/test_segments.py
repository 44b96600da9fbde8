"""What every kind of segment does. One suite, run on memfd and on unlinked files."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import resource
import signal
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from workbench.memory import segment as seg
from workbench.memory.copying import write_cold
from workbench.system.fallocate import punch

PAGE = mmap.PAGESIZE
SIZE = 256 * PAGE

Create = Callable[[int], seg.Descriptors]


@pytest.fixture(params=["memfd", "file"])
def create(request: pytest.FixtureRequest) -> Create:
    return {"memfd": seg.create, "file": seg.create_file}[request.param]


@pytest.fixture
def segment(create: Create) -> Iterator[seg.Descriptors]:
    before = set(os.listdir("/proc/self/fd"))
    descriptors = create(SIZE)
    yield descriptors
    descriptors.close()
    assert set(os.listdir("/proc/self/fd")) == before


def test_readers_see_what_the_writer_writes(segment: seg.Descriptors) -> None:
    writable = seg.map_writable(segment.writable, SIZE)
    readonly = seg.map_readonly(segment.readonly, SIZE)
    writable[PAGE : PAGE + 5] = b"hello"
    assert readonly[PAGE : PAGE + 5] == b"hello"
    write_cold(segment.writable, memoryview(b"world"), 3 * PAGE)
    assert readonly[3 * PAGE : 3 * PAGE + 5] == b"world"


def test_the_readers_descriptor_cannot_be_written(segment: seg.Descriptors) -> None:
    with pytest.raises(PermissionError):
        seg.map_writable(segment.readonly, SIZE)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(segment.readonly, b"x", 0)
    with pytest.raises(TypeError, match=r"read-?only"):
        seg.map_readonly(segment.readonly, SIZE)[0] = 1


def touched(fd: int) -> int:
    """Bytes of memory the segment holds now."""
    return os.fstat(fd).st_blocks * 512


def test_untouched_it_costs_nothing_and_it_has_no_name(segment: seg.Descriptors) -> None:
    assert os.fstat(segment.writable).st_nlink == 0
    assert touched(segment.writable) == 0
    write_cold(segment.writable, memoryview(bytes(8 * PAGE)), 0)
    assert touched(segment.writable) == 8 * PAGE


def test_punched_pages_are_zeros_and_their_neighbours_stay(segment: seg.Descriptors) -> None:
    """Only whole pages go: what shares a page with something else stays."""
    readonly = np.frombuffer(seg.map_readonly(segment.readonly, SIZE), np.uint8)
    write_cold(segment.writable, memoryview(b"\xff" * (16 * PAGE)), 0)
    punch(segment.writable, 4 * PAGE + 100, 9 * PAGE)
    assert touched(segment.writable) == 8 * PAGE
    assert readonly[: 5 * PAGE].all()
    assert not readonly[5 * PAGE : 13 * PAGE].any()
    assert readonly[13 * PAGE : 16 * PAGE].all()
    punch(segment.writable, 100, 50)
    assert readonly[:PAGE].all()


def test_mappings_outlive_the_descriptors(create: Create) -> None:
    descriptors = create(SIZE)
    writable = seg.map_writable(descriptors.writable, SIZE)
    readonly = seg.map_readonly(descriptors.readonly, SIZE)
    descriptors.close()
    writable[0] = 7
    assert readonly[0] == 7


def test_no_room_is_an_error_not_a_crash(segment: seg.Descriptors) -> None:
    """The process's file size limit stands in for a full disk: both come out of the same call."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (PAGE, old[1]))
    try:
        with pytest.raises(OSError, match="too large") as caught:
            write_cold(segment.writable, memoryview(bytes(4 * PAGE)), 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.errno == errno.EFBIG


def test_a_size_the_system_refuses_leaks_nothing(create: Create) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises((OSError, OverflowError)):
        create(1 << 63)
    assert os.listdir("/proc/self/fd") == before


def test_many_holes_leave_nothing_in_the_process(segment: seg.Descriptors) -> None:
    """The server punches all the time, with the garbage collector off."""
    punch(segment.writable, 0, PAGE)
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(100):
            punch(segment.writable, 0, PAGE)
        assert len(gc.get_objects()) - before < 10
    finally:
        gc.enable()


def test_private_changes_are_seen_by_nobody_else_and_known(segment: seg.Descriptors) -> None:
    writable = seg.map_writable(segment.writable, SIZE)
    writable[: 8 * PAGE] = bytes(range(256)) * (8 * PAGE // 256)
    readonly = seg.map_readonly(segment.readonly, SIZE)
    mapping, start = readonly.private(PAGE + 100, 4 * PAGE, "kept")
    own = np.frombuffer(mapping, np.uint8)[start:]
    address = own.__array_interface__["data"][0]
    assert bytes(own) == readonly[PAGE + 100 : 5 * PAGE + 100]
    if not os.path.exists("/proc/self/pagemap"):
        assert mapping.written(address, len(own)) == [(0, len(own))]
        return
    assert mapping.written(address, len(own)) == []
    own[0] = own[PAGE] = own[-1] = 0
    first = PAGE - 100
    assert mapping.written(address, len(own)) == [(0, first + PAGE), (first + 3 * PAGE, len(own))]
    assert readonly[PAGE + 100] == 100
    assert mapping.written(address + PAGE, PAGE) == [(0, first)]
    assert mapping.keeps == "kept"
