"""The lines by which other processes call this worker, an actor's or a leased one: calls come in,
results go out.

A call runs like one from the server. Its result goes straight to the caller only if the server has
already heard all that this process has sent (`Connection.ordered_sent`).
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count, repeat
from typing import Any

from workbench.client.arena_writer import Claims
from workbench.client.base import ClientBase
from workbench.client.outgoing_translator import Beside
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.events import Output
from workbench.wire import packets
from workbench.wire.buffers import Parcel
from workbench.worker.remains import LineNotes

MOST_PACKED = 64
"""Most results in one packet."""

BESIDE = 20
"""Bytes of a packet for each result, beside its header."""

LARGEST_RESULT = packets.LARGEST_PACKET // 2
"""Most bytes of a result that goes by a line."""

SYNC = -1
"""Request number of asking whether the server has handled all that was sent."""


@dataclass(slots=True, eq=False)
class IncomingLine:
    """Our end of one caller's line, with its unanswered calls."""

    number: int
    end: socket.socket
    is_open: bool = True  # its caller is alive, as far as known
    has_ended: bool = False  # nothing more comes
    is_lease: bool = False
    objects: dict[int, ev.Value] = field(default_factory=dict)  # that may be arguments: see `Lent`
    is_closing: bool = False  # given back once none of its calls runs
    running: int = 0  # calls that came and aren't over
    begins: Callable[[int], object] = bool  # see `LineNotes`
    runs: deque[IncomingRun] = field(default_factory=deque)  # in their order
    packed: list[tuple[int, bytes, bool]] = field(default_factory=list)  # results to be sent
    packed_bytes: int = 0


@dataclass(slots=True, eq=False)
class IncomingRun:
    """Calls that came in one packet, kept until the server knows their results."""

    line: IncomingLine
    tasks: list[int]
    last: int  # number of the last one
    left: int  # calls that aren't over
    form: ev.CallForm


