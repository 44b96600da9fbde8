"""A gate for cells in a kernel or its workers: one waits there until the test lets it on. No tests.

The gate is a pair of FIFOs, because a cell can only be told a path.
"""

from __future__ import annotations

import os
from pathlib import Path


class Gate:
    """``gate.wait`` is code for a cell: it waits there until `open`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        os.mkfifo(self._path)
        # Both ends, so that neither opening blocks: a cell that is stopped leaves nothing behind.
        self._fd = os.open(self._path, os.O_RDWR)

    @property
    def wait(self) -> str:
        """Code: take one token, which `open` puts there. An interrupt ends it."""
        return f"open({str(self._path)!r}, 'rb', buffering=0).read(1)"

    def open(self, count: int = 1) -> None:
        """Let so many on."""
        os.write(self._fd, b"x" * count)

    def close(self) -> None:
        """Nobody comes any more."""
        os.close(self._fd)
        os.unlink(self._path)
