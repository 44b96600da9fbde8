"""Streams over Dask, which has none: each item is a key of its own, told of as it is made."""

from __future__ import annotations

import queue
from typing import Protocol

from workbench.engines.cluster.backend import StreamItem, TaskEnd
from workbench.engines.dask.holds import KeyHold
from workbench.engines.dask.packed import DaskRef


class Taker(Protocol):
    """Who passes on how far a reader is."""

    def took(self, key: str, task: int, taken: int) -> None: ...


class ItemStream:
    """The items of one stream; read by one thread. A `cluster.backend.Stream`."""

    def __init__(self, taker: Taker, key: str, task: int) -> None:
        self._taker = taker
        self._key = key
        self._task = task
        self._queue: queue.SimpleQueue[tuple[DaskRef, bool] | None] = queue.SimpleQueue()
        self._came = 0
        self._has_failed = False
        self.hold: KeyHold | None = None

    def came(self, number: int, ref: DaskRef, failed: bool) -> None:
        """One more was made: on the client's event loop. A task that is tried again begins with
        those that came already."""
        if number > self._came:
            self._came = number
            self._queue.put((ref, failed))
        else:
            self._taker.took(self._key, self._task, number)  # its new process hasn't heard of that

    def ended(self) -> None:
        """There are no more."""
        self._queue.put(None)

    def next(self) -> StreamItem | TaskEnd:
        came = self._queue.get()
        if came is None:
            self._queue.put(None)  # for who asks again
            assert self.hold is not None
            if self.hold.error is not None:
                raise self.hold.error
            end = self.hold.end or TaskEnd(self._task, "failed", 0.0)
            if any(end.failed) and not self._has_failed:  # its process died: the result says so
                self._has_failed = True
                return StreamItem(DaskRef(self._key, 1, self.hold), None, True)
            return end
        self._has_failed = self._has_failed or came[1]
        return StreamItem(came[0], None, came[1])

    def took(self, taken: int) -> None:
        self._taker.took(self._key, self._task, taken)

    def close(self) -> None:
        self._taker.took(self._key, self._task, -1)
        self._queue.put(None)
