"""The memory of this process and of those it started, by time: looked at while a block runs.

Nothing here asks a session: what other libraries start is counted too.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.system.machine import proportional

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
    """MB of this process and of all it started. What several have in common counts once (PSS)."""
    return sum(proportional(pid) for pid in [os.getpid(), *below(os.getpid())]) / 1e6


def below(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have started."""
    children: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name stands in brackets and may have any character in it: the last ends it.
            parent = int(file.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError):  # it has just ended
            continue
        children.setdefault(parent, []).append(int(file.parent.name))
    found = children.get(pid, [])[:]
    for each in found:  # it grows meanwhile
        found += children.get(each, ())
    return found
