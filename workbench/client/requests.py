"""What this process asks the server: each question has a number, and waits for its answer.

Any thread may ask, and reads the socket until the answer is there. `answer` runs in whichever
thread reads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from workbench.client.connection import Connection
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.snapshot import Account, ObjectDescription, Snapshot
from workbench.errors import SessionError

GLANCE = 0.5
"""Seconds that somebody waits who only wants to see what a thing is."""

_AWAITED = object()
"""Stands where an answer will be."""


class Requests:
    """See the module. A desk of the client's.

    Parameters
    ----------
    connection : Connection
        Its own.
    check_open : callable()
        Raises if the session is over.
    """

    def __init__(self, connection: Connection, check_open: Callable[[], None]) -> None:
        self._connection = connection
        self._check_open = check_open
        self._answers: dict[int, Any] = {}
        self._requests = itertools.count(1)

    def ask(self, question: Callable[[int], Any], timeout: float | None = None) -> Any:
        """Send a question, read until its answer; None if there is none in time."""
        self._check_open()
        request = next(self._requests)
        answers = self._answers
        try:
            answers[request] = _AWAITED
            self._connection.post(question(request))
            done = self._connection.wait_for(lambda: answers[request] is not _AWAITED, timeout)
            return answers[request] if done else None
        finally:
            answers.pop(request, None)

    def answer(self, request: int, answer: Any) -> None:
        """It is there."""
        if request in self._answers:  # else whoever asked was interrupted
            self._answers[request] = answer

    # -- the kinds that `Ask` has -----------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """See `Engine.snapshot`."""
        answer = self.ask(lambda request: ev.Ask(request, "snapshot"))
        assert isinstance(answer.snapshot, Snapshot)
        return answer.snapshot

    def why(self, id: int) -> Account | None:
        """See `Engine.why`."""
        account: Account | None = self.ask(lambda request: ev.Ask(request, "why", id)).account
        return account

    def spill(self, id: int) -> str:
        """See `Engine.spill`."""
        text: str = self.ask(lambda request: ev.Ask(request, "spill", id)).text
        return text

    def describe(self, id: int) -> ObjectDescription | None:
        """See `Engine.describe`."""
        answer = self._glance("describe", id)
        return None if answer is None else answer.description

    def overview(self) -> Snapshot | None:
        """See `Engine.overview`."""
        answer = self._glance("overview")
        return None if answer is None else answer.snapshot

    def _glance(self, what: str, object: int = 0) -> do.Answer | None:
        try:
            found: do.Answer | None = self.ask(
                lambda request: ev.Ask(request, what, object), GLANCE
            )
        except SessionError:
            return None
        return found

    def interrupt(self, origin: int, jobs: Sequence[int], force: bool, timeout: float) -> bool:
        """See `Engine.interrupt`."""
        chosen = tuple(jobs)
        answer = self.ask(lambda request: ev.Interrupt(request, origin, chosen, force), timeout)
        return answer is not None
