"""Requests to the server: each has a number, and waits for its answer.

Any thread may ask, and reads the socket until the answer is there. `answer` runs in whichever
thread reads.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.descriptions import Account, ObjectDescription
from workbench.core.snapshot import ACTOR_PREFIX, Change, ObjectRecord, Snapshot
from workbench.errors import NotAnsweringError, ObjectLostError, SessionError

GLANCE = 0.5
"""Default seconds that a mere look at an object waits for an answer."""

_AWAITED = object()
"""Placeholder of an answer that hasn't come."""


class ConnectionToAsk(Protocol):
    """What requests need of a `Connection`."""

    @property
    def end_reason(self) -> str | None: ...
    def check_open(self) -> None: ...
    def post(self, message: ev.Event) -> None: ...
    def wait_for(self, done: Callable[[], bool], timeout: float | None = None) -> bool: ...


class Requests:
    """Requests to the server and their answers. Any thread may ask.

    ``glance``: seconds that a mere look at an object waits for an answer.
    """

    def __init__(self, connection: ConnectionToAsk, glance: float = GLANCE) -> None:
        self.glance = glance
        self._connection = connection
        self._answers: dict[int, Any] = {}
        self.number = itertools.count(1).__next__

    def ask(
        self, question: Callable[[int], Any], timeout: float | None = None, request: int = 0
    ) -> Any:
        """Send a request and read until its answer; None if there is none in time."""
        self._connection.check_open()
        request = request or self.number()
        answers = self._answers
        try:
            answers[request] = _AWAITED
            self._connection.post(question(request))
            done = self._connection.wait_for(lambda: answers[request] is not _AWAITED, timeout)
            return answers[request] if done else None
        finally:
            answers.pop(request, None)

    def answer(self, request: int, answer: Any) -> None:
        """Hand over the answer of a request. Runs in the reading thread."""
        if request in self._answers:  # else whoever asked was interrupted
            self._answers[request] = answer

    # -- the session, in parts --------------------------------------------------------------------

    def read_parts(self, search: ev.Search | None = None) -> Iterator[Change]:
        """Yield the session's records, or its first matches, in parts; the server goes on."""
        number, left = self.number(), 1
        question = ev.Subscribe(number, once=True, search=search)
        try:
            while True:
                change: Change = self.ask(lambda _: question, request=number)
                left = change.left
                yield change
                if not left:
                    return
        finally:
            if left and self._connection.end_reason is None:  # nobody wants the rest
                self._connection.post(ev.Subscribe(number, on=False))

    def snapshot(self) -> Snapshot:
        objects: list[ObjectRecord] = []
        for change in self.read_parts():
            objects += change.objects
        return change.session.replace(objects=tuple(objects))

    def search(self, pattern: str, order: str, most: int) -> Change:
        objects: list[ObjectRecord] = []
        others = size = 0
        for change in self.read_parts(ev.Search(pattern, order, most)):
            objects += change.objects
            others += change.others
            size += change.others_size
        return Change(change.session, tuple(objects), others=others, others_size=size)

    # -- the kinds that `Ask` has -----------------------------------------------------------------

    def why(self, what: int | str, deep: bool = False) -> Account | None:
        id, name = (0, what) if isinstance(what, str) else (what, "")
        account = self.ask_for("why", id, name, deep).account
        if account is None and (found := self.identify(name)):
            account = self.ask_for("why", found, deep=deep).account
        return account

    def identify(self, text: str) -> int | None:
        digits = digits_of(text)
        if len(digits) == 16:
            number = int(digits, 16)
            return number if self.ask_for("describe", number).description else None
        return id_like(digits, (r.id for r in self.snapshot().objects)) if digits else None

    def names(self, beginning: str = "") -> list[str]:
        of_actors = beginning == ACTOR_PREFIX
        names = self.ask_for("names", name=beginning).names
        return sorted(name for name in names if name.startswith(ACTOR_PREFIX) == of_actors)

    def catch_up(self) -> None:
        """Wait until the server has handled all that came before this, and told its subscribers."""
        # Messages of one connection arrive in order; subscribers are told of changes after the
        # answers to messages that came together. So this asks twice, about no object.
        self.ask_for("describe")
        self.ask_for("describe")

    def summary(self, soon: bool = False) -> Snapshot:
        question = partial(ev.Ask, what="overview")
        answer = self.ask(question, self.glance if soon else None)
        if answer is None:
            raise NotAnsweringError(f"The session didn't answer within {self.glance:g} s.")
        snapshot: Snapshot = answer.snapshot
        return snapshot

    def describe(self, id: int, patient: bool = False) -> ObjectDescription | None:
        question = partial(ev.Ask, what="describe", object=id)
        try:
            answer = self.ask(question, None if patient else self.glance)
        except SessionError:
            return None
        return None if answer is None else answer.description

    def ask_for(self, what: str, id: int = 0, name: str = "", deep: bool = False) -> do.Answer:
        """Return the server's answer to an `Ask` of this kind."""
        answer: do.Answer = self.ask(lambda request: ev.Ask(request, what, id, name, deep))
        return answer

    def interrupt(self, origin: int, jobs: Sequence[int], force: bool, timeout: float) -> bool:
        chosen = tuple(jobs)
        answer = self.ask(lambda request: ev.Interrupt(request, origin, chosen, force), timeout)
        return answer is not None


def digits_of(text: str) -> str:
    """Return the digits of an id as errors and lists show it, or of its beginning or end; or ''."""
    found = re.fullmatch(r"(?:ObjectRef\()?([0-9a-f]{4,16})(?:, .*\))?", text.strip())
    return "" if found is None else found[1]


def id_like(digits: str, known: Iterable[int]) -> int | None:
    """Return the id that begins or ends so, or None. ObjectLostError if several do."""
    ids = [
        id for id in map("{:016x}".format, known) if id.startswith(digits) or id.endswith(digits)
    ]
    if len(ids) > 1:
        raise ObjectLostError(
            f"{len(ids)} objects have an id like {digits!r}, among them {ids[0]} and {ids[1]}: "
            "give more digits."
        )
    return int(ids[0], 16) if ids else None
