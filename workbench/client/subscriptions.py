"""What changes in the session, for one thread that looks on; and the memory of the processes in it.

`came` runs in whichever thread reads the socket, the rest in the watcher's own. That one never
reads the socket: whoever waits for an answer there would have to be woken by it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from workbench.core import events as ev
from workbench.core.snapshot import Change, MemoryRecord, Snapshot
from workbench.machine import MemoryGauge


class _Roused:
    """Stands where a change would be, for who shall wait no longer."""


_ROUSED = _Roused()


class Subscription:
    """See the module, and `engines.base.Subscription`.

    Parameters
    ----------
    number : int
        This process's own for it.
    tell : callable(message)
        Sends, soon.
    gauge : Gauge
    on_close : callable(number)
    """

    def __init__(
        self,
        number: int,
        tell: Callable[[ev.Event], None],
        gauge: Gauge,
        on_close: Callable[[int], object],
    ) -> None:
        self._number = number
        self._tell = tell
        self._gauge = gauge
        self._on_close = on_close
        self._came: SimpleQueue[Change | _Roused | None] = SimpleQueue()
        self._lock = threading.Lock()  # so that nothing is asked after `close`
        self._asked = False
        self._closed = False

    def came(self, change: Change | None) -> None:
        """The answer; None: there won't be one any more."""
        self._came.put(change)

    def next(self, timeout: float | None = None) -> Change | None:
        """See `engines.base.Subscription`."""
        with self._lock:
            if not self._asked and not self._closed:
                self._asked = True
                self._tell(ev.Subscribe(self._number))
        try:
            change = self._came.get(timeout=timeout)
            while isinstance(change, _Roused):  # however often, it is once
                change = self._came.get_nowait()
        except Empty:
            return None
        self._asked = False
        if change is None:
            self._closed = True
            self._came.put(None)  # for the next one who asks
            return None
        session = self._gauge.measured(change.session)
        return Change(session, change.objects, change.gone, change.left)

    @property
    def is_over(self) -> bool:
        """See `engines.base.Subscription`."""
        return self._closed

    def wake_from_finalizer(self) -> None:
        """See `engines.base.Subscription`."""
        self._came.put(_ROUSED)

    def close(self) -> None:
        """See `engines.base.Subscription`."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._tell(ev.Subscribe(self._number, on=False))
        self._on_close(self._number)
        self._came.put(None)


class Gauge:
    """Adds to a snapshot what the session can't know: the memory around it, and the time."""

    def __init__(self) -> None:
        self._gauge: MemoryGauge | None = None  # it looks for cgroups when it is made

    def measured(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with that."""
        gauge = self._gauge = self._gauge or MemoryGauge()
        available, total = gauge.read()
        found = {*(w.pid for w in snapshot.workers), *(c.pid for c in snapshot.clients)}
        sizes = tuple((pid, gauge.private(pid)) for pid in sorted(found - {0}))
        memory = MemoryRecord(total, available, sizes, gauge.container)
        return snapshot.seen(memory, time.time())
