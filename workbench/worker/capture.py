"""Where a worker's prints go: to whoever submitted the task that prints. No formatting."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.client.client import Client


PIECE = 1 << 18
"""Characters in one message: far below a frame, and nobody waits long behind it."""


class Capture(io.TextIOBase):
    """A text stream that sends what is written as Output of the running task.

    Any thread may write. What is written while no task runs goes nowhere a person would look
    for it, so it is dropped.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, kind: str, client: Client) -> None:
        self._kind = kind
        self._client = client

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> int:
        """Send it, together with what comes in the next few milliseconds."""
        for start in range(0, len(text), PIECE):
            piece = text[start : start + PIECE]
            self._client.show(self._kind, piece.encode("utf-8", "backslashreplace"))
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""
