"""A line as its caller knows it, and the calls that go by it until the server knows of their ends.

What is done with them is in `direct_calls`.
"""

from __future__ import annotations

from collections import deque
from socket import socket

from workbench.core import events as ev

NO_ACTOR = 0
"""Whose line is the lease."""

MOST_AHEAD = 2048
"""Calls on a line that aren't answered; what comes beyond that goes through the server."""


class DirectCall:
    """A call that goes by a line. Queued for the server: `SendQueue` says what that is told.

    It is packed with others before it ``is_sent``; if it can't be, it goes through the server:
    then ``submit`` has no line any more.
    """

    __slots__ = (
        "answer", "has_shown", "heard", "is_late", "is_said", "is_sent", "number", "size", "submit",
        "unheard",
    )  # fmt: skip

    def __init__(self, submit: ev.Submit, number: int, size: int = 0) -> None:
        self.submit = submit
        self.number = number  # among those of its line
        self.size = size  # bytes of its packet, at most
        self.is_sent = False
        self.answer: ev.Value | None = None
        self.heard = 0  # see `Connection.heard`
        self.has_shown = False  # something, which the server shows once it knows of the call
        self.unheard = 0  # bytes of its result, counted in `DirectLine.unheard`
        self.is_late = False  # it waited for its answer before it was said
        self.is_said = False  # that it was submitted: its answer has to be said as well


class DirectLine:
    """One of them. ``is_granted``: nothing of this actor's is on its way through the server."""

    def __init__(
        self,
        number: int,
        actor: int,
        end: socket,
        functions: frozenset[int] = frozenset(),
        objects: frozenset[int] = frozenset(),
    ) -> None:
        self.number = number
        self.actor = actor
        self.end = end
        # Of a lease, which is no actor's: what may go by it, one at a time, so that nothing waits
        # there while other workers are idle.
        self.functions = functions
        self.objects = objects  # that may be arguments: the server keeps these where they are
        self.most = 1 if functions else MOST_AHEAD
        self.is_granted = False
        self.has_ended = False  # nothing more comes
        self.calls: deque[DirectCall] = deque()  # until the server knows of their ends
        self.packed: list[DirectCall] = []  # to be sent together: all of one name
        self.packed_bytes = 0
        self.is_sending = False
        self.unanswered = 0  # with those that are packed
        self.unanswered_bytes = 0
        self.sent = 0
        self.known = 0
        self.unheard = 0  # bytes of results of which the server hasn't heard, see `ev.Unheard`
