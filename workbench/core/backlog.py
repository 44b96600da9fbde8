"""Long work in parts: a batch does so many steps, and what is left waits for the next ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

MOST_STEPS = 5_000
"""Objects that die, or lose a hold, in one batch: some 10 ms. Others wait that much longer."""


class Backlog:
    """See the module. ``left``: steps this batch may do; whoever does one elsewhere counts it.
    ``work``: what there is to go on with."""

    def __init__(self) -> None:
        self.steps = self.left = MOST_STEPS
        self.work: deque[Iterator[object]] = deque()

    def begin(self) -> None:
        """There is a new batch."""
        self.left = self.steps

    def start(self, work: Iterator[object]) -> None:
        """Do ``work``, which yields after each step, now as far as this batch goes."""
        if not self._advance(work):
            self.work.append(work)

    def add(self, work: Iterator[object]) -> None:
        """Do it later."""
        self.work.append(work)

    def proceed(self) -> None:
        """Go on with what waits: half as much as a batch may do at least, so that it ends."""
        self.left = max(self.left, self.steps // 2, 1)
        while self.work and self.left > 0:
            work = self.work.popleft()
            if not self._advance(work):
                self.work.append(work)

    def _advance(self, work: Iterator[object]) -> bool:
        """Whether it is done."""
        while self.left > 0:
            try:
                next(work)
            except StopIteration:
                return True
            self.left -= 1
        return False
