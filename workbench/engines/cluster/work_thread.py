"""WorkThread: does one thing after the other, in the order in which they came.

The system's own threads report what is ready: they may not wait, and run no code of a person's.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Work = Callable[[], object]


class WorkThread:
    """See the module. The thread starts with the first work; it never keeps a process alive."""

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._is_closed = False

    def do(self, work: Work) -> None:
        """Have it done soon, behind what came before. ``work`` raises nothing. Any thread.

        In this one at once, for a future's callback may wait for another one that is there; and
        once it is closed, in the caller's.
        """
        with self._lock:
            at_once = self._is_closed or threading.get_ident() == self._thread.ident
            if not at_once:
                self._queue.put(work)
                if self._thread.ident is None:
                    self._thread.start()
        if at_once:
            work()

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            work()

    def finish(self) -> None:
        """Wait until all is done that was given by now."""
        if self._thread.ident is not None:
            done = threading.Event()
            self.do(done.set)
            done.wait()

    def close(self) -> None:
        """What was given by now is still done; then the thread ends."""
        with self._lock:
            self._is_closed = True
            self._queue.put(None)
