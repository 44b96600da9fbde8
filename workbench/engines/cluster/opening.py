"""OpeningThread: values of futures are fetched and opened here, in the order in which they came.

The system's own threads report what is ready: they may not wait, and run no code of a person's.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Work = Callable[[], object]

_here = threading.local()


class OpeningThread:
    """See the module. The thread starts with the first work; it never keeps a process alive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._is_running = False

    def do(self, work: Work) -> None:
        """Have it done soon, behind what came before. ``work`` raises nothing. Any thread.

        In this one at once: a future's callback may wait for another one that is there.
        """
        if getattr(_here, "opens", None) is self:
            work()
            return
        with self._lock:
            self._queue.put(work)
            if not self._is_running:
                self._is_running = True
                name = "workbench-futures"
                threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        _here.opens = self
        while (work := self._queue.get()) is not None:
            work()

    def close(self) -> None:
        """What was given by now is still done; then the thread ends. Another one may begin."""
        with self._lock:
            if self._is_running:
                self._is_running = False
                self._queue.put(None)
