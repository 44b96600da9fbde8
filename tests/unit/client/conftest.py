"""A process's side of a session, whose connection nobody starts, for tests of what it says."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import pytest

from tests.unit.wire.sockets import drain
from workbench.client.base import ClientBase
from workbench.client.direct_line import CallRun, DirectLine
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.ref import ObjectRef
from workbench.wire.buffers import Inbox, Parcel
from workbench.wire.codec import decode_from_client

NONE = ev.Value(b"N")


class Gone(NamedTuple):
    """In place of the watch of a handle that died."""

    id: int


LINE, ACTOR = 1, 9
FORM = ev.CallForm(0, (), "", 0, 0, ACTOR, "m", 0, 0)


class Process:
    """One side of a session, whose connection nobody starts, with a line to an actor.

    Each call's result has a handle until that is `Gone`.
    """

    def __init__(self, ours: socket.socket, servers: socket.socket) -> None:
        self.base = ClientBase(ours, "s")
        self._servers = servers
        self.base.references.engine = cast(Any, self.base)
        end, self.worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.base.handlers[do.Offer](Parcel(do.Offer(LINE, ACTOR), (end.detach(),)))
        assert self.sent() == [ev.Attached(LINE)]
        self.lines = self.base.lines
        self.lines.goes_through_server(ACTOR, 5)
        self.line = self.granted(5)
        self.sending = self.base.translator
        self.rest = self.base.connection.queue
        self._handles: dict[int, ObjectRef] = {}
        self._ends: dict[int, Any] = {}

    def granted(self, last: int) -> DirectLine:
        """The line, once the server has granted it, which knows this as the actor's last call."""
        self.base.handlers[do.Grant](do.Grant(LINE, last))
        line = self.lines.line_to(ACTOR)
        assert line is not None
        return line

    def call(self, *tasks: int, answer: ev.Value | None = NONE) -> CallRun:
        """A run of calls that was sent: each has the answer, or none."""
        made = CallRun(self.line, FORM, tasks[0], b"")
        made.calls |= dict.fromkeys(tasks, b"")
        made.is_sent = True
        if answer is not None:
            made.answers = dict.fromkeys(tasks, answer)
            made.answer_number = 1
        return made

    def translate(self, *queued: Any) -> list[Any]:
        return self.sending.translate(self._with_handles(queued))

    def due(self, *queued: Any, late: bool, seen: int = 0) -> int:
        return self.sending.due(deque(self._with_handles(queued)), seen, late)

    def sent(self) -> list[Any]:
        """What the server hears when all that is queued has been sent."""
        self.base.connection.flush()
        return drain(Inbox(decode_from_client), self._servers)

    def is_behind(self, *queued: Any) -> None:
        """These are queued behind what is translated next."""
        self.rest.clear()
        self.rest.extend([self._end(m.id) if type(m) is Gone else m for m in queued])

    def _with_handles(self, queued: Sequence[Any]) -> list[Any]:
        references = self.base.references
        for message in queued:
            if type(message) is CallRun and not message.is_reported:
                self.lines.unreported_tasks.update(message.calls)
                for task in message.calls.keys() - self._ends.keys():
                    self._handles[task] = references.new(task, is_said=False)
        return [self._end(m.id) if type(m) is Gone else m for m in queued]

    def _end(self, id: int) -> Any:
        """The handle dies now, if it hasn't yet: what its finalizer has queued."""
        if id not in self._ends:
            if self._handles.pop(id, None) is None:
                self.base.references.new(id, is_said=False)
            self._ends[id] = self.rest.pop()
        return self._ends[id]


@pytest.fixture
def process() -> Iterator[Process]:
    ours, servers = socket.socketpair()
    with servers:
        servers.setblocking(False)
        made = Process(ours, servers)
        with made.worker:
            yield made
        made.base.abandon()
