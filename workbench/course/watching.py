"""The memory of this process and of those it started, by time: looked at while a block runs.

Nothing here asks a session: what other libraries start is counted too.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.system.machine import stat_of

INTERVAL = 0.05
"""Seconds between two looks; one takes a few milliseconds."""


class MemoryWatch:
    """What was seen while a block ran; made by `watching`.

    Attributes
    ----------
    before : float
        MB when the block began.
    seconds : list of float
        When each look was, from the block's begin.
    megabytes : list of float
        What each look saw, less ``before``.
    """

    def __init__(self) -> None:
        self.before = memory()
        self.seconds: list[float] = []
        self.megabytes: list[float] = []
        self._began = time.perf_counter()

    def elapsed(self) -> float:
        """Seconds since the block began."""
        return time.perf_counter() - self._began

    def look(self) -> None:
        """Note the memory as it is now."""
        self.seconds.append(self.elapsed())
        self.megabytes.append(memory() - self.before)

    @property
    def most(self) -> float:
        """MB more than before, at most, of all looks."""
        return max(self.megabytes)


@contextmanager
def watching() -> Iterator[MemoryWatch]:
    """Around a block: look every 0.05 s at the memory of this process and of all it started.

    Yields
    ------
    MemoryWatch
        It grows while the block runs.
    """
    found, over = MemoryWatch(), threading.Event()
    found.look()

    def again() -> None:
        while not over.wait(INTERVAL):
            found.look()

    thread = threading.Thread(target=again, name="memory watch", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
        found.look()


def memory() -> float:
    """MB of this process and of all it started. What several have in common counts once.

    That is the sum of their shares (PSS). These have no more of a memfd than somebody has mapped
    and touched: what was only written counts besides.
    """
    for _ in range(TRIES):
        pids = {os.getpid(), *below(os.getpid())}
        files = _memfds(pids)
        shares = {pid: share for pid in pids if (share := _shares(pid))[0]}
        # A fork shares all that a process has with its child: with one of them alone it is half.
        if pids == shares.keys() == {os.getpid(), *below(os.getpid())}:
            break
    every, mapped = map(sum, zip(*shares.values(), strict=True))
    return (every + max(0, sum(files.values()) - mapped)) / 1e6


TRIES = 3
"""So often a look begins again, if processes come or go meanwhile."""


def _shares(pid: int) -> tuple[int, int]:
    """Bytes: a process's share of all memory, and of what is shared memory; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0, 0
    found = dict(re.findall(r"^(Pss|Pss_Shmem): +(\d+) kB", text, re.MULTILINE))
    return int(found.get("Pss", 0)) * 1024, int(found.get("Pss_Shmem", 0)) * 1024


def _memfds(pids: Iterable[int]) -> dict[int, int]:
    """The bytes of memory that each memfd has which one of the processes has open, by inode."""
    found = {}
    for pid in pids:
        for fd in _names(f"/proc/{pid}/fd"):
            try:
                if os.readlink(fd).startswith("/memfd:"):
                    file = os.stat(fd)
                    found[file.st_ino] = file.st_blocks * 512
            except OSError:  # closed meanwhile
                continue
    return found


def _names(folder: str) -> list[str]:
    """What a folder has, with its path; nothing if it is gone: ``glob`` may raise then."""
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]
    except OSError:
        return []


def below(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have started; no zombies."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        stat = stat_of(int(name))
        if stat and stat[0] not in "ZX":
            children.setdefault(int(stat[1]), []).append(int(name))
    found = children.get(pid, [])[:]
    for each in found:  # it grows meanwhile
        found += children.get(each, ())
    return found
