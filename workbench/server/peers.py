"""Connections as the loop keeps them: what came, what goes out, and how much memory that may take.

No decisions of the core's, and no polling.
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
"""Bytes kept for all connections together: of frames that aren't whole yet, and of what isn't read.
Beyond that, whoever has kept us waiting longest is hung up on."""

MOST_SHOWN = 16 << 20
"""Bytes of output that wait for a client that doesn't read. It is told that more was left out."""

QUESTIONS = (ev.Ask, ev.Subscribe, ev.Collect)
"""Their answers may be large: one at a time, and the next when that has been read."""

MOST_OBJECTS = 5_000
"""That one client's messages name in one batch: to free so many takes the core some 10 ms, which
others wait. The rest is its next turn."""

_FIELDS: dict[type, str] = {
    ev.Want: "objects",
    ev.Hold: "objects",
    ev.Drop: "objects",
    ev.Free: "objects",
    ev.Unview: "views",
}
"""Where messages may name any number of objects, and each is an affair of its own."""

_COUNTED = frozenset((*QUESTIONS, *_FIELDS))


@dataclass(slots=True, eq=False)
class Peer:
    """One connection. ``stuck``: its socket is full. Then it isn't read from either: whoever asks,
    and doesn't read the answers, has them made when it does."""

    number: int
    sock: socket.socket
    inbox: Inbox = field(default_factory=lambda: Inbox(decode_from_client, parcels=1))
    outbox: Outbox = field(default_factory=lambda: Outbox(largest=LARGEST_OF_SERVER))
    stuck: bool = False
    is_held: bool = False  # something is kept for it
    _shown: int = 0  # bytes of output that were queued since it is stuck
    _left_out: ev.Output | None = None  # the last of those that weren't

    def put(self, message: do.Message | Parcel) -> None:
        """Queue a message; of output only so much, while nobody reads it."""
        if self.stuck and type(message) is ev.Output:
            if self._shown > MOST_SHOWN:
                self._left_out = message
                return
            self._shown += len(message.data)
        self.outbox.put(message)

    def goes_on(self) -> None:
        """It has read all that there was."""
        self._shown, last, self._left_out = 0, self._left_out, None
        if last is not None:
            text = b"\n[output was left out here: this process didn't read it]\n"
            self.outbox.put(replace(last, kind="stderr", data=text))

    def take(self, gone: bool) -> list[Any]:
        """What it said, as far as it is its turn: up to a question, or so many objects.

        If it has ``gone``, nobody will hear the answers, and all that isn't a question follows.
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
        """True if it has said more than was its turn."""
        return bool(self.inbox.messages())

    @property
    def held(self) -> int:
        """Bytes that are kept for it."""
        return self.inbox.unfinished + self.outbox.unsent + self._shown


class HeldMemory:
    """What is kept for whom, of those for whom anything is, in the order since when."""

    def __init__(self) -> None:
        self._bytes: dict[Peer, int] = {}
        self._total = 0

    def note(self, peer: Peer) -> None:
        """What is kept for it has changed."""
        held = peer.held
        peer.is_held = held > 0
        self._total += held - self._bytes.get(peer, 0)
        if held:
            self._bytes[peer] = held
        else:
            self._bytes.pop(peer, None)

    def forget(self, peer: Peer) -> None:
        self._total -= self._bytes.pop(peer, 0)

    def excess(self) -> Peer | None:
        """Who is to be hung up on, because it is too much in all."""
        return next(iter(self._bytes)) if self._total > MOST_HELD else None
