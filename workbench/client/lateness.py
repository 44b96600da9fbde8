"""Which of the messages that wait for a tick go with it. No socket, and no clock of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from workbench.core import events as ev

TICK = 0.003
"""Seconds a message that can wait does wait, at most, if the process is otherwise idle."""

PATIENCE = 30
"""Ticks after which the thread leaves somebody who waits, and sends nothing, alone."""

PROMPT = 0.0003
"""A message is sent at once unless the last one went less than these seconds ago."""

TOGETHER = 0.002
"""Seconds for which messages wait for others that are known to follow."""

LATE = 0.03
"""Seconds for which calls by lines wait that nobody but us can have heard of; see `SendQueue`."""

UNSAID = frozenset({ev.Done, ev.Relay, ev.Attached, ev.Settled, ev.LineClosed, ev.Ask, ev.Want})
"""Answers: whoever gets one hears it from the server, behind all that was said before."""


class Lateness:
    """See the module.

    Parameters
    ----------
    due : callable(queued, seen, late) → int, optional
        How many of the first messages go, of which ``seen`` were looked at before. Else all go.
    told : callable(heard) → int, optional
        Of so many answers by lines, how many have nothing in the queue. Else all of them.
    """

    def __init__(
        self,
        due: Callable[[deque[Any], int, bool], int] = lambda queued, _seen, _late: len(queued),
        told: Callable[[int], int] = lambda heard: heard,
    ) -> None:
        self.due = due
        self.told = told
        self._seen = 0
        self.since = 0.0  # when the first of what is queued came

    def began(self, now: float) -> None:
        """The queue was empty, or has just been sent."""
        self.since, self._seen = now, 0

    def count(self, queued: deque[Any], now: float) -> int:
        """How many of the first messages go with a tick."""
        count = self.due(queued, self._seen, now - self.since > LATE)
        self._seen = 0 if count else len(queued)
        return count
