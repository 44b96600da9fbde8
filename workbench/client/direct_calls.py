"""A driver's lines to actors: calls that go straight to their workers, and what comes back.

The server hears of them late, see `core.lines`: what was called, answered and let go of within one
frame it doesn't hear of at all. Answers are read by whichever thread reads the connection.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from socket import socket
from typing import Any

from workbench.client.connection import Connection
from workbench.client.objects import KnownObjects
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.system.ki_protection import ki_protection
from workbench.wire import packets
from workbench.wire.buffers import Parcel

MOST_AHEAD = 64
"""Calls on a line that aren't answered. What comes beyond that is a burst, which goes through the
server in a few frames."""

MOST_UNKNOWN = 1000
"""Answered calls of which the server doesn't know yet; their results are kept by the worker."""


MOST_UNHEARD = 1 << 16
"""Bytes of results that the server may count late as taken from the worker's leave."""


class DirectCall:
    """A call that went by a line. Queued for the server: `SendQueue` says what that is told."""

    __slots__ = ("answer", "has_shown", "heard", "is_said", "number", "submit", "unheard")

    def __init__(self, submit: ev.Submit, number: int) -> None:
        self.submit = submit
        self.number = number  # among those of its line
        self.answer: ev.Value | None = None
        self.heard = 0  # see `Connection.heard`
        self.has_shown = False  # something, which the server shows once it knows of the call
        self.unheard = 0  # bytes of its result, counted in `DirectLine.unheard`
        self.is_said = False  # that it was submitted: its answer has to be said as well


class DirectLine:
    """One of them. ``is_granted``: nothing of this actor's is on its way through the server."""

    def __init__(self, number: int, actor: int, end: socket) -> None:
        self.number = number
        self.actor = actor
        self.end = end
        self.is_granted = False
        self.has_ended = False  # nothing more comes
        self.calls: deque[DirectCall] = deque()  # until the server knows of their ends
        self.unanswered = 0
        self.sent = 0
        self.known = 0
        self.unheard = 0  # bytes of results of which the server hasn't heard, see `ev.Unheard`


