"""WorkThread: does one thing after the other, in the order in which they came.

The system's own threads report what is ready: they may not wait, and run no code of a person's.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Work = Callable[[], object]

_here = threading.local()


class WorkThread:
    """See the module. The thread starts with the first work; it never keeps a process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._is_running = False

    def do(self, work: Work) -> None:
        """Have it done soon, behind what came before. ``work`` raises nothing. Any thread.

        In this one at once: a future's callback may wait for another one that is there.
        """
        if getattr(_here, "works", None) is self:
            work()
            return
        with self._lock:
            self._queue.put(work)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        _here.works = self
        while (work := self._queue.get()) is not None:
            work()

    def finish(self) -> None:
        """Wait until all is done that was given by now."""
        if self._is_running:
            done = threading.Event()
            self.do(done.set)
            done.wait()

    def close(self) -> None:
        """What was given by now is still done; then the thread ends. Another one may begin."""
        with self._lock:
            if self._is_running:
                self._is_running = False
                self._queue.put(None)
