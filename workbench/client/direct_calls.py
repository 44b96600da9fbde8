"""A process's lines: calls that go straight to an actor's worker or to a leased worker, and their
answers.

The server hears of these calls late, see `core.lines`. It never hears of a call that was made,
answered and let go of within one frame. The thread that reads the connection reads the answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
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
"""Most bytes of unanswered calls on a line; further calls go through the server."""

MOST_DEPS = 16
"""Most stored objects among the arguments of a call that goes by a line."""

MOST_ACTORS = 1000
"""Actors whose last call through the server is remembered; others can't use a line."""

MOST_UNKNOWN = 1 << 14
"""Most answered calls that the server doesn't know yet; the worker keeps their results."""

MOST_UNHEARD = 1 << 16
"""Most bytes of results that the server may count late against the worker's allowance."""


FEW = 8
"""With more calls than this ahead on a line, a call whose stored arguments differ from the last
one's goes through the server: by the line it would need a packet of its own."""


@dataclass(eq=False)
class DirectCalls:
    """Lines by actor. Adds the handlers of messages about lines to ``_handlers``."""

    _connection: Connection
    _objects: KnownObjects
    _handlers: dict[type, Callable[[Any], object]]
    _is_worker: bool

    def __post_init__(self) -> None:
        self.lock = threading.RLock()  # a `__del__` that runs while it is held may call, too
        self._by_actor: dict[int, DirectLine] = {}
        self._ended_last: dict[int, DirectLine] = {}  # by actor
        self._calls: dict[int, CallRun] = {}  # by task: sent, not answered
        self.unreported_tasks: set[int] = set()  # tasks with handles that the server doesn't know
        # By actor: its last call through the server, and `Connection.order_epoch` before that.
        self._last: dict[int, tuple[int, int]] = {}
        # The same for tasks. Those from `_fresh` on were submitted after `_order_epoch` messages.
        self._order_epoch = self._fresh = self._latest = 0
        self._handlers |= {
            do.Offer: self._offered,
            do.Grant: self._granted,
            do.LineEnded: self._ended,
            ev.Relay: self._relayed,
        }

    # -- calling: any thread ----------------------------------------------------------------------

    def line_to(self, actor: int, deps: tuple[int, ...] = ()) -> DirectLine | None:
        """Return the line for the actor's next call with these objects as arguments, or None."""
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
        return line if last and last[1] == self._connection.order_epoch else None

    @property
    def ahead(self) -> int:
        """Number of unanswered calls on all lines."""
        return sum([line.ahead for line in list(self._by_actor.values())])

    def lease(self, function: int, deps: tuple[int, ...] = ()) -> DirectLine | None:
        """Return the lease's line if the function's next task may go by it with these objects as
        arguments, else None."""
        line = self._by_actor.get(NO_ACTOR)
        if line is None or not (line.is_granted and line.is_idle):
            return None
        good = function in line.functions and self._order_epoch == self._connection.order_epoch
        return line if good and (not deps or self._may_be_arguments(line, deps)) else None

    def _may_be_arguments(self, line: DirectLine, deps: tuple[int, ...]) -> bool:
        good = len(deps) <= MOST_DEPS and line.objects.issuperset(deps)
        return good and self._objects.failed(deps) is None

    def call(self, line: DirectLine, task: int, args: bytes, form: ev.CallForm) -> bool:
        """Send a call, or pack it with others while enough calls are on their way to keep the
        worker busy. False if it has to go through the server.

        Ctrl-C may come anywhere: one store adds the call to the packed run.
        """
        size = EACH + len(args)
        with self.lock:
            run = line.packed
            if run is None or run.form != form or run.nbytes + size > packets.LARGEST_PACKET:
                return self._begin(line, task, args, form)
            run.nbytes += size  # before the call is in: counting too much does no harm
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
        """Begin a run with this call, behind all other runs. Holds the lock."""
        if line.is_busy:  # in a `__del__` that runs inside
            return False
        with ki_protection():
            self._send(line)
            line.is_busy = True
            try:
                run = CallRun(line, form, task, args)
                line.forget(self._connection.runs_reported)
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
        """Send the packed run. Holds the lock."""
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
        self.unreported_tasks.update(run.calls)
        self._calls.update(dict.fromkeys(run.calls, run))  # first: they may be answered at once
        try:
            line.end.send(packets.encode(packet))
        except (OSError, ValueError):  # full, or the worker is gone, or text that can't be encoded
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
        """Let the run go through the server, behind all that was sent. Holds the lock."""
        line.is_granted, run.is_withdrawn = False, True
        latest, last = max(run.calls), self._last.get(line.actor)
        if line.actor == NO_ACTOR:
            self._task_goes_through_server(latest)
        elif last is not None:  # sent at the run's place in the queue, so `order_epoch` still holds
            self._last[line.actor] = latest, last[1]
        self._connection.hurry()

    def push(self) -> None:
        """Send the packed runs of all lines. Any thread."""
        for line in list(self._by_actor.values()):
            if line.packed is not None:
                with self.lock:
                    self._send(line)

    def note_joined(self, task: int) -> None:
        """Note a task that joins the message of one already noted. Holds the lock."""
        self._latest = max(self._latest, task)

    def goes_through_server(self, actor: int, task: int) -> None:
        """Note that a call of the actor, or a task, is about to be sent to the server."""
        with ki_protection(), self.lock:
            if actor == NO_ACTOR:
                return self._task_goes_through_server(task)
            self._last[actor] = task, self._connection.order_epoch
            if len(self._last) > MOST_ACTORS:
                del self._last[next(iter(self._last))]
            line = self._by_actor.get(actor)
            if line is not None:
                line.is_granted = False
        return None

    def _task_goes_through_server(self, task: int) -> None:
        """Note a task that goes through the server. Holds the lock."""
        order_epoch = self._connection.order_epoch
        if self._order_epoch != order_epoch:
            # Tasks that other threads are about to send may have lower numbers.
            self._order_epoch, self._fresh = order_epoch, max(task, self._latest + 1)
            line = self._by_actor.get(NO_ACTOR)
            if line is not None:
                line.is_granted = False
        self._latest = max(self._latest, task)

    def note_batch(self, actor: int, first: int, last: int) -> None:
        with self.lock:
            known = self._last.get(actor)
            if known is not None and known[0] == first:
                self._last[actor] = last, known[1]

    def unheard(self, run: CallRun, nbytes: int) -> ev.Unheard | None:
        """Count bytes of results of calls that the server never hears of; return a message if it is
        time to tell it how many. Holds the writer's lock."""
        line = run.line
        line.unheard += nbytes - run.unheard
        run.unheard = nbytes
        if line.unheard < MOST_UNHEARD:
            return None
        message, line.unheard = ev.Unheard(line.number, line.unheard), 0
        return message

    def last_unheard(self, number: int) -> ev.Unheard | None:
        """Return what `unheard` hasn't told yet, to be sent before LineClosed: the worker may live
        and get another line. Holds the writer's lock."""
        found = [line for line in self._ended_last.values() if line.number == number]
        return ev.Unheard(number, found[0].unheard) if found and found[0].unheard else None

    def forget(self, actor: int) -> None:
        """Forget the ended line of an actor whose handle is gone. An open line stays: a later task
        may bring another handle."""
        self._ended_last.pop(actor, None)

    def abandon(self) -> None:
        """Close the lines, sending nothing: the session is over, or it is the parent's."""
        for line in self._by_actor.values():
            line.end.close()

    # -- the reading thread -----------------------------------------------------------------------

    def _offered(self, parcel: Parcel) -> None:
        message: do.Offer = parcel.message
        end = packets.open_end(parcel.fds)
        self._connection.send(ev.Attached(message.line, end is not None))  # before any call by it
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
        """Read the packets that have come. May leave the line's end to the next time: one more
        read costs more than all else that is done here per call."""
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
                self.unreported_tasks.update(run.calls)
                self._withdraw(line, run)
        self._connection.unwatch(line.end.fileno())

    def _take(self, packet: bytes) -> None:
        message = packets.decode_answer(packet)
        if type(message) is packets.ResultPacket:
            self._came(message.results)
        elif type(message) is packets.ToldPacket:
            self._connection.hurry()  # the server asks for the result when it knows the call
        elif type(message) is ev.Output:
            known, show = self._calls.get(message.task), self._handlers.get(ev.Output)
            if self._is_worker:
                self._connection.ordered_sent += 1  # the server must know of it first
                if known is not None:
                    known.shown.add(message.task)
            elif show is not None:
                show(message)

    def _came(self, results: list[tuple[int, bytes, bool]]) -> None:
        values: dict[int, ev.Value] = {}
        run = None
        with self.lock:
            for task, header, failed in results:
                run = self._calls.pop(task, None)
                if run is not None:
                    plain = header == b"N" and not failed
                    values[task] = value = _NONE if plain else ev.Value(header, failed=failed)
                    run.answers[task] = value  # `OutgoingTranslator` sets `is_reported` first
                    if run.is_reported:
                        self._connection.defer(ev.Settled(task, value))
                    self._count_out(run)
            if run is not None and run.line.is_due:
                self._send(run.line)
        self._objects.ready(values)

    def _count_out(self, run: CallRun) -> None:
        """Count one more answered call of the run. Holds the lock."""
        line = run.line
        line.unanswered -= 1
        if run.is_over:
            line.unanswered_bytes -= run.nbytes
            self._connection.runs_answered += 1
            run.answer_number = self._connection.runs_answered

    def ready(self, values: dict[int, ev.Value]) -> None:
        """Take answers that came from the server."""
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
        """Close the line of a worker that is gone: all its answers have arrived."""
        for line in list(self._by_actor.values()):
            if line.number == message.line:
                with self.lock:
                    line.is_granted = False
                self._read(line)
                if not line.has_ended:  # a process that it forked holds the other end, too
                    self._hung_up(line)
                self._ended_last[line.actor] = line  # first: its calls may just be translated
                del self._by_actor[line.actor]
                line.end.close()
                unbegun = 0
                for number, task in line.open():
                    self._calls.pop(task, None)
                    if number > message.begun >= 0:
                        unbegun = unbegun or task
                self._connection.send(ev.LineClosed(line.number, unbegun))


_NONE = ev.Value(b"N")
