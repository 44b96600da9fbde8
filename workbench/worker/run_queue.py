"""Queue of the tasks that a worker was sent and hasn't begun."""

from __future__ import annotations

import contextlib
from collections import deque

from workbench.core import instructions as do


class RunQueue(deque[do.Run]):
    """Queue of tasks. Any thread may add to it, or take from it."""

    def next(self, group: str | None = None) -> do.Run | None:
        """Take out the first task, or the first one of a concurrency group; None without one."""
        if group is None:
            try:
                return self.popleft()
            except IndexError:
                return None
        for run in list(self):
            if group_of(run) == group:
                with contextlib.suppress(ValueError):  # another thread has just taken it
                    self.remove(run)
                    return run
        return None


def group_of(run: do.Run) -> str:
    return "" if run.spec is None else run.spec.concurrency_group