class DirectCalls:
    """``handlers`` get those of the messages that are about lines."""

    def __init__(
        self,
        connection: Connection,
        objects: KnownObjects,
        handlers: dict[type, Callable[[Any], object]],
        is_worker: bool,
    ) -> None:
        self._connection = connection
        self._is_worker = is_worker
        self._objects = objects
        self._handlers = handlers
        self._lock = threading.RLock()  # a `__del__` that runs inside may call, too
        self._by_actor: dict[int, DirectLine] = {}
        self._calls: dict[
            int, tuple[DirectLine, DirectCall]
        ] = {}  # by task: until they are answered
        # By actor: its last call through the server, and what had been spoken before that.
        self._last: dict[int, tuple[int, int]] = {}
        handlers |= {
            do.Offer: self._offered,
            do.Grant: self._granted,
            do.LineEnded: self._ended,
            ev.Relay: self._relayed,
        }

    # -- calling: any thread ----------------------------------------------------------------------

    def of(self, actor: int) -> DirectLine | None:
        """The line by which the next call of the actor may go."""
        line = self._by_actor.get(actor)
        if line is None or not line.is_granted or line.unanswered >= MOST_AHEAD:
            return None
        last = self._last.get(actor)  # None: its handle was gone meanwhile
        return line if last and last[1] == self._connection.spoken else None

    @property
    def awaits(self) -> bool:
        """Whether any call isn't answered."""
        return bool(self._calls)

    def call(self, line: DirectLine, submit: ev.Submit) -> bool:
        """Send a call; False if it has to go through the server."""
        with ki_protection(), self._lock:
            calls, told = line.calls, self._connection.told
            while calls and calls[0].answer is not None and calls[0].heard <= told:
                line.known = calls.popleft().number
            number = line.sent + 1
            what = submit.task, submit.method, submit.args, submit.name, submit.origin
            root = submit.root or submit.parent
            packet = packets.encode(packets.CallPacket(number, line.known, *what, root))
            call = DirectCall(submit, number)
            if len(packet) > packets.LARGEST_PACKET or len(calls) > MOST_UNKNOWN:
                return False
            self._calls[submit.task] = line, call  # first: the answer may be read at once
            if not line.is_granted or number != line.sent + 1:  # last: what a `__del__` did
                del self._calls[submit.task]
                return False
            line.unanswered += 1
            try:
                line.end.send(packet)
            except OSError:  # full, or the worker is gone: the server knows more
                del self._calls[submit.task]
                line.unanswered -= 1
                line.is_granted = False
                return False
            line.sent = number
            calls.append(call)
            self._connection.defer(call)
        return True

    def goes_through_server(self, actor: int, task: int) -> None:
        """A call of the actor is about to be sent there."""
        with ki_protection(), self._lock:
            self._last[actor] = task, self._connection.spoken
            line = self._by_actor.get(actor)
            if line is not None:
                line.is_granted = False

    def unheard(self, call: DirectCall, nbytes: int) -> ev.Unheard | None:
        """The server won't hear of a call whose result has so many bytes; what it is told. Holds
        the writer's lock."""
        line = self._by_actor.get(call.submit.actor)
        if line is None or line.number != call.submit.line:
            return None  # the worker is gone, too
        line.unheard += nbytes - call.unheard
        call.unheard = nbytes
        if line.unheard < MOST_UNHEARD:
            return None
        told, line.unheard = ev.Unheard(line.number, line.unheard), 0
        return told

    def forget(self, actor: int) -> None:
        """Its handle is gone."""
        self._last.pop(actor, None)

    def abandon(self) -> None:
        for line in self._by_actor.values():
            line.end.close()

    # -- the reading thread -----------------------------------------------------------------------

    def _offered(self, parcel: Parcel) -> None:
        message: do.Offer = parcel.message
        end = packets.open_end(parcel.fds)
        if end is not None:
            line = self._by_actor[message.actor] = DirectLine(message.line, message.actor, end)
            self._connection.watch(end.fileno(), lambda: self._read(line))
        self._connection.send(ev.Attached(message.line, end is not None))

    def _granted(self, message: do.Grant) -> None:
        for line in self._by_actor.values():
            if line.number == message.line and not line.has_ended:
                with self._lock:
                    last = self._last.get(line.actor)
                    line.is_granted = last is not None and last[0] == message.last

    def _read(self, line: DirectLine) -> None:
        """All that has come."""
        while not line.has_ended:
            packet = packets.receive(line.end)
            if packet is None:
                return
            if packet:
                self._take(packet)
            else:
                self._hung_up(line)

    def _hung_up(self, line: DirectLine) -> None:
        line.has_ended, line.is_granted = True, False
        self._connection.unwatch(line.end.fileno())

    def _take(self, packet: bytes) -> None:
        message = packets.decode_answer(packet)
        if type(message) is packets.ResultPacket:
            known = self._calls.get(message.task)
            if known is not None:
                value = ev.Value(message.header, failed=message.failed)
                line, call = known
                call.answer = value  # before the look: `SendQueue` looks for it when it has said it
                if call.is_said:
                    self._connection.defer(ev.Settled(message.task, value))
                self._answered(line, call, value)
                self._objects.ready(do.Ready(message.task, value))
        elif type(message) is packets.ToldPacket:
            self._connection.hurry()  # the server will ask for it when it knows of the call
        elif type(message) is packets.ShownPacket:
            known, show = self._calls.get(message.task), self._handlers.get(ev.Output)
            if self._is_worker:
                self._connection.said += 1  # before our caller goes on, the server knows of it
                if known is not None:
                    known[1].has_shown = True
            elif show is not None:
                show(ev.Output(*(getattr(message, f) for f in ev.Output.__struct_fields__)))

    def _answered(self, line: DirectLine, call: DirectCall, value: ev.Value) -> None:
        call.answer = value
        self._connection.heard += 1
        call.heard = self._connection.heard
        with self._lock:
            line.unanswered -= 1
        self._calls.pop(call.submit.task, None)

    def ready(self, message: do.Ready) -> None:
        """The server tells of an object."""
        known = self._calls.get(message.object)
        if known is not None:
            self._answered(*known, message.value)

    def _relayed(self, message: ev.Relay) -> None:
        for line in self._by_actor.values():
            if line.number == message.line:
                self._read(line)
                self._take(message.data)
                return

    def _ended(self, message: do.LineEnded) -> None:
        """The worker is gone: what it has said is all there."""
        for line in list(self._by_actor.values()):
            if line.number == message.line:
                with self._lock:
                    line.is_granted = False
                self._read(line)
                if not line.has_ended:  # a process that it forked has its end, too
                    self._hung_up(line)
                del self._by_actor[line.actor]
                line.end.close()
                for call in line.calls:
                    self._calls.pop(call.submit.task, None)
                self._connection.send(ev.LineClosed(line.number))
