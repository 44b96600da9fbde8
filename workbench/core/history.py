"""How full the store has been lately: a sample at most twice a second, for two minutes."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from workbench.core.snapshot import HISTORY_SECONDS, Sample

if TYPE_CHECKING:
    from workbench.core.session import Session

STEP = 0.5
"""Seconds between two samples, at least."""

Levels = tuple[int, int, int, int, int]
"""A sample without its age."""


class History:
    """See the module. Nothing is sampled while nothing happens: a sample counts until the next.

    Parameters
    ----------
    session : Session
        Whose store it is.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._samples: deque[tuple[float, Levels]] = deque()  # with the time of each
        self.due = 0.0

    def note(self, now: float) -> None:
        """Something is about to happen: remember how it was until now."""
        then = self._session.now
        self.due = now + STEP
        self._samples.append((then, self._now()))
        while len(self._samples) > 1 and self._samples[1][0] < now - HISTORY_SECONDS:
            self._samples.popleft()

    def samples(self, since: float = 0.0) -> tuple[Sample, ...]:
        """Those after that time, and how it is now."""
        now = self._session.now
        past = [Sample(now - time, *s) for time, s in self._samples if since < time < now]
        return (*past, Sample(0.0, *self._now()))

    def _now(self) -> Levels:
        session = self._session
        budget, catalog, spills = session.budget, session.catalog, session.spilling.spilled
        return budget.live, budget.spilled, catalog.sealed, catalog.ended, spills
