"""File descriptors kept for the moment in which a process has no other left. Opens nothing else."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NONE_LEFT = (errno.EMFILE, errno.ENFILE)
"""What a call fails with for which the process, or the machine, has no descriptor left."""


class SpareDescriptors:
    """So many descriptors of nothing. Any thread may call; lending more than once does nothing."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._spare: list[int] = []
        self.refill()

    def lend(self) -> None:
        """Close them: so many can be opened for what is urgent."""
        with self._lock:
            for _ in range(len(self._spare)):
                os.close(self._spare.pop())

    def refill(self) -> bool:
        """Have them again, as far as there are any; whether it has all."""
        with self._lock:
            try:
                for _ in range(self._count - len(self._spare)):
                    self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return False
            return True

    @contextmanager
    def lent(self) -> Iterator[None]:
        """`lend` at the beginning, `refill` at the end."""
        self.lend()
        try:
            yield
        finally:
            self.refill()

    def close(self) -> None:
        """No more of them."""
        self._count = 0
        self.lend()
