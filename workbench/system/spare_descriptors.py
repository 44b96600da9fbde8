"""File descriptors kept in reserve for when a process has no others left."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NONE_LEFT = (errno.EMFILE, errno.ENFILE)
"""Errors of a call when the process, or the machine, has no descriptor left."""


class SpareDescriptors:
    """``count`` descriptors of /dev/null. Any thread may call; a second `lend` does nothing."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._spare: list[int] = []
        self.refill()

    def lend(self) -> None:
        """Close them, so that as many can be opened for something urgent."""
        with self._lock:
            for _ in range(len(self._spare)):
                os.close(self._spare.pop())

    def refill(self) -> bool:
        """Open them again as far as possible; True if all are there."""
        with self._lock:
            try:
                for _ in range(self._count - len(self._spare)):
                    self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return False
            return True

    @contextmanager
    def lent(self) -> Iterator[None]:
        """`lend` at the beginning of the block, `refill` at its end."""
        self.lend()
        try:
            yield
        finally:
            self.refill()

    def close(self) -> None:
        """Close them for good."""
        self._count = 0
        self.lend()
