"""How full the store has been lately: a sample at most twice a second, for two minutes."""

from __future__ import annotations

from collections import deque

from workbench.core.snapshot import HISTORY_SECONDS, Sample

STEP = 0.5
"""Seconds between two samples, at least."""

Levels = tuple[int, int, int, int, int]
"""A sample without its age."""


class History:
    """See the module. Nothing is sampled while nothing happens: a sample counts until the next."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Levels]] = deque()  # with the time of each
        self.due = 0.0

    def note(self, now: float, then: float, levels: Levels) -> None:
        """Something is about to happen: since ``then`` these were the levels."""
        self.due = now + STEP
        self._samples.append((then, levels))
        while len(self._samples) > 1 and self._samples[1][0] < now - HISTORY_SECONDS:
            self._samples.popleft()

    def samples(self, now: float, levels: Levels, since: float) -> tuple[Sample, ...]:
        """Those after that time, and how it is now."""
        past = [Sample(now - time, *s) for time, s in self._samples if since < time < now]
        return (*past, Sample(0.0, *levels))
