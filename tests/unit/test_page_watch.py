"""Memory that is written is seen, where this machine allows to look."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from collections.abc import Callable

import pytest

from workbench.system.page_watch import MOST, Mark, mark

PAGE = mmap.PAGESIZE
SIZE = 64 * PAGE


@pytest.fixture
def memory() -> mmap.mmap:
    made = private()
    if mark(place(made), SIZE) is None:
        pytest.skip("this Linux, or this container, doesn't tell which pages were written")
    return made


def private() -> mmap.mmap:
    made = mmap.mmap(-1, SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    made[:] = bytes(SIZE)
    return made


def place(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def marked(memory: mmap.mmap, first: int = 0, count: int = 64) -> Mark:
    made = mark(place(memory) + first * PAGE, count * PAGE)
    assert made is not None
    return made


def pages(mark: Mark) -> list[tuple[int, int]]:
    return [((a - mark.begin) // PAGE, (b - mark.begin) // PAGE) for a, b in sorted(mark.written)]


def test_a_write_is_seen_to_the_page_and_a_read_is_not(memory: mmap.mmap) -> None:
    first = marked(memory)
    assert memory[:].count(0) == SIZE
    assert not first.is_written()
    memory[5 * PAGE + 7] = 1
    assert first.is_written()
    begin = place(memory)
    inner = mark(begin + 6 * PAGE - 1, 3 * PAGE)
    assert inner is not None
    assert (inner.begin, inner.end) == (begin + 6 * PAGE, begin + 8 * PAGE)  # whole pages
    assert mark(begin + 1, PAGE) is None
    assert not inner.is_written()
    last = marked(memory)
    assert not last.is_written()
    assert pages(first) == [(5, 6)]


def test_each_user_hears_of_what_others_marked_anew(memory: mmap.mmap) -> None:
    """Linux forgets what was written at each mark."""
    one, part = marked(memory), marked(memory, 8, 8)
    memory[9 * PAGE] = 1
    memory[20 * PAGE] = 1
    other = marked(memory)
    memory[30 * PAGE] = 1
    marked(memory)
    assert pages(one) == [(9, 10), (20, 21), (30, 31)]
    assert pages(part) == [(1, 2)]
    assert pages(other) == [(30, 31)]
    assert part.is_written()
    for _ in range(MOST):
        one.note(one.begin, one.begin + PAGE)
    assert (0, 64) in pages(one)


def read_file(memory: mmap.mmap) -> None:
    with open("/dev/zero", "rb", buffering=0) as zeros:
        zeros.readinto(memoryview(memory)[:PAGE])


def drop(memory: mmap.mmap) -> None:
    memory.madvise(mmap.MADV_DONTNEED, 0, PAGE)


@pytest.mark.parametrize("write", [read_file, drop])
def test_what_the_kernel_writes_is_seen(
    memory: mmap.mmap, write: Callable[[mmap.mmap], None]
) -> None:
    memory[:] = b"1" * SIZE
    first = marked(memory)
    write(memory)
    assert first.is_written()
    assert memory[0] == 0
    assert memory[PAGE] == ord("1")
    marked(memory)
    assert pages(first) == [(0, 1)]


def test_addresses_that_are_mapped_anew_count_as_written(memory: mmap.mmap) -> None:
    first = marked(memory)
    begin = first.begin
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    anew = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10  # at this address
    for where in (begin, begin + 8 * PAGE):
        args = [ctypes.c_void_p(where), ctypes.c_size_t(4 * PAGE), 3, anew, -1, ctypes.c_long(0)]
        assert libc.mmap(*args) == where
        assert first.is_written()
        now = marked(memory)
        assert pages(first)[-1] == (0, 64)
        first = now
        assert memory[:].count(0) == SIZE
        assert not first.is_written()


def test_memory_moved_over_marked_memory_counts_as_written(memory: mmap.mmap) -> None:
    other = private()
    first, moved = marked(memory), marked(other)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mremap.restype = ctypes.c_void_p
    source, target = ctypes.c_void_p(moved.begin), ctypes.c_void_p(first.begin)
    size = ctypes.c_size_t(SIZE)
    assert libc.mremap(source, size, size, 3, target) == first.begin
    args = [source, size, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10, -1, ctypes.c_long(0)]
    libc.mmap.restype = ctypes.c_void_p
    assert libc.mmap(*args) == moved.begin  # `other` gives it back
    assert first.is_written()
    assert moved.is_written()
    now = marked(memory)
    memory[SIZE - 1] = 1
    assert now.is_written()


def test_what_others_may_write_to_is_not_marked(memory: mmap.mmap) -> None:
    shared = mmap.mmap(-1, SIZE)
    assert mark(place(shared), SIZE, sealed=True) is None
    with tempfile.TemporaryFile() as file:
        file.truncate(SIZE)
        copied = mmap.mmap(file.fileno(), SIZE, mmap.MAP_PRIVATE)
        assert mark(place(copied), SIZE) is None
        first = mark(place(copied), SIZE, sealed=True)
        assert first is not None
        copied[:]
        copied[3] = 1
        assert first.is_written()


def test_a_fork_knows_nothing_of_its_own_memory(memory: mmap.mmap) -> None:
    first = marked(memory)
    child = os.fork()
    if not child:
        now = mark(first.begin, SIZE)
        os._exit(first.is_written() and (now is None or now.watch is not first.watch))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert not first.is_written()


def test_what_a_sealed_file_still_has_needs_no_reading(memory: mmap.mmap) -> None:
    """Pages that nobody has looked at aren't present: of a private mapping they are the file's."""
    with tempfile.TemporaryFile() as file:
        file.truncate(SIZE)
        opened = mmap.mmap(file.fileno(), SIZE, mmap.MAP_PRIVATE)
        begin = place(opened)
        known = mark(begin, SIZE, sealed=True, as_file=True)
        unknown = mark(begin, SIZE, sealed=True)
        assert known is not None
        assert unknown is not None
        assert (known.is_written(), unknown.is_written()) == (False, True)
        assert opened[PAGE] == 0
        assert not known.is_written()
        opened[PAGE] = 1
        assert known.is_written()
