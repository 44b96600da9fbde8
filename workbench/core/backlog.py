"""Long work split over batches: each batch does a limited number of steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

MOST_STEPS = 5_000
"""Objects freed, or with a hold removed, per batch: some 10 ms, which other clients wait."""


class Backlog:
    """Queue of unfinished ``work``. ``left``: steps that this batch may still do; code that does a
    step outside of this class subtracts it."""

    def __init__(self) -> None:
        self.steps = self.left = MOST_STEPS
        self.work: deque[Iterator[object]] = deque()

    def begin(self) -> None:
        self.left = self.steps

    def start(self, work: Iterator[object]) -> None:
        """Run ``work``, which yields after each step, as far as this batch allows."""
        if not self._advance(work):
            self.work.append(work)

    def proceed(self) -> None:
        """Go on with queued work, for at least half of a batch's steps, so that it ends."""
        self.left = max(self.left, self.steps // 2, 1)
        while self.work and self.left > 0:
            work = self.work.popleft()
            if not self._advance(work):
                self.work.append(work)

    def _advance(self, work: Iterator[object]) -> bool:
        """Run ``work`` as far as this batch allows. True if it is done."""
        while self.left > 0:
            try:
                next(work)
            except StopIteration:
                return True
            self.left -= 1
        return False
