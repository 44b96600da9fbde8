"""The caller's record of a line, and of its calls until the server knows their answers.

`direct_calls` uses them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from socket import socket

from workbench.core import events as ev

NO_ACTOR = 0
"""Stands for the actor of the lease's line, which belongs to no actor."""

MOST_AHEAD = 8192
"""Most unanswered calls on a line; further calls go through the server."""


MOST_PACKED = 64
"""Most calls in one packet: the worker can start on them while more are packed."""

BESIDE = 100
"""Most bytes of a packet beside texts and arguments."""

EACH = 20
"""Most bytes of each call beside its arguments."""


class CallRun:
    """Consecutive calls of one form that go by a line in one packet. Also queued for the server:
    `OutgoingTranslator` decides what the server is told.

    More calls may join before it ``is_sent``. If it can't be sent, all its calls go through the
    server: it ``is_withdrawn``.
    """

    __slots__ = (
        "answer_number", "answers", "calls", "form", "is_late", "is_reported", "is_sent",
        "is_withdrawn", "line", "nbytes", "number", "shown", "unheard",
    )  # fmt: skip

    def __init__(self, line: DirectLine, form: ev.CallForm, task: int, args: bytes) -> None:
        self.line = line
        self.form = form
        self.calls = {task: args}
        self.number = 0  # of its first call on the line; once it is sent
        texts = 4 * (len(form.method) + len(form.name))
        self.nbytes = BESIDE + texts + 9 * len(form.deps) + EACH + len(args)  # upper bound
        self.is_sent = False
        self.is_withdrawn = False
        self.answers: dict[int, ev.Value] = {}  # by task
        self.answer_number = 0  # see `Connection.runs_answered`; once all are answered
        self.shown: set[int] = set()  # tasks whose output waits for the server to know them
        self.unheard = 0  # bytes of results, counted in `DirectLine.unheard`
        self.is_late = False  # it waited for answers before the server was told
        self.is_reported = False  # the server was told of the calls: answers have to be told, too

    @property
    def is_over(self) -> bool:
        return len(self.answers) == len(self.calls)

    def submit(self, task: int) -> ev.Submit:
        line = 0 if self.is_withdrawn else self.line.number
        return self.form.submit(task, self.calls[task], line)


@dataclass(slots=True, eq=False)
class DirectLine:
    """Line to one worker. ``is_granted``: no call of the actor is on its way through the server."""

    number: int
    actor: int
    end: socket
    # Of a lease, which has no actor: the functions that may run there, one task at a time, so that
    # nothing waits there while other workers are idle.
    functions: frozenset[int] = frozenset()
    objects: frozenset[int] = frozenset()  # that may be arguments: the server doesn't move these
    most: int = field(init=False)  # unanswered calls
    is_granted: bool = False
    has_ended: bool = False  # nothing more comes
    runs: deque[CallRun] = field(default_factory=deque)  # until the server knows their answers
    packed: CallRun | None = None  # not sent: the next call may join it
    deps: tuple[int, ...] = ()  # of the last run
    is_busy: bool = False  # what is packed is being sent, or a run is being made
    unanswered: int = 0  # calls that were sent
    unanswered_bytes: int = 0
    sent: int = 0
    known: int = 0
    unheard: int = 0  # bytes of results of which the server hasn't heard, see `ev.Unheard`

    def __post_init__(self) -> None:
        self.most = 1 if self.functions else MOST_AHEAD

    @property
    def ahead(self) -> int:
        """Number of unanswered calls, including the packed ones."""
        packed = self.packed
        return self.unanswered + (0 if packed is None else len(packed.calls))

    @property
    def is_due(self) -> bool:
        """True if the packed run should be sent: no more calls than it has are unanswered."""
        packed = self.packed
        return packed is not None and self.unanswered <= len(packed.calls)

    @property
    def is_idle(self) -> bool:
        return not self.unanswered and self.packed is None

    def forget(self, reported: int) -> None:
        """Drop runs whose answers the server knows: the first ``reported`` of all answered runs."""
        runs = self.runs
        while runs and runs[0].is_over and runs[0].answer_number <= reported:
            run = runs.popleft()
            self.known = run.number + len(run.calls) - 1

    def open(self) -> Iterator[tuple[int, int]]:
        """Yield number and task of each call that was sent and isn't answered."""
        for run in self.runs:
            for number, task in enumerate(run.calls, run.number):
                if task not in run.answers:
                    yield number, task
