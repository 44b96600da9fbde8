"""Batches of calls that go through the server: consecutive calls share one message.

A call that differs from the one queued last only in its task and arguments joins that one's
message: a burst costs one message for many calls. A single call is sent as a Submit. No socket.
"""

from __future__ import annotations

from workbench.client.connection import Connection
from workbench.client.direct_calls import DirectCalls
from workbench.core import events as ev

MOST_CALLS = 128
"""Most calls in one message: between two messages the server serves other clients."""

MOST_BYTES = 64 << 10
"""Most bytes of arguments in one message."""


class CallBatch:
    """Queued calls of one form. ``message``: their message; once it is made, no call can join."""

    __slots__ = ("calls", "form", "message", "nbytes")

    def __init__(self, form: ev.CallForm, task: int, args: bytes) -> None:
        self.form = form
        self.calls = {task: args}
        self.nbytes = len(args)
        self.message: ev.SubmitCalls | None = None

    def tell(self, lines: DirectCalls) -> ev.Submit | ev.SubmitCalls:
        """Return the message for the server; each time the same. Runs in the sending thread."""
        form = self.form
        with lines.lock:
            if self.message is None:
                self.message = ev.SubmitCalls(tuple(self.calls), tuple(self.calls.values()), form)
        if form.actor:
            lines.note_batch(form.actor, self.message.tasks[0], self.message.tasks[-1])
        return self.message if len(self.message.tasks) > 1 else next(self.message.submits())


class CallBatches:
    """Puts calls into batches. Any thread may call; Ctrl-C may come anywhere."""

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
            self._connection.ordered_sent += 1
            self._connection.nudge()

    def _join(self, task: int, args: bytes, form: ev.CallForm) -> bool:
        """Add the call to the last batch if that is still last in the queue. Holds the lock."""
        batch = self._last
        if batch is None or batch.form != form or len(batch.calls) >= MOST_CALLS:
            return False
        batch.nbytes += len(args)  # before the call is in: counting too much does no harm
        if batch.nbytes > MOST_BYTES:
            return False
        self._lines.note_joined(task)
        try:
            if self._connection.queue[-1] is not batch:
                return False
        except IndexError:
            return False
        batch.calls[task] = args  # one store adds the call
        # A `__del__` may just have sent the batch: with this call, or before it was added.
        return batch.message is None or task in batch.message.tasks

    def _begin(self, task: int, args: bytes, form: ev.CallForm) -> None:
        """Queue the call as a new batch, behind all other messages. Holds the lock."""
        self._lines.goes_through_server(form.actor, task)
        self._last = batch = CallBatch(form, task, args)
        self._connection.send(batch)
