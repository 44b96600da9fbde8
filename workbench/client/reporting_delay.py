"""How many of the queued messages a tick sends. No socket, and no clock of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workbench.core import events as ev

TICK = 0.003
"""Most seconds that a message which can wait does wait, if the process is otherwise idle."""

PATIENCE = 30
"""Ticks after which the thread sleeps while another thread leads and nothing is to be sent."""

PROMPT = 0.0003
"""Seconds: a message is sent at once unless the last one was sent more recently."""

TOGETHER = 0.002
"""Seconds for which messages wait for others that are known to follow."""

LATE = 0.03
"""Seconds for which the server isn't told of calls by lines that only we know."""

UNCOUNTED = frozenset({ev.Done, ev.Relay, ev.Attached, ev.Settled, ev.LineClosed, ev.Ask, ev.Want})
"""Messages that a result by a line needn't come after: not in `Connection.ordered_sent`."""


@dataclass(slots=True, eq=False)
class ReportingDelay:
    """Policy of a tick: how many messages it sends.

    ``due(queued, seen, late)`` returns how many of the first messages to send; ``seen`` were
    examined before. ``reported(answered)``: how many of the first ``answered`` runs the server has
    been told.
    """

    due: Callable[[deque[Any], int, bool], int] = lambda queued, _seen, _late: len(queued)
    reported: Callable[[int], int] = lambda answered: answered
    since: float = 0.0  # when the first queued message came
    _seen: int = field(default=0, init=False)

    def reset(self, now: float) -> None:
        """Start the waiting time: the queue was empty, or has just been sent."""
        self.since, self._seen = now, 0

    def count(self, queued: deque[Any], now: float) -> int:
        count = self.due(queued, self._seen, now - self.since > LATE)
        self._seen = 0 if count else len(queued)
        return count
