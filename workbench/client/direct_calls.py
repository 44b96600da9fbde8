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
from workbench.client.direct_line import EACH, MOST_PACKED, NO_ACTOR, CallRun, DirectLine
from workbench.client.objects import KnownObjects
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.system.ki_protection import ki_protection
from workbench.wire import packets
from workbench.wire.buffers import Parcel

MOST_BYTES = 4 << 20
"""... and bytes of these."""

MOST_DEPS = 16
"""Objects that are arguments of what goes by a line."""

MOST_ACTORS = 1000
"""Actors of which it is known what was called last through the server; others get no line."""

MOST_UNKNOWN = 1 << 14
"""Answered calls of which the server doesn't know yet; their results are kept by the worker."""

MOST_UNHEARD = 1 << 16
"""Bytes of results that the server may count late as taken from the worker's leave."""


FEW = 8
"""Calls on their way, with more of which those that have other stored arguments than the call
before go through the server: by the line each would take a packet of its own."""


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
        self.lock = threading.RLock()  # a `__del__` that runs inside may call, too
        self._by_actor: dict[int, DirectLine] = {}
        self._ended_last: dict[int, DirectLine] = {}  # by actor
        self._calls: dict[int, CallRun] = {}  # by task: that were sent and aren't answered
        self.unsaid: set[int] = set()  # tasks of which nothing was said, whose results have handles
        # By actor: its last call through the server, and what had been spoken before that.
        self._last: dict[int, tuple[int, int]] = {}
        # The same for tasks. Those from `_fresh` on were submitted after `_spoken` messages.
        self._spoken = self._fresh = self._latest = 0
        handlers |= {
            do.Offer: self._offered,
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
        if line.unanswered_bytes > MOST_BYTES:
            return None
        if deps and deps != line.deps and line.ahead > FEW:
            return None
        if deps and not self._may_be_arguments(line, deps):
            return None
        last = self._last.get(actor)
        return line if last and last[1] == self._connection.spoken else None

    @property
    def ahead(self) -> int:
        """Calls that aren't answered."""
        return sum([line.ahead for line in list(self._by_actor.values())])

    def lease(self, function: int, deps: tuple[int, ...] = ()) -> DirectLine | None:
        """The line by which the next task of the function may go, with these objects as
        arguments."""
        line = self._by_actor.get(NO_ACTOR)
        if line is None or not (line.is_granted and line.is_idle):
            return None
        good = function in line.functions and self._spoken == self._connection.spoken
        return line if good and (not deps or self._may_be_arguments(line, deps)) else None

    def _may_be_arguments(self, line: DirectLine, deps: tuple[int, ...]) -> bool:
        """None of them was freed, as far as is known here."""
        good = len(deps) <= MOST_DEPS and line.objects.issuperset(deps)
        return good and self._objects.failed(deps) is None

    def call(self, line: DirectLine, task: int, args: bytes, form: ev.CallForm) -> bool:
        """Send a call, or pack it with others while there are enough of them on their way that
        its worker isn't idle. False if it has to go through the server.

        Ctrl-C may come anywhere: one store makes it a call of the run that is packed.
        """
        size = EACH + len(args)
        with self.lock:
            run = line.packed
            if run is None or run.form != form or run.nbytes + size > packets.LARGEST_PACKET:
                return self._begin(line, task, args, form)
            run.nbytes += size  # first: too many don't matter
            count = len(run.calls) + 1
            if not line.is_granted or line.unanswered + count > line.most:
                return False
            if line.packed is not run:  # what a `__del__` called just now
                return self._begin(line, task, args, form)
            run.calls[task] = args
            if line.unanswered <= count or count >= MOST_PACKED:
                self._send(line)
        return True

    def _begin(self, line: DirectLine, task: int, args: bytes, form: ev.CallForm) -> bool:
        """With the first call of a run, behind all others. Holds the lock."""
        if line.is_busy:  # in a `__del__` that runs inside
            return False
        with ki_protection():
            self._send(line)
            line.is_busy = True
            try:
                run = CallRun(line, form, task, args)
                line.forget(self._connection.told)
                usable = line.is_granted and line.unanswered < line.most
                if not usable or line.sent - line.known > MOST_UNKNOWN:
                    return False
                if run.nbytes > packets.LARGEST_PACKET:
                    return False
                self._connection.defer(run)
                line.packed, line.deps = run, form.deps
            finally:
                line.is_busy = False
            if line.is_due:
                self._send(line)
        return True

    def _send(self, line: DirectLine) -> None:
        """What is packed. Holds the lock."""
        if line.is_busy or line.packed is None:
            return
        with ki_protection():
            line.is_busy = True
            try:
                run, line.packed = line.packed, None
                if run is not None:
                    self._send_run(line, run)
            finally:
                line.is_busy = False

    def _send_run(self, line: DirectLine, run: CallRun) -> None:
        run.number, count = line.sent + 1, len(run.calls)
        calls = list(run.calls), list(run.calls.values())
        packet = packets.CallPacket(run.number, line.known, *calls, run.form)
        self.unsaid.update(run.calls)
        self._calls.update(dict.fromkeys(run.calls, run))  # first: they may be answered at once
        try:
            line.end.send(packets.encode(packet))
        except (OSError, ValueError):  # full, or the worker is gone, or no text for a packet
            for task in run.calls:
                del self._calls[task]
            self._withdraw(line, run)
            return
        line.runs.append(run)
        line.sent += count
        line.unanswered += count
        line.unanswered_bytes += run.nbytes
        run.is_sent = True
        if line.unanswered > MOST_PACKED:
            self._connection.is_crowded = True

    def _withdraw(self, line: DirectLine, run: CallRun) -> None:
        """It goes through the server, behind all that was sent. Holds the lock."""
        line.is_granted, run.is_withdrawn = False, True
        latest, last = max(run.calls), self._last.get(line.actor)
        if line.actor == NO_ACTOR:
            self._task_goes_through_server(latest)
        elif last is not None:  # said where the run is in the queue, so that it still holds
            self._last[line.actor] = latest, last[1]
        self._connection.hurry()

    def push(self) -> None:
        """Send all that is packed. Any thread."""
        for line in list(self._by_actor.values()):
            if line.packed is not None:
                with self.lock:
                    self._send(line)

    def goes_too(self, task: int) -> None:
        """In the same message as one of which that was said. Holds the lock."""
        self._latest = max(self._latest, task)

    def goes_through_server(self, actor: int, task: int) -> None:
        """A call of the actor, or a task, is about to be sent there."""
        with ki_protection(), self.lock:
            if actor == NO_ACTOR:
                return self._task_goes_through_server(task)
            self._last[actor] = task, self._connection.spoken
            if len(self._last) > MOST_ACTORS:
                del self._last[next(iter(self._last))]
            line = self._by_actor.get(actor)
            if line is not None:
                line.is_granted = False
        return None

    def _task_goes_through_server(self, task: int) -> None:
        """Holds the lock."""
        spoken = self._connection.spoken
        if self._spoken != spoken:
            # Those that other threads are about to send may have been numbered before.
            self._spoken, self._fresh = spoken, max(task, self._latest + 1)
            line = self._by_actor.get(NO_ACTOR)
            if line is not None:
                line.is_granted = False
        self._latest = max(self._latest, task)

    def told(self, actor: int, first: int, last: int) -> None:
        """All calls in the message of the ``first``, of which that was said, are known now."""
        with self.lock:
            known = self._last.get(actor)
            if known is not None and known[0] == first:
                self._last[actor] = last, known[1]

    def unheard(self, run: CallRun, nbytes: int) -> ev.Unheard | None:
        """The server won't hear of calls whose results have so many bytes; what it is told. Holds
        the writer's lock."""
        line = run.line
        line.unheard += nbytes - run.unheard
        run.unheard = nbytes
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
        """Its handle is gone. Another may come, with the next task that is given one; if it has a
        line, that goes on."""
        self._ended_last.pop(actor, None)

    def abandon(self) -> None:
        """Close the lines without a word: the session is over, or the parent's."""
        for line in self._by_actor.values():
            line.end.close()

    # -- the reading thread -----------------------------------------------------------------------

    def _offered(self, parcel: Parcel) -> None:
        message: do.Offer = parcel.message
        end = packets.open_end(parcel.fds)
        self._connection.send(ev.Attached(message.line, end is not None))  # before any task by it
        if end is None:
            return
        known = frozenset(message.functions), frozenset(message.objects)
        line = DirectLine(message.line, message.actor, end, *known)
        if message.actor == NO_ACTOR:
            with self.lock:
                line.is_granted = message.last >= self._fresh
        self._by_actor[line.actor] = line
        self._connection.watch(end.fileno(), partial(self._read, line))

    def _granted(self, message: do.Grant) -> None:
        for line in self._by_actor.values():
            if line.number == message.line and not line.has_ended:
                with self.lock:
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
        with self.lock:
            run, line.packed = line.packed, None
            if run is not None:
                self.unsaid.update(run.calls)
                self._withdraw(line, run)
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
                    known.shown.add(message.task)
            elif show is not None:
                show(ev.Output(*(getattr(message, f) for f in ev.Output.__struct_fields__)))

    def _came(self, results: list[tuple[int, bytes, bool]]) -> None:
        values: dict[int, ev.Value] = {}
        run = None
        with self.lock:
            for task, header, failed in results:
                run = self._calls.pop(task, None)
                if run is not None:
                    plain = header == b"N" and not failed
                    values[task] = value = _NONE if plain else ev.Value(header, failed=failed)
                    run.answers[task] = value  # before the look: `SendQueue` looks when it says it
                    if run.is_said:
                        self._connection.defer(ev.Settled(task, value))
                    self._count_out(run)
            if run is not None and run.line.is_due:
                self._send(run.line)
        self._objects.ready(values)

    def _count_out(self, run: CallRun) -> None:
        """One more of its calls is answered. Holds the lock."""
        line = run.line
        line.unanswered -= 1
        if run.is_over:
            line.unanswered_bytes -= run.nbytes
            self._connection.heard += 1
            run.heard = self._connection.heard

    def ready(self, values: dict[int, ev.Value]) -> None:
        """The server tells of objects."""
        if not self._calls:
            return
        with self.lock:
            for id, value in values.items():
                run = self._calls.pop(id, None)
                if run is not None:
                    run.answers[id] = value
                    self._count_out(run)

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
                with self.lock:
                    line.is_granted = False
                self._read(line)
                if not line.has_ended:  # a process that it forked has its end, too
                    self._hung_up(line)
                self._ended_last[line.actor] = line  # first: calls of it may just be said
                del self._by_actor[line.actor]
                line.end.close()
                unbegun = 0
                for number, task in line.open():
                    self._calls.pop(task, None)
                    if number > message.begun >= 0:
                        unbegun = unbegun or task
                self._connection.send(ev.LineClosed(line.number, unbegun))


_NONE = ev.Value(b"N")
