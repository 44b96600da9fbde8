"""A subscription to changes of the session, for one thread; and the memory of its processes.

`came` runs in whichever thread reads the socket, the rest in the subscriber's own. That one never
reads the socket: whoever waits for an answer there would have to be woken by it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache
from queue import Empty, SimpleQueue

from workbench.core import events as ev
from workbench.core.snapshot import Change, MemoryRecord, Snapshot
from workbench.system.machine import MemoryGauge

_INTERRUPTED = object()
"""Stands where a change would be, for who shall wait no longer."""


class Subscription:
    """An `engine.following.Changes`. ``tell`` sends, soon."""

    def __init__(
        self,
        number: int,
        tell: Callable[[ev.Event], None],
        on_close: Callable[[int], object],
    ) -> None:
        self._number = number
        self._tell = tell
        self._on_close = on_close
        self._came: SimpleQueue[object] = SimpleQueue()  # changes; None: there won't be one more
        self._lock = threading.Lock()  # so that nothing is asked after `close`
        self._asked = False
        self._closed = False

    def came(self, change: Change | None) -> None:
        self._came.put(change)

    def next(self, timeout: float | None = None) -> Change | None:
        """What has changed since the last time, when something has. None after ``timeout`` seconds,
        at the end, and if somebody interrupts."""
        with self._lock:
            if not self._asked and not self._closed:
                self._asked = True
                self._tell(ev.Subscribe(self._number))
        try:
            change = self._came.get(timeout=timeout)
            while change is _INTERRUPTED:  # however often, it is once
                change = self._came.get_nowait()
        except Empty:
            return None
        self._asked = False
        if not isinstance(change, Change):
            self._closed = True
            self._came.put(None)  # for the next one who asks
            return None
        return Change(measured(change.session), change.objects, change.gone, change.left)

    @property
    def is_over(self) -> bool:
        return self._closed

    def interrupt(self) -> None:
        """Have `next` return now. Any thread."""
        self._came.put(_INTERRUPTED)

    def hurry(self) -> None:
        self.interrupt()  # what has changed comes by itself

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                self._tell(ev.Subscribe(self._number, on=False))
        self._on_close(self._number)
        self._came.put(None)


_gauge = cache(MemoryGauge)  # made once: it looks for cgroups then


def measured(snapshot: Snapshot) -> Snapshot:
    """With what the session can't know: the memory around it, and the time."""
    gauge = _gauge()
    available, total = gauge.read()
    found = {*(w.pid for w in snapshot.workers), *(c.pid for c in snapshot.clients)}
    sizes = tuple((pid, gauge.private(pid)) for pid in sorted(found - {0}))
    memory = MemoryRecord(total, available, sizes, gauge.container)
    return snapshot.replace(memory=memory, taken=time.time())