@dataclass(eq=False)
class IncomingCalls:
    """Incoming lines. ``_add`` queues calls; ``_takes_lines()``: calls may come by lines;
    ``_flushes()``: more results follow, and whoever runs the calls calls `flush` soon.

    All but `output` and `answer` runs in the reading thread.
    """

    _base: ClientBase
    _add: Callable[[list[do.Run]], None]
    _takes_lines: Callable[[], bool]
    _is_actor: Callable[[], bool]
    _flushes: Callable[[], bool]
    _stop: Callable[[do.Stop], None]
    _notes: LineNotes

    def __post_init__(self) -> None:
        self._connection = self._base.connection
        self._is_packing = False  # results are packed, or about to be
        self._lines: dict[int, IncomingLine] = {}
        self._lent: dict[int, dict[int, ev.Value]] = {}  # by line, before it comes: see `Lent`
        # By task: calls whose end the server may not know, with their numbers; results of finished
        # ones; what must live until the server, which will ask for the result, has it; tasks
        # whose result it has asked for.
        self._calls: dict[int, tuple[IncomingRun, int]] = {}
        self._done: dict[int, ev.Done] = {}
        self._kept: dict[int, tuple[Claims, Any]] = {}
        self._reported: set[int] = set()
        self._lock = threading.RLock()  # guards results
        self._known = -1  # the server has handled this much of `Connection.ordered_sent`
        self._asked = -1  # the same, once it has answered all our requests
        self._asks: deque[int] = deque()  # the same, for each pending request
        self._answer = self._base.handlers[do.Answer]
        self._base.handlers |= {
            do.Lent: self._note_lent,
            do.Attach: self._attach,
            do.Report: self._report,
            do.Detach: self._detach,
            do.TakeBack: self._take_back,
            do.Answer: self._synced,
        }

    # -- the reading thread -----------------------------------------------------------------------

    def _note_lent(self, message: do.Lent) -> None:
        line = self._lines.get(message.line)
        objects = self._lent.setdefault(message.line, {}) if line is None else line.objects
        objects.update(zip(message.objects, message.values, strict=True))

    def _attach(self, parcel: Parcel) -> None:
        number = parcel.message.line
        objects = self._lent.pop(number, {})
        end = packets.open_end(parcel.fds)
        good = end is not None and self._takes_lines()
        if end is not None and good:
            line = IncomingLine(number, end, is_lease=not self._is_actor(), objects=objects)
            self._lines[number] = line
            if not line.is_lease:
                line.begins = self._notes.add(number)
            # Up to a packet with one call: mostly nothing follows, and the next poll tells.
            self._connection.watch(end.fileno(), partial(self._read, line, 2))
        elif end is not None:
            end.close()
        self._connection.send(ev.Attached(number, good))

    def read(self) -> None:
        """Read all lines: what has come by them goes before the server's next message."""
        for line in self._lines.values():
            self._read(line)

    def _read(self, line: IncomingLine, fewest: int = 0) -> None:
        """Read all packets that have come, or up to the first one with fewer calls."""
        count = fewest
        while not line.has_ended and count >= fewest:
            packet = packets.receive(line.end)
            if packet is None:
                return
            if packet:
                call = packets.decode_call(packet)
                count = len(call.tasks)
                self._came(line, call)
            else:
                line.has_ended = True
                self._connection.unwatch(line.end.fileno())

    def _came(self, line: IncomingLine, call: packets.CallPacket) -> None:
        runs = line.runs
        while runs and runs[0].last <= call.known and not runs[0].left:
            for task in runs.popleft().tasks:
                if task not in self._kept:
                    self._forget(task)
        tasks, size, form = call.tasks, len(call.tasks), call.form
        root = form.root or form.parent  # of the calling task; 0 if none
        if size > 1:  # the thread that runs them reads the rest
            self._connection.is_crowded = True
        values = tuple([line.objects[id] for id in form.deps])
        run = IncomingRun(line, tasks, call.number + size - 1, size, form)
        with self._lock:
            line.running += size
            runs.append(run)
        self._calls.update(zip(tasks, zip(repeat(run), count(call.number)), strict=False))
        what = form.deps, values, 1, form.name, form.origin, form.method, True, None, 0, 0
        of, function, pairs = line.number, form.function, zip(tasks, call.args, strict=True)
        self._add([do.Run(task, function, args, *what, of, root) for task, args in pairs])

    def _forget(self, task: int) -> None:
        self._calls.pop(task, None)
        self._done.pop(task, None)
        self._reported.discard(task)

    def _take_back(self, message: do.TakeBack) -> None:
        line = self._lines.get(message.line)
        if line is not None:
            with contextlib.suppress(OSError):  # its caller is gone
                line.end.shutdown(socket.SHUT_RD)
            self._read(line)  # what was sent before; the caller can't send any more
            self._close(line)

    def _close(self, line: IncomingLine) -> None:
        with self._lock:
            was, line.is_closing = line.is_closing, True
            is_over = not line.running
            self._send_packed(line)
            if not was and (is_over or line.objects):
                kept = set[int]().union(*(run.form.deps for run in line.runs if run.left))
                self._connection.send(ev.Returned(line.number, is_over, tuple(kept)))

    def _report(self, message: do.Report) -> None:
        self.read()
        if message.task in self._calls:
            with self._lock:
                self._reported.add(message.task)
                if message.task in self._done:
                    self._tell(message.task)
        else:  # the caller has told the server already
            self._connection.post(ev.Done(message.task, (), 0.0))

    def _tell(self, task: int) -> None:
        claims, kept = self._kept.pop(task, ([], None))
        claims.clear()  # the server's business now
        self._connection.send(self._done[task])
        del kept
        self._forget(task)

    def _detach(self, message: do.Detach) -> None:
        line = self._lines.pop(message.line, None)
        if line is None:
            return
        self._notes.remove(line.number)
        line.begins = bool
        self._read(line)
        if not line.has_ended:
            self._connection.unwatch(line.end.fileno())
        with self._lock:
            line.is_open = False
            line.end.close()
            calls = list(self._calls.items())
            tasks = [task for task, (run, _) in calls if run.line is line]
            for task in tasks:
                if task in self._done:
                    self._let_go(task)
        if line.is_lease:  # its caller is gone
            for task in tasks:
                if task in self._calls and task not in self._reported:  # nobody wants its result
                    self._stop(do.Stop(task))
        if line.is_lease or line.objects:
            self._close(line)

    def _let_go(self, task: int) -> None:
        """Drop a result that nobody will ask for."""
        claims, _ = self._kept.pop(task, ([], None))
        self._base.arena.withdraw(claims)
        self._forget(task)

    def _synced(self, message: do.Answer) -> None:
        if message.request == SYNC:
            self._known = self._asks.popleft()
        else:
            self._answer(message)

    # -- where the call runs ----------------------------------------------------------------------

    def begins(self, task: int) -> None:
        """Note that a call begins: if this process dies, those behind it are known as unbegun."""
        known = self._calls.get(task)
        if known is not None:
            run, number = known
            run.line.begins(number)

    def output(self, output: Output) -> None:
        """Queue what a task shows. Any thread."""
        known = self._calls.get(output.task)
        if known is None:
            self._connection.put(output)
            return
        run, data = known[0], output.data
        if run.form.parent:  # of a worker: the server relays it, and has to be told of the call
            data = b""
            self._connection.put(output)
        shown = Output(output.task, output.kind, data, run.form.origin, self._base.worker)
        self._connection.ordered_sent += 1  # the result must come behind it
        self._connection.put(ev.Relay(run.line.number, packets.encode(shown)))

    def answer(self, done: ev.Done, claims: Claims, kept: Any) -> None:
        """Send a call's result to its caller, and to the server if that has asked for it."""
        task = done.task
        run, _ = self._calls[task]
        line = run.line
        (value,) = done.values
        usual = not (value.segment or value.contains or done.abouts or done.again or done.threads)
        goes = usual and len(value.header) <= LARGEST_RESULT
        with self._lock:
            if not goes:  # its refs mustn't be dropped before the server has it
                self._kept[task] = claims, kept
            self._done[task] = done
            if task in self._reported:
                self._tell(task)
            elif not line.is_open:
                self._let_go(task)
            if line.is_open and goes:
                self._pack(line, (task, value.header, value.failed))
            elif line.is_open:
                self._send(line, packets.ToldPacket(task))
            run.left -= 1
            line.running -= 1
            is_over = line.is_closing and not line.running
            if is_over:
                self._send_packed(line)
        if is_over:
            self._connection.send(ev.Returned(line.number))

    @property
    def has_kept(self) -> bool:
        """True if results are kept for which the server will ask."""
        return bool(self._kept)

    def _pack(self, line: IncomingLine, result: tuple[int, bytes, bool]) -> None:
        """Send a result, alone or packed with those that follow soon."""
        if self._connection.ordered_sent != self._known:
            self._send(line, packets.ResultPacket([result]))
            return
        if line.packed_bytes + len(result[1]) + BESIDE > packets.LARGEST_PACKET:
            self._send_packed(line)
        line.packed.append(result)
        line.packed_bytes += len(result[1]) + BESIDE
        if not self._flushes() or len(line.packed) >= MOST_PACKED:
            self._send_packed(line)
        elif not self._is_packing:  # if the next call takes long, the connection's thread sends it
            self._is_packing = True
            self._connection.defer(Beside(self.flush))

    def flush(self) -> None:
        """Send the packed results. Any thread."""
        if self._is_packing:
            with self._lock:
                self._is_packing = False
                for line in list(self._lines.values()):
                    self._send_packed(line)

    def _send_packed(self, line: IncomingLine) -> None:
        """Send the line's packed results. Holds the lock."""
        results, line.packed, line.packed_bytes = line.packed, [], 0
        if results and line.is_open:
            self._send_now(line, packets.ResultPacket(results))

    def _send(self, line: IncomingLine, packet: Any) -> None:
        if self._connection.ordered_sent == self._known:
            self._send_packed(line)
            self._send_now(line, packet)
        else:
            self._relay(line, packets.encode(packet))

    def _send_now(self, line: IncomingLine, packet: Any) -> None:
        data = packets.encode(packet)
        try:
            line.end.send(data)
        except OSError:  # full, or the caller is gone
            self._relay(line, data)

    def _relay(self, line: IncomingLine, data: bytes) -> None:
        sent = self._connection.ordered_sent
        self._connection.send(ev.Relay(line.number, data))
        if self._asked != sent:
            self._asked = sent
            self._asks.append(sent)
            self._connection.post(ev.Ask(SYNC))
        self._connection.push()
