"""Calls that go through the server: those that follow one another, in one message.

A message that differs in nothing but its task and arguments from the one that was queued last joins
it: so a burst costs a message for many calls. What nothing could join goes as it did. No socket.
"""

from __future__ import annotations

from workbench.client.connection import Connection
from workbench.client.direct_calls import DirectCalls
from workbench.core import events as ev

MOST_CALLS = 128
"""In one message: the server lets others have their turn between two."""

MOST_BYTES = 64 << 10
"""Of arguments in one message that another call may still join."""


class CallBatch:
    """Calls of one form, in the queue. ``told``: the message; from then on no other joins."""

    __slots__ = ("calls", "form", "nbytes", "told")

    def __init__(self, form: ev.CallForm, task: int, args: bytes) -> None:
        self.form = form
        self.calls = {task: args}
        self.nbytes = len(args)
        self.told: ev.SubmitCalls | None = None

    def tell(self, lines: DirectCalls) -> ev.Submit | ev.SubmitCalls:
        """What the server is to hear; asked again, the same. Whichever thread sends."""
        form = self.form
        with lines.lock:
            if self.told is None:
                self.told = ev.SubmitCalls(tuple(self.calls), tuple(self.calls.values()), form)
        if form.actor:
            lines.told(form.actor, self.told.tasks[0], self.told.tasks[-1])
        return self.told if len(self.told.tasks) > 1 else next(self.told.submits())


class CallBatches:
    """See the module. Any thread; Ctrl-C may come anywhere."""

    def __init__(self, connection: Connection, lines: DirectCalls) -> None:
        self._connection = connection
        self._lines = lines
        self._last: CallBatch | None = None

    def submit(self, task: int, args: bytes, form: ev.CallForm) -> None:
        """Send a call without objects among its arguments."""
        with self._lines.lock:
            joins = self._join(task, args, form)
            if not joins:
                self._begin(task, args, form)
        if joins:  # as if it had been sent by itself
            self._connection.said += 1
            self._connection.nudge()

    def _join(self, task: int, args: bytes, form: ev.CallForm) -> bool:
        """Put it into the last message, if that is still the last one. Holds the lock."""
        batch = self._last
        if batch is None or batch.form != form or len(batch.calls) >= MOST_CALLS:
            return False
        batch.nbytes += len(args)  # first: too many don't matter
        if batch.nbytes > MOST_BYTES:
            return False
        self._lines.goes_too(task)
        try:
            if self._connection.queue[-1] is not batch:
                return False
        except IndexError:
            return False
        batch.calls[task] = args  # one store makes it one of these
        # Sent by what a `__del__` did just now, perhaps: with this one, or before it was here.
        return batch.told is None or task in batch.told.tasks

    def _begin(self, task: int, args: bytes, form: ev.CallForm) -> None:
        """With a message of its own, behind all others. Holds the lock."""
        self._lines.goes_through_server(form.actor, task)
        self._last = batch = CallBatch(form, task, args)
        self._connection.send(batch)
