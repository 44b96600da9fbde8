"""What this room needs of the process around it: a way out for messages, and which task runs.

A worker of ours implements it with its client, one of Ray's or Dask's with what that has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from workbench.core.events import Output
from workbench.host.task_context import TaskContext


class Link(Protocol):
    """The way from a running task to whoever submitted it."""

    @property
    def work(self) -> TaskContext[Any]:
        """The tasks that run in this process."""

    def put(self, output: Output, /) -> None:
        """Queue a message, to be sent after those before it. Any thread; never waits.

        Its ``worker`` and ``origin`` are for the receiving side to fill in.
        """

    def flush(self) -> None:
        """Send what is queued, or have another thread send it. Any thread; never waits."""


@dataclass(eq=False, slots=True)
class Failed:
    """One result that is an exception, raised where it is read, beside others that are values."""

    error: BaseException
