"""A worker's `sys.stdout` and `sys.stderr`: text of a running task, for whoever submitted it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.client.task_context import TaskContext
    from workbench.host.outstream import OutStream


PIECE = 1 << 17
"""Characters that are handed over at a time."""


class Capture(io.TextIOBase):
    """A text stream that shows what is written as output of the running task.

    Any thread may write. What is written while no task runs goes nowhere a person would look
    for it, so it is dropped.

    Parameters
    ----------
    kind : str
        ``"stdout"`` or ``"stderr"``.
    fd : int
        The descriptor for those who want one: what is written there is shown too.
    work : Running
        The worker's tasks.
    outlet : Outlet
        Shows it.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, kind: str, fd: int, work: TaskContext, outlet: OutStream) -> None:
        self._kind = kind
        self._work = work
        self._show = outlet.put
        self._forked: io.TextIOWrapper | None = None
        self.buffer = io.FileIO(fd, "w", closefd=False)
        """For those who write bytes."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self.buffer.fileno()

    def write(self, text: str) -> int:
        """Show it, together with what comes in the next few milliseconds."""
        if not isinstance(text, str):
            raise TypeError(f"write() takes a str, not {type(text).__name__}")
        if self._forked is not None:
            return self._forked.write(text)
        run = self._work.current
        if run is not None and text:
            for start in range(0, len(text), PIECE):
                self._show(run.task, self._kind, text[start : start + PIECE])
        return len(text)

    def flush(self) -> None:
        """Nothing is held back for long."""
        if self._forked is not None:
            self._forked.flush()

    def forked(self) -> None:
        """In a forked child: its parent's task isn't its own, but what it writes is shown there."""
        if self._forked is None:
            self._forked = open(  # noqa: SIM115 - for as long as the process lives
                self.fileno(), "w", 1, self.encoding, self.errors, closefd=False
            )
