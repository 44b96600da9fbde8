"""Counts how many of a cell's calls to executors are done; reports that while it takes long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

EVERY = 0.5
"""Seconds between two reports, and before the first: what takes less is not reported."""


class CallTally:
    """Tally of one cell. Any thread may count. While calls are left, a thread of its own calls
    ``report`` with how many are done, and how many there will be: every ``every`` seconds.

    The latter is 0 while unknown: joblib submits the next calls as others end.
    """

    def __init__(self, report: Callable[[int, int], object], every: float = EVERY) -> None:
        self.done = 0
        self.known = 0
        self._report = report
        self._every = every
        self._grows = False  # calls are added, perhaps while some are done and some not
        self._has_reported = False
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()  # guards all of the above

    def expect(self, calls: int, more: bool = False) -> None:
        """Count ``calls`` more that are submitted. ``more``: nobody knows how many come later."""
        with self._lock:
            self._grows = more or (self.done < self.known and (self._grows or self.done > 0))
            self.known += calls
            if self._thread is None and calls and not self._closed.is_set():
                thread = threading.Thread(target=self._run, name="workbench-tally", daemon=True)
                thread.start()
                self._thread = thread

    def count(self, calls: int) -> None:
        with self._lock:
            self.done += calls

    def close(self) -> None:
        """Stop reporting: the cell is over."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(self._every):
            with self._lock:
                done, known, grows = self.done, self.known, self._grows
                if done >= known:
                    self._thread = None
            if done < known or self._has_reported:
                self._has_reported = True
                with suppress(Exception):  # the display fails: no reason for a cell to fail
                    self._report(done, 0 if grows and done < known else known)
            if done >= known:
                return
