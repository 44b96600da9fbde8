"""A subscription to changes of the session, for one thread; and the memory of its processes.

`came` runs in the thread that reads the socket, the rest in the subscriber's own. The subscriber
never reads the socket: it would have to wake other threads that wait for answers there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from queue import Empty, SimpleQueue

from workbench.core import events as ev
from workbench.core.snapshot import Change, MemoryRecord, Snapshot
from workbench.system.machine import MemoryGauge

_INTERRUPTED = object()
"""Queued in place of a change to end the wait in `next`."""


@dataclass(eq=False)
class Subscription:
    """An `engine.following.Changes`."""

    _number: int
    _tell: Callable[[ev.Event], None]  # sends, soon
    _on_close: Callable[[int], object]

    def __post_init__(self) -> None:
        self._came: SimpleQueue[object] = SimpleQueue()  # changes; None: no more will come
        self.came = self._came.put
        self._lock = threading.Lock()  # so that nothing is asked after `close`
        self._asked = False
        self.is_over = False

    def next(self, timeout: float | None = None) -> Change | None:
        """Wait for a change and return what has changed since the last one. None after ``timeout``
        seconds, at the end, and after `interrupt`."""
        with self._lock:
            if not self._asked and not self.is_over:
                self._asked = True
                self._tell(ev.Subscribe(self._number))
        try:
            change = self._came.get(timeout=timeout)
            while change is _INTERRUPTED:  # several count as one
                change = self._came.get_nowait()
        except Empty:
            return None
        self._asked = False
        if not isinstance(change, Change):
            self.is_over = True
            self._came.put(None)  # for the next call
            return None
        return Change(measured(change.session), change.objects, change.gone, change.left)

    def interrupt(self) -> None:
        """Make `next` return now. Any thread."""
        self._came.put(_INTERRUPTED)

    def hurry(self) -> None:
        self.interrupt()  # what has changed comes by itself

    def close(self) -> None:
        with self._lock:
            if not self.is_over:
                self.is_over = True
                self._tell(ev.Subscribe(self._number, on=False))
        self._on_close(self._number)
        self._came.put(None)


_gauge = cache(MemoryGauge)  # made once: it looks for cgroups then


def measured(snapshot: Snapshot) -> Snapshot:
    """Add what the server doesn't know: memory of the machine and the processes, the time."""
    gauge = _gauge()
    available, total = gauge.read()
    found = {*(w.pid for w in snapshot.workers), *(c.pid for c in snapshot.clients)}
    sizes = tuple((pid, gauge.private(pid)) for pid in sorted(found - {0}))
    memory = MemoryRecord(total, available, sizes, gauge.container)
    return snapshot.replace(memory=memory, taken=time.time())
