"""What this room needs of its process: a way out for messages, and which tasks run.

A worker of ours implements it with its client, one of Ray or Dask with their own means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from workbench.core.events import Output
from workbench.host.task_context import TaskContext


class Link(Protocol):
    """Way from a running task to the process that submitted it."""

    @property
    def work(self) -> TaskContext[Any]:
        """Tasks that run in this process."""

    def put(self, output: Output, /) -> None:
        """Queue a message, to be sent after those before it. Any thread; never waits.

        Its ``worker`` and ``origin`` are for the receiving side to fill in.
        """

    def flush(self) -> None:
        """Send what is queued, or have another thread send it. Any thread; never waits."""


@dataclass(eq=False, slots=True)
class Failed:
    """A result that is an exception, raised where it is read; other results may be values."""

    error: BaseException
