"""How fast the machine's memory is: nothing that copies can be much faster.

Each limit is an action to be timed in turns with what it limits, in one process: how fast memory
is on a shared machine changes from one second to the next by a factor of two.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np


def shared_pages(array: Any) -> Any:
    """An array of the same shape over shared memory whose pages are warm."""
    fd = os.memfd_create("benchmark")
    os.ftruncate(fd, array.nbytes)
    pages = np.frombuffer(mmap.mmap(fd, array.nbytes), array.dtype)
    os.close(fd)
    np.copyto(pages, array)
    return pages


@contextmanager
def memcpy_by_all_cores(source: Any) -> Iterator[Callable[[], None]]:
    """Copy a one-dimensional array into warm shared pages. The caller's thread takes a part."""
    cores = len(os.sched_getaffinity(0))
    target = shared_pages(source)
    first, *others = zip(np.array_split(target, cores), np.array_split(source, cores), strict=True)
    with ThreadPoolExecutor(cores) as threads:

        def copy() -> None:
            futures = [threads.submit(np.copyto, *piece) for piece in others]
            np.copyto(*first)
            for future in futures:
                future.result()

        yield copy


@contextmanager
def write_to_cold_pages(source: Any) -> Iterator[Callable[[], None]]:
    """Write an array to shared memory that was never touched, each time further on."""
    fd = os.memfd_create("benchmark")

    def write() -> None:
        os.pwrite(fd, source, os.fstat(fd).st_size)

    yield write
    os.close(fd)


@contextmanager
def disk_of(directory: str, of: Any) -> Iterator[tuple[Callable[[], None], Callable[[Any], None]]]:
    """Write an array from shared memory to a new file, in the kernel; read it from the page cache.

    The second takes the array to read into, whose pages are warm.
    """
    memory, size = os.memfd_create("benchmark"), of.nbytes
    os.pwrite(memory, of, 0)
    file = os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o600)

    def write() -> None:
        """Further on each time, as to a file that grows."""
        os.lseek(file, 0, os.SEEK_END)
        done = 0
        while done < size:
            done += os.sendfile(file, memory, done, min(size - done, 1 << 20))

    def read(target: Any) -> None:
        done, view = 0, memoryview(target).cast("B")
        while done < size:
            done += os.preadv(file, [view[done:]], done)

    write()
    yield write, read
    os.close(memory)
    os.close(file)


def settle_memory(nbytes: int) -> None:
    """Touch as much shared memory as is used next, and free it.

    A virtual machine's host provides a page at its first touch, at a fifth of the usual speed:
    that is the host's cost, not what is measured.
    """
    fd = os.memfd_create("benchmark")
    piece = np.ones(1 << 20)
    for offset in range(0, nbytes, piece.nbytes):
        os.pwrite(fd, piece, offset)
    os.close(fd)
