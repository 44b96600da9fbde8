"""A session's processes and memory, seen from outside: what the operating system says of them."""

from __future__ import annotations

import os
import resource
import select
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

import psutil

from tests.leaks import descriptors, eventually, processes_of
from tests.patience import TIMEOUT
from workbench.system.sizes import inline_allowance


class Processes:
    """Of the sessions in a runtime directory; with one session, of that."""

    def __init__(self, runtime_directory: str) -> None:
        self._directory = runtime_directory

    def server(self) -> psutil.Process:
        return self._of("workbench.server")[0]

    def forkserver(self) -> psutil.Process:
        """Workers look like it, but are its children."""
        server = self.server().pid
        return next(p for p in self._of("workbench.worker.forkserver") if p.ppid() == server)

    def workers(self) -> list[psutil.Process]:
        return self.forkserver().children()

    def all(self) -> list[psutil.Process]:
        return self._of("workbench.server") + self._of("workbench.worker.forkserver")

    def gone(self) -> bool:
        """Whether all of them end."""
        return eventually(lambda: not self.all())

    def _of(self, module: str) -> list[psutil.Process]:
        found = []
        for process in processes_of(self._directory):
            with suppress(psutil.Error):
                if module in process.cmdline():
                    found.append(process)
        return found

    def touched(self) -> int:
        """Bytes of memory behind all segments that the server keeps."""
        return sum(segments(self.server().pid).values())


def segments(pid: int, kind: str = "/memfd:workbench") -> dict[int, int]:
    """Bytes that each segment to which a process has a descriptor really takes, by inode.

    ``kind`` is what its path begins with: a directory, for those on disk.
    """
    found = {}
    for number, target in descriptors(pid).items():
        with suppress(FileNotFoundError):  # closed meanwhile
            if target.startswith(kind):
                fd = os.open(f"/proc/{pid}/fd/{number}", os.O_RDONLY)
                try:
                    found[os.fstat(fd).st_ino] = sum(stop - start for start, stop in data_in(fd))
                finally:
                    os.close(fd)
    return found


def most_granted(capacity: int, processes: int = 4) -> int:
    """Bytes of a store that may be given out: each process may send some of small objects, and
    arguments, unasked."""
    return capacity + processes * inline_allowance(capacity)


def data_in(fd: int) -> Iterator[tuple[int, int]]:
    """Where a sparse file isn't empty: from, to. Its blocks are more: they count the tree too."""
    stop = 0
    with suppress(OSError):  # ENXIO: no more data
        while True:
            start = os.lseek(fd, stop, os.SEEK_DATA)
            stop = os.lseek(fd, start, os.SEEK_HOLE)
            yield start, stop


@contextmanager
def stopped(process: psutil.Process) -> Iterator[None]:
    """It does nothing meanwhile."""
    process.suspend()
    try:
        assert eventually(lambda: process.status() == psutil.STATUS_STOPPED)
        yield
    finally:
        process.resume()


def ends(pid: int) -> bool:
    """Whether a process ends."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], TIMEOUT)[0])
    finally:
        os.close(fd)


def seen_memory() -> int:
    """Bytes of segments' memory that this process has in its page tables."""
    maps = psutil.Process().memory_maps(grouped=False)
    return sum(each.rss for each in maps if "memfd:workbench" in each.path)


def address(array: Any) -> int:
    """Where an array begins."""
    return int(array.__array_interface__["data"][0])


def _mapping(address: int) -> tuple[int, list[str], dict[str, str]]:
    """Where the mapping begins in which an address lies, and what the system says of it."""
    with open("/proc/self/smaps") as lines:
        for line in lines:
            place, *rest = line.split()
            if "-" in place:
                start, stop = (int(part, 16) for part in place.split("-"))
                if start <= address < stop:
                    facts = (next(lines).split() for _ in range(20))
                    return start, rest, {name: value for name, value, *_ in facts}
    raise LookupError(f"nothing is mapped at {address:x}")


def mapping_of(address: int) -> str:
    """Permissions and name of the mapping an address lies in, like ``r--s /memfd:workbench``."""
    _, (permissions, _, _, _, *name), _ = _mapping(address)
    return " ".join([permissions, *name[:1]])


def place_of(address: int) -> tuple[int, int]:
    """Which byte of which file an address of this process shows: (inode, offset)."""
    start, (_, offset, _, inode, *_), _ = _mapping(address)
    return int(inode), int(offset, 16) + address - start


def private_pages(address: int) -> int:
    """Bytes of the mapping at an address that this process has to itself."""
    return int(_mapping(address)[2]["Anonymous:"]) * 1024


def private_memory() -> int:
    """Bytes that this process has to itself, of whatever mapping: its ``RssAnon``."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


@contextmanager
def few_descriptors(pid: int, others: int = 0) -> Iterator[None]:
    """A process has no other descriptors than those it has, or only so many."""
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = descriptors(pid)
    unused = (number for number in range(limits[1]) if number not in used)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (next(islice(unused, others, None)), limits[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
