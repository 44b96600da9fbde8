"""Connections as the loop keeps them: their inboxes, outboxes, and the memory these may take.

No decisions of the core, and no polling.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.wire.buffers import Inbox, Outbox, Parcel
from workbench.wire.codec import decode_from_client
from workbench.wire.framing import LARGEST_OF_SERVER

MOST_HELD = 256 << 20
"""Most bytes kept for all connections together, of incomplete frames and of unread output. Beyond
that the connection that has had some for longest is hung up on."""

MOST_SHOWN = 16 << 20
"""Bytes of output queued for a client that doesn't read. A note says that more was left out."""

QUESTIONS = (ev.Ask, ev.Subscribe, ev.Collect)
"""Messages with perhaps large answers: one at a time, the next after the client has read it."""

MOST_OBJECTS = 5_000
"""Most objects named by one client's messages in a batch: to free so many takes the core some 10
ms, which others wait. The rest waits for its next turn."""

_FIELDS: dict[type, str] = {
    ev.Want: "objects",
    ev.Hold: "objects",
    ev.Drop: "objects",
    ev.Free: "objects",
    ev.Unview: "views",
}
"""Field of messages that name any number of objects, which can be split into several messages."""

_COUNTED = frozenset((*QUESTIONS, *_FIELDS))


@dataclass(slots=True, eq=False)
class Peer:
    """One connection. ``stuck``: its socket is full. Then it isn't read from either, so that
    answers are made only when the client reads."""

    number: int
    sock: socket.socket
    inbox: Inbox = field(default_factory=lambda: Inbox(decode_from_client, parcels=1))
    outbox: Outbox = field(default_factory=lambda: Outbox(largest=LARGEST_OF_SERVER))
    stuck: bool = False
    is_held: bool = False  # memory is kept for it
    _shown: int = 0  # bytes of output queued since it is stuck
    _left_out: ev.Output | None = None  # the last output that wasn't queued

    def put(self, message: do.Message | Parcel) -> None:
        """Queue a message; of output at most `MOST_SHOWN` while the client doesn't read."""
        if self.stuck and type(message) is ev.Output:
            if self._shown > MOST_SHOWN:
                self._left_out = message
                return
            self._shown += len(message.data)
        self.outbox.put(message)

    def goes_on(self) -> None:
        """Reset the output limit, after the client has read all; note what was left out."""
        self._shown, last, self._left_out = 0, self._left_out, None
        if last is not None:
            text = b"\n[output was left out here: this process didn't read it]\n"
            self.outbox.put(replace(last, kind="stderr", data=text))

    def take(self, gone: bool) -> list[Any]:
        """Return its messages for this turn: up to a question, or so many objects.

        If it is ``gone``, return all except questions.
        """
        messages = self.inbox.messages()
        if _COUNTED.isdisjoint(map(type, messages)):  # as in a burst of tasks
            taken = list(messages)
            messages.clear()
            return taken
        taken, left = [], MOST_OBJECTS
        while messages and left > 0:
            message = messages.popleft()
            kind: type = type(message)
            if kind in QUESTIONS:
                if gone:
                    continue
                left = 0
            elif kind in _FIELDS and not gone:
                name = _FIELDS[kind]
                named = getattr(message, name)
                if len(named) > left:
                    messages.appendleft(replace(message, **{name: named[left:]}))
                    message = replace(message, **{name: named[:left]})
                left -= len(named)
            taken.append(message)
        return taken

    @property
    def is_waiting(self) -> bool:
        return bool(self.inbox.messages())

    @property
    def held(self) -> int:
        return self.inbox.unfinished + self.outbox.unsent + self._shown


class HeldMemory:
    """Memory kept for connections, the one that has had some for longest first."""

    def __init__(self) -> None:
        self._bytes: dict[Peer, int] = {}

    def update_held(self, peer: Peer) -> None:
        held = peer.held
        peer.is_held = held > 0
        if held:
            self._bytes[peer] = held
        else:
            self._bytes.pop(peer, None)

    def forget(self, peer: Peer) -> None:
        self._bytes.pop(peer, None)

    def excess(self) -> Peer | None:
        """Return the connection to hang up on, if the total is too much."""
        return next(iter(self._bytes)) if sum(self._bytes.values()) > MOST_HELD else None
