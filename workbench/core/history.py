"""Fill levels of the store: at most two samples a second, kept for two minutes."""

from __future__ import annotations

from collections import deque

from workbench.core.snapshot import HISTORY_SECONDS, Sample

STEP = 0.5
"""Minimum seconds between two samples."""

Levels = tuple[int, int, int, int, int]
"""A sample without its age."""


class History:
    """See the module. No sample is taken while nothing happens: each holds until the next."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Levels]] = deque()  # with the time of each
        self.due = 0.0

    def add_sample(self, now: float, then: float, levels: Levels) -> None:
        """Add a sample before a batch is handled: these levels have held since ``then``."""
        self.due = now + STEP
        self._samples.append((then, levels))
        while len(self._samples) > 1 and self._samples[1][0] < now - HISTORY_SECONDS:
            self._samples.popleft()

    def samples(self, now: float, levels: Levels, since: float) -> tuple[Sample, ...]:
        past = [Sample(now - time, *s) for time, s in self._samples if since < time < now]
        return (*past, Sample(0.0, *levels))
