"""Memory that is written is seen, where this machine allows to look."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator

import pytest

from workbench.system.page_watch import PageWatch

PAGE = mmap.PAGESIZE


@pytest.fixture
def watch() -> Iterator[PageWatch]:
    made = PageWatch()
    yield made
    made.close()
    assert not made.restart(0x7000, PAGE)
    assert made.is_written(0x7000, PAGE)


def place(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def test_a_write_is_seen_to_the_page_and_a_read_is_not(watch: PageWatch) -> None:
    memory = mmap.mmap(-1, 64 * PAGE)
    begin = place(memory)
    if not watch.restart(begin, 64 * PAGE):
        pytest.skip("this Linux, or this container, doesn't tell which pages were written")
    assert memory[: 64 * PAGE].count(0) == 64 * PAGE
    assert not watch.is_written(begin, 64 * PAGE)
    memory[5 * PAGE + 7] = 1
    assert watch.is_written(begin, 64 * PAGE)
    assert watch.is_written(begin + 5 * PAGE, PAGE)
    assert not watch.is_written(begin + 6 * PAGE, 58 * PAGE)
    assert not watch.is_written(begin + 5 * PAGE + 1, 2 * PAGE)  # only whole pages count
    assert watch.restart(begin, 64 * PAGE)
    assert not watch.is_written(begin, 64 * PAGE)


def test_memory_that_is_not_watched_counts_as_written(watch: PageWatch) -> None:
    memory = mmap.mmap(-1, 4 * PAGE)
    assert watch.is_written(place(memory), 4 * PAGE)
    assert not watch.restart(place(memory) + 1, PAGE)  # has no whole page
