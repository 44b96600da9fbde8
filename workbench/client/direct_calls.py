"""A process's lines to actors, and to a worker lent to it: calls that go straight to their workers,
and what comes back.

The server hears of them late, see `core.lines`: what was called, answered and let go of within one
frame it doesn't hear of at all. Answers are read by whichever thread reads the connection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from workbench.client.connection import Connection
from workbench.client.direct_line import NO_ACTOR, DirectCall, DirectLine
from workbench.client.objects import KnownObjects
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.system.ki_protection import ki_protection
from workbench.wire import packets
from workbench.wire.buffers import Parcel

MOST_BYTES = 4 << 20
"""... and bytes of these."""

MOST_PACKED = 64
"""Calls in one packet: the worker can start on them while more are packed."""

MOST_DEPS = 16
"""Objects that are arguments of what goes by a line."""

MOST_UNKNOWN = 8192
"""Answered calls of which the server doesn't know yet; their results are kept by the worker."""

BESIDE = 100
"""Bytes of a packet beside texts and arguments, at most."""


MOST_UNHEARD = 1 << 16
"""Bytes of results that the server may count late as taken from the worker's leave."""


FEW = 8
"""Calls on their way, with more of which those that have stored arguments go through the server:
its share of a burst is work that the caller and the actor are spared."""


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
        self._ended_last: dict[int, DirectLine] = {}  # by actor
        self._calls: dict[
            int, tuple[DirectLine, DirectCall]
        ] = {}  # by task: until they are answered
        self.unsaid: set[int] = set()  # tasks of which nothing was said, whose results have handles
        # By actor: its last call through the server, and what had been spoken before that.
        self._last: dict[int, tuple[int, int]] = {}
        # The same for tasks. Those from `_fresh` on were submitted after `_spoken` messages.
        self._spoken = self._fresh = self._latest = 0
        handlers |= {
            do.Offer: self._offered,
            do.Lend: self._lent,
            do.Grant: self._granted,
            do.LineEnded: self._ended,
            ev.Relay: self._relayed,
        }

    # -- calling: any thread ----------------------------------------------------------------------

    def of(self, actor: int, deps: tuple[int, ...] = ()) -> DirectLine | None:
        """The line by which the next call of the actor may go, with these objects as arguments."""
        line = self._by_actor.get(actor)
        if line is None or not line.is_granted:
            return None
        if line.unanswered >= line.most or line.unanswered_bytes > MOST_BYTES:
            return None
        if deps and (line.unanswered > FEW or not self._may_be_arguments(line, deps)):
            return None
        last = self._last.get(actor)  # None: its handle was gone meanwhile
        return line if last and last[1] == self._connection.spoken else None

    @property
    def awaits(self) -> bool:
        """Whether any call isn't answered."""
        return bool(self._calls)

    def lease(self, function: int, deps: tuple[int, ...] = ()) -> DirectLine | None:
        """The line by which the next task of the function may go, with these objects as
        arguments."""
        line = self._by_actor.get(NO_ACTOR)
        if line is None or line.unanswered or not line.is_granted:
            return None
        good = function in line.functions and self._spoken == self._connection.spoken
        return line if good and (not deps or self._may_be_arguments(line, deps)) else None

    def _may_be_arguments(self, line: DirectLine, deps: tuple[int, ...]) -> bool:
        """None of them was freed, as far as is known here."""
        good = len(deps) <= MOST_DEPS and line.objects.issuperset(deps)
        return good and self._objects.failed(deps) is None

    def task_goes_through_server(self, task: int) -> None:
        """It is about to be sent there."""
        with ki_protection(), self._lock:
            spoken = self._connection.spoken
            if self._spoken != spoken:
                # Those that other threads are about to send may have been numbered before.
                self._spoken, self._fresh = spoken, max(task, self._latest + 1)
                line = self._by_actor.get(NO_ACTOR)
                if line is not None:
                    line.is_granted = False
            self._latest = max(self._latest, task)

    def call(self, line: DirectLine, submit: ev.Submit) -> bool:
        """Send a call, or pack it with others while there are enough of them on their way that
        its worker isn't idle. False if it has to go through the server."""
        size = BESIDE + len(submit.args) + 4 * (len(submit.method) + len(submit.name))
        size += 9 * len(submit.deps)
        with ki_protection(), self._lock:
            calls, told, packed = line.calls, self._connection.told, line.packed
            while calls and calls[0].answer is not None and calls[0].heard <= told:
                line.known = calls.popleft().number
            if size > packets.LARGEST_PACKET or len(calls) > MOST_UNKNOWN:
                return False
            if packed and not (_is_alike(packed[0].submit, submit) and self._has_room(line, size)):
                self._send(line)
            number = line.sent + 1
            call = DirectCall(submit, number, size)
            self._calls[submit.task] = line, call  # first: the answer may be read at once
            usable = line.is_granted and line.unanswered < line.most
            if not usable or number != line.sent + 1:  # last: what a `__del__` did
                del self._calls[submit.task]
                return False
            line.sent = number
            line.unanswered += 1
            line.unanswered_bytes += size
            line.packed_bytes += size
            calls.append(call)
            packed.append(call)
            self.unsaid.add(submit.task)
            self._connection.defer(call)
            self._send_if_due(line)
        return True

    def _has_room(self, line: DirectLine, size: int) -> bool:
        return line.packed_bytes + size <= packets.LARGEST_PACKET

    def _send_if_due(self, line: DirectLine) -> None:
        """When the worker has no more on its way than is packed. Holds the lock."""
        count = len(line.packed)
        if line.unanswered > MOST_PACKED:
            self._connection.is_crowded = True
        if count >= MOST_PACKED or line.unanswered <= 2 * count:
            self._send(line)

    def _send(self, line: DirectLine) -> None:
        """What is packed. Holds the lock."""
        if line.is_sending:
            return  # a `__del__` calls inside: it goes with these, or next
        line.is_sending = True
        try:
            while run := line.packed[:]:
                first = run[0].submit
                packet = packets.CallPacket(
                    run[0].number, line.known, [call.submit.task for call in run], first.method,
                    [call.submit.args for call in run], first.name, first.origin, first.function,
                    first.root or first.parent, first.deps,
                )  # fmt: skip
                try:
                    line.end.send(packets.encode(packet))
                except OSError:  # full, or the worker is gone: the server knows more
                    self._withdraw(line)
                    return
                for call in run:
                    call.is_sent = True
                    line.packed_bytes -= call.size
                del line.packed[: len(run)]
        finally:
            line.is_sending = False

    def _withdraw(self, line: DirectLine) -> None:
        """What is packed goes through the server, behind all that was sent. Holds the lock."""
        line.is_granted = False
        withdrawn, line.packed[:], line.packed_bytes = line.packed[:], [], 0
        for call in withdrawn:
            self._calls.pop(call.submit.task, None)
            line.calls.remove(call)
            self._count_out(line, call)
            call.submit = _without_line(call.submit)
            last = self._last.get(line.actor)
            if line.actor == NO_ACTOR:
                self.task_goes_through_server(call.submit.task)
            elif last is not None:  # said where the call is in the queue, so that it still holds
                self._last[line.actor] = call.submit.task, last[1]
        if withdrawn:
            self._connection.hurry()

    def _count_out(self, line: DirectLine, call: DirectCall) -> None:
        line.unanswered -= 1
        line.unanswered_bytes -= call.size

    def push(self) -> None:
        """Send all that is packed. Any thread."""
        for line in list(self._by_actor.values()):
            if line.packed:
                with ki_protection(), self._lock:
                    self._send(line)

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
            line = self._ended_last.get(call.submit.actor)
        if line is None or line.number != call.submit.line:
            return None
        line.unheard += nbytes - call.unheard
        call.unheard = nbytes
        if line.unheard < MOST_UNHEARD:
            return None
        told, line.unheard = ev.Unheard(line.number, line.unheard), 0
        return told

    def closes(self, number: int) -> ev.Unheard | None:
        """The rest of that, before LineClosed: the worker may live, and have another line. Holds
        the writer's lock."""
        found = [line for line in self._ended_last.values() if line.number == number]
        return ev.Unheard(number, found[0].unheard) if found and found[0].unheard else None

    def forget(self, actor: int) -> None:
        """Its handle is gone."""
        self._last.pop(actor, None)
        self._ended_last.pop(actor, None)

    def abandon(self) -> None:
        for line in self._by_actor.values():
            line.end.close()

    # -- the reading thread -----------------------------------------------------------------------

    def _offered(self, parcel: Parcel) -> None:
        message: do.Offer = parcel.message
        end = packets.open_end(parcel.fds)
        if end is not None:
            self._attach(DirectLine(message.line, message.actor, end))
        self._connection.send(ev.Attached(message.line, end is not None))

    def _lent(self, parcel: Parcel) -> None:
        message: do.Lend = parcel.message
        end = packets.open_end(parcel.fds)
        self._connection.send(ev.Attached(message.line, end is not None))  # before any task by it
        if end is not None:
            known = frozenset(message.functions), frozenset(message.objects)
            line = DirectLine(message.line, NO_ACTOR, end, *known)
            with self._lock:
                line.is_granted = message.last >= self._fresh
            self._attach(line)

    def _attach(self, line: DirectLine) -> None:
        self._by_actor[line.actor] = line
        self._connection.watch(line.end.fileno(), partial(self._read, line))

    def _granted(self, message: do.Grant) -> None:
        for line in self._by_actor.values():
            if line.number == message.line and not line.has_ended:
                with self._lock:
                    last = self._last.get(line.actor)
                    line.objects = frozenset(message.objects)
                    line.is_granted = last is not None and last[0] == message.last

    def _read(self, line: DirectLine) -> None:
        """All that has come. Its end, perhaps, the next time: to look costs more than a call's
        share of all else here."""
        while not line.has_ended:
            packet = packets.receive(line.end)
            if packet is None:
                return
            if packet:
                self._take(packet)
            else:
                self._hung_up(line)
            if not line.unanswered:
                return

    def _hung_up(self, line: DirectLine) -> None:
        line.has_ended, line.is_granted = True, False
        with self._lock:
            self._withdraw(line)
        self._connection.unwatch(line.end.fileno())

    def _take(self, packet: bytes) -> None:
        message = packets.decode_answer(packet)
        if type(message) is packets.ResultPacket:
            self._came(message.results)
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

    def _came(self, results: list[tuple[int, bytes, bool]]) -> None:
        ready: list[do.Ready] = []
        line = None
        with self._lock:
            for task, header, failed in results:
                known = self._calls.pop(task, None)
                if known is not None:
                    value = (
                        _NONE if header == b"N" and not failed else ev.Value(header, failed=failed)
                    )
                    line, call = known
                    call.answer = value  # before the look: `SendQueue` looks for it when it says it
                    if call.is_said:
                        self._connection.defer(ev.Settled(task, value))
                    self._note(line, call, value)
                    ready.append(do.Ready(task, value))
            if line is not None and line.packed:
                self._send_if_due(line)
        self._objects.all_ready(ready)

    def _note(self, line: DirectLine, call: DirectCall, value: ev.Value) -> None:
        """Its answer. Holds the lock."""
        call.answer = value
        self._connection.heard += 1
        call.heard = self._connection.heard
        self._count_out(line, call)

    def ready(self, message: do.Ready) -> None:
        """The server tells of an object."""
        if message.object in self._calls:
            with self._lock:
                known = self._calls.pop(message.object, None)
                if known is not None:
                    self._note(*known, message.value)

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
                self._ended_last[line.actor] = line  # first: calls of it may just be said
                del self._by_actor[line.actor]
                line.end.close()
                unbegun = 0
                for call in line.calls:
                    self._calls.pop(call.submit.task, None)
                    if call.answer is None and call.number > message.begun >= 0:
                        unbegun = unbegun or call.submit.task
                self._connection.send(ev.LineClosed(line.number, unbegun))


_NONE = ev.Value(b"N")


def _without_line(submit: ev.Submit) -> ev.Submit:
    fields = {name: getattr(submit, name) for name in submit.__struct_fields__}
    return ev.Submit(**fields | {"line": 0})


def _is_alike(one: ev.Submit, other: ev.Submit) -> bool:
    """Whether they can be in one packet."""
    same = one.method == other.method and one.function == other.function
    same = same and one.deps == other.deps
    same = same and one.name == other.name and one.origin == other.origin
    return same and (one.root or one.parent) == (other.root or other.parent)
