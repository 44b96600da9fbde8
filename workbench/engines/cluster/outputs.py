"""Outputs: a task is over for its submitter when its end and all that it showed have come.

Both travel apart: the end as the first thing a task returns, what it showed on the channel. Pure
but for a lock: the time is passed in. Nobody waits in it; `due` says when to call `late`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from workbench.engines.cluster.backend import Message, TaskEnd

PATIENCE = 2.0
"""Seconds for which an end waits for what its task showed."""

MISSING = "Some of what this task showed has not arrived.\n"

LOST = "Its process has ended: some of what this task showed may not have arrived.\n"

Complete = Callable[[TaskEnd], None]


class _Waiting:
    """An end that waits until so many messages of its task have come."""

    __slots__ = ("complete", "deadline", "end")

    def __init__(self, end: TaskEnd, complete: Complete, deadline: float) -> None:
        self.end = end
        self.complete = complete
        self.deadline = deadline


class Outputs:
    """See the module.

    Messages are counted by task and worker: a task that is tried again elsewhere begins anew.
    Those of tasks that aren't expected, or are over, are shown by whoever asks, and not counted.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._came: dict[int, dict[int, int]] = {}  # of expected tasks: messages, by worker
        self._waiting: dict[int, _Waiting] = {}

    def expect(self, task: int) -> None:
        """It is about to be submitted."""
        self._came[task] = {}

    def came(self, message: Message) -> None:
        """One message more, which was shown."""
        with self._lock:
            counts = self._came.get(message.task)
            if counts is None:
                return
            counts[message.worker] = counts.get(message.worker, 0) + 1
            waiting = self._waiting.get(message.task)
            if waiting is None or not self._is_whole(waiting.end):
                return
            del self._waiting[message.task], self._came[message.task]
        waiting.complete(waiting.end)

    def ended(self, end: TaskEnd, complete: Complete, now: float) -> bool:
        """The task has ended; False if that waits for what it showed."""
        with self._lock:
            if end.task in self._came and not self._is_whole(end):
                self._waiting[end.task] = _Waiting(end, complete, now + PATIENCE)
                return False
            self._came.pop(end.task, None)
        complete(end)
        return True

    def due(self) -> float | None:
        """When `late` has something to do; None: it has nothing."""
        with self._lock:
            return min((each.deadline for each in self._waiting.values()), default=None)

    def late(self, now: float, tell: Callable[[int], object]) -> None:
        """Complete those that have waited long enough; before that each is told."""
        with self._lock:
            tasks = [task for task, each in self._waiting.items() if each.deadline <= now]
            over = [self._waiting.pop(task) for task in tasks]
            for task in tasks:
                del self._came[task]
        for each in over:
            tell(each.end.task)
            each.complete(each.end)

    def forget(self, task: int) -> None:
        """It is over, and nothing more of it matters."""
        with self._lock:
            self._came.pop(task, None)
            self._waiting.pop(task, None)

    def _is_whole(self, end: TaskEnd) -> bool:
        return self._came[end.task].get(end.worker, 0) >= end.shown
