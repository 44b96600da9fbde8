"""A line as its caller knows it, and the calls that go by it until the server knows of their ends.

What is done with them is in `direct_calls`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from socket import socket

from workbench.core import events as ev

NO_ACTOR = 0
"""Whose line is the lease."""

MOST_AHEAD = 8192
"""Calls on a line that aren't answered; what comes beyond that goes through the server."""


MOST_PACKED = 64
"""Calls in one packet: the worker can start on them while more are packed."""

BESIDE = 100
"""Bytes of a packet beside texts and arguments, at most."""

EACH = 20
"""... and of each call."""


class CallRun:
    """Calls of one form that go by a line one after the other, in one packet. Queued for the
    server: `SendQueue` says what that is told.

    More may join it before it ``is_sent``. If it can't be, all of it goes through the server: it
    ``is_withdrawn``.
    """

    __slots__ = (
        "answers", "calls", "form", "heard", "is_late", "is_said", "is_sent", "is_withdrawn",
        "line", "nbytes", "number", "shown", "unheard",
    )  # fmt: skip

    def __init__(self, line: DirectLine, form: ev.CallForm, task: int, args: bytes) -> None:
        self.line = line
        self.form = form
        self.calls = {task: args}
        self.number = 0  # of the first one, among those of its line; once it is sent
        texts = 4 * (len(form.method) + len(form.name))
        self.nbytes = BESIDE + texts + 9 * len(form.deps) + EACH + len(args)  # of it, at most
        self.is_sent = False
        self.is_withdrawn = False
        self.answers: dict[int, ev.Value] = {}  # by task
        self.heard = 0  # see `Connection.heard`; once all are answered
        self.shown: set[int] = set()  # that showed what the server shows once it knows of the call
        self.unheard = 0  # bytes of results, counted in `DirectLine.unheard`
        self.is_late = False  # it waited for answers before it was said
        self.is_said = False  # that they were submitted: answers have to be said as well

    @property
    def is_over(self) -> bool:
        return len(self.answers) == len(self.calls)

    def submit(self, task: int) -> ev.Submit:
        """What the server is told of one of them."""
        line = 0 if self.is_withdrawn else self.line.number
        return self.form.submit(task, self.calls[task], line)


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
        self.runs: deque[CallRun] = deque()  # until the server knows of their ends
        self.packed: CallRun | None = None  # that isn't sent: the next call may join it
        self.deps: tuple[int, ...] = ()  # of the last run
        self.is_busy = False  # what is packed is being sent, or a run is being made
        self.unanswered = 0  # of those that were sent
        self.unanswered_bytes = 0
        self.sent = 0
        self.known = 0
        self.unheard = 0  # bytes of results of which the server hasn't heard, see `ev.Unheard`

    @property
    def ahead(self) -> int:
        """Calls that aren't answered, with those that are packed."""
        packed = self.packed
        return self.unanswered + (0 if packed is None else len(packed.calls))

    @property
    def is_due(self) -> bool:
        """Whether what is packed is to be sent: no more calls than these are on their way."""
        packed = self.packed
        return packed is not None and self.unanswered <= len(packed.calls)

    @property
    def is_idle(self) -> bool:
        """Whether there are none."""
        return not self.unanswered and self.packed is None

    def forget(self, told: int) -> None:
        """Runs of whose answers the server has been told: so many of all that were heard."""
        runs = self.runs
        while runs and runs[0].is_over and runs[0].heard <= told:
            run = runs.popleft()
            self.known = run.number + len(run.calls) - 1

    def open(self) -> Iterator[tuple[int, int]]:
        """Number and task of each call that was sent and isn't answered."""
        for run in self.runs:
            for number, task in enumerate(run.calls, run.number):
                if task not in run.answers:
                    yield number, task
