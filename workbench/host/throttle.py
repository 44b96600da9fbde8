"""Rate limits of output, per task and per process, and what is left out. Pure: time is passed in.

A notebook keeps all that a cell shows, and its kernel has to pass it on while it runs other
cells. So output that nobody would read isn't sent: states of a progress bar that were overwritten
at once, figures that were cleared, and the middle of a flood.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from workbench.core.logs import NOT_SHOWN, TEXT
from workbench.format import human_bytes
from workbench.host.text_cuts import line_end, line_start, overwritten

Shown = tuple[str, bytes]
"""A message to send: its kind and its content."""


VISIBLE = ("display", *TEXT)
"""Kinds that stay visible under their cell until a clear."""


class Limits:
    """How much a task may show, from three numbers. Usual output is far below.

    Two floods at a time stay below the limit of Jupyter's server: 3 MB of text in three seconds.
    Beyond that it passes on no output of any cell for a while.

    A task may show ``burst`` bytes of text as fast as it likes; then ``rate`` bytes a second, which
    halves after every four bursts. Likewise ``displays`` at once, then a hundredth of them a
    second.
    """

    def __init__(self, burst: int = 1_000_000, rate: int = 128_000, displays: int = 500) -> None:
        self.burst, self.rate, self.displays = burst, rate, displays
        self.kept = rate // 2  # bytes of each stream's latest text, shown at the task's end
        self.least = rate // 32  # the same when the process has no room left
        self.full = 2 * rate  # most bytes that wait. Also the usual size of a display
        self.display_rate = displays / 100  # a second
        self.kept_displays = displays / 25  # the latest, shown at the task's end

    def rate_after(self, shown: int) -> int:
        return max(self.rate >> shown // (4 * self.burst), self.rate // 128)


LIMITS = Limits()


class Bucket:
    """A token bucket: room for ``size`` at once, refilled at ``rate`` a second."""

    def __init__(self, size: float, rate: float, now: float) -> None:
        self.rate = rate
        self._size = self._room = size
        self._at = now

    def room(self, now: float) -> float:
        self._room = min(self._room + (now - self._at) * self.rate, self._size)
        self._at = now
        return self._room

    def take(self, amount: float) -> None:
        """Use up some room; ``amount`` may exceed it, as some output is always allowed."""
        self._room = max(self._room - amount, 0)


def process_room(now: float) -> Bucket:
    """Return the room for text of all tasks of a process, so that small floods don't add up."""
    return Bucket(16 * LIMITS.burst, 4 * LIMITS.rate, now)


@dataclass(eq=False, slots=True)
class Pending:
    """Something that waits to be sent; without data it was left out."""

    kind: str
    data: bytes
    key: str = ""


has_data = attrgetter("data")


class Throttle:
    """Output of one task, between the task and the socket. Keeps the order of all kinds.

    ``process`` is its process's room for text; ``now``, here and in all methods, is in seconds of
    any clock.
    """

    def __init__(self, process: Bucket, now: float, limits: Limits = LIMITS) -> None:
        self._process = process
        self._limits = limits
        self._text = Bucket(limits.burst, limits.rate, now)
        self._displays = Bucket(limits.displays, limits.display_rate, now)
        self._pending: list[Pending] = []
        self.pending_bytes = 0
        self._is_condensed = True  # nothing came since `_condense`
        self._lost = dict.fromkeys((*TEXT, "display"), 0)  # and not noted yet
        self._mid_line = dict.fromkeys(TEXT, False)  # where the text that was sent ends
        self._shown = 0
        self._held = False  # the last `take` held back an unfinished line

    def __bool__(self) -> bool:
        return bool(self._pending) or any(self._lost.values())

    @property
    def is_full(self) -> bool:
        """True if `take` should be called: it sends some, or leaves some out."""
        if self.pending_bytes >= self._limits.full:
            self._condense()  # often much less is left
        return self.pending_bytes >= self._limits.full

    def waiting(self) -> list[Shown]:
        """Return what is neither sent nor left out yet."""
        return [(piece.kind, piece.data) for piece in self._pending if piece.data]

    # -- in ---------------------------------------------------------------------------------------

    def add(self, kind: str, data: bytes, key: str = "") -> None:
        """Add something that the task shows: text, a display, an update, a clear, or another kind.

        ``key`` of an update: what it changes, a display or some traits of a widget.
        """
        if data:
            self._is_condensed = False
            self.pending_bytes += len(data)
            self._pending.append(Pending(kind, data, key))

    def skip(self, kind: str, size: int) -> None:
        """Count bytes of a stream that were left out before they came here."""
        self._condense()
        self._cut(kind, 0)  # so that one note counts all
        self._lost[kind] += size

    def _condense(self) -> None:
        """Leave out what was cleared, updated or overwritten meanwhile; join neighbouring text."""
        if self._is_condensed:
            return
        self._is_condensed = True
        shown: list[Pending] = []
        updates: dict[str, Pending] = {}
        waiting: Pending | None = None  # a clear that waits for something to come after it
        for piece in self._pending:
            if piece.kind == "clear":
                if waiting is not None:
                    shown.remove(waiting)
                waiting = piece if json.loads(piece.data).get("wait") else None
                if waiting is None:
                    shown = self._cleared(shown)
            elif waiting is not None and piece.kind in VISIBLE:
                end = shown.index(waiting)
                shown[:end] = self._cleared(shown[:end])
                waiting = None
            elif piece.key:
                if piece.key in updates:
                    updates[piece.key].data = b""
                updates[piece.key] = piece
            shown.append(piece)
        self._pending = []
        for kind, group in groupby(filter(has_data, shown), attrgetter("kind")):
            if kind in TEXT:
                text = overwritten(b"".join(piece.data for piece in group))
                self._pending.append(Pending(kind, text))
            else:
                self._pending.extend(group)
        self._count()

    def _cleared(self, pieces: list[Pending]) -> list[Pending]:
        """Drop what a clear removes. Keep updates: they may be of another cell's display."""
        self._lost = dict.fromkeys(self._lost, 0)
        self._mid_line = dict.fromkeys(TEXT, False)
        return [piece for piece in pieces if piece.kind not in ("clear", *VISIBLE)]

    # -- out --------------------------------------------------------------------------------------

    def take(self, now: float) -> list[Shown]:
        """Return what may be sent now: all that waits, or in a flood some of it once a second.

        An unfinished line is left for the next time, once. In a flood the latest text waits, too:
        if the task ended now, it would be shown together with what came just before it.
        """
        self._condense()
        limits, size, cost = self._limits, self._size(*TEXT), self._cost()
        self._text.rate = rate = limits.rate_after(self._shown)
        text = int(min(self._text.room(now), self._process.room(now)))
        displays = self._displays.room(now)
        if size <= text and cost <= displays:
            line = self._last_line()
            self._held = bool(line)
            return self._send(self._pending, line)
        second = min(rate, limits.kept)
        if text >= min(size, second) and displays >= min(cost, limits.display_rate):
            self._trim(text + max(second, limits.least), displays + limits.kept_displays)
            return self._send(*self._split(text, displays))
        if self.is_full:
            self._trim(limits.kept, limits.kept_displays)
        return []

    def end(self, now: float) -> list[Shown]:
        """Return what to send at the task's end: always includes the end of its text."""
        self._condense()
        limits, shared = self._limits, self._process.room(now)
        always = limits.kept if shared >= limits.kept else limits.least
        text = max(always, int(min(self._text.room(now), shared)))
        self._trim(text, max(self._displays.room(now), limits.kept_displays))
        return self._send(self._pending, [])

    def _count(self) -> None:
        self.pending_bytes = sum(len(piece.data) for piece in self._pending)

    def _size(self, *kinds: str) -> int:
        return sum(len(piece.data) for piece in self._pending if piece.kind in kinds)

    def _cost(self) -> float:
        return sum(map(self._cost_of, self._pending))

    def _cost_of(self, piece: Pending) -> float:
        """Return a piece's cost in displays: of an update only its bytes; at most the limit."""
        if piece.kind not in ("display", "update") or not piece.data:
            return 0
        cost = len(piece.data) / self._limits.full
        return min(max(cost, piece.kind == "display"), self._limits.displays)

    def _last_line(self) -> list[Pending]:
        """Take off the text's last line if it is unfinished and wasn't held back before."""
        last = self._pending[-1] if self._pending else None
        if last is None or last.kind not in TEXT or last.data.endswith(b"\n"):
            return []
        start = last.data.rfind(b"\n") + 1
        if self._held and not start:
            return []
        line = Pending(last.kind, last.data[start:])
        last.data = last.data[:start]
        return [line]

    def _split(self, text: int, displays: float) -> tuple[list[Pending], list[Pending]]:
        """Split what waits into what there is room for and the rest."""
        pending = list(filter(has_data, self._pending))
        for place, piece in enumerate(pending):
            text -= len(piece.data) if piece.kind in TEXT else 0
            displays -= self._cost_of(piece)
            if text < 0 and piece.kind in TEXT:
                end = line_end(piece.data, len(piece.data) + text)
                rest = Pending(piece.kind, piece.data[end:])
                piece.data = piece.data[:end]
                return pending[: place + 1], [rest, *pending[place + 1 :]]
            if displays < 0:
                return pending[:place], pending[place:]
        return pending, []

    def _send(self, pieces: list[Pending], rest: list[Pending]) -> list[Shown]:
        """Return these, with notes of what was left out, as sent; the rest goes on waiting."""
        shown: list[Shown] = []
        size = 0
        for piece in filter(has_data, pieces):
            kind, data, note = piece.kind, piece.data, self._note(piece.kind)
            if kind in TEXT:
                self._mid_line[kind] = not data.endswith(b"\n")
                size += len(data)
                data = note + data
            elif note:
                shown.append(("stderr", note))
            shown.append((kind, data))
        self._text.take(size)
        self._process.take(size)
        self._displays.take(sum(map(self._cost_of, pieces)))
        self._shown += size
        for kind in self._lost:
            waits = any(piece.kind == kind for piece in rest)  # then the note comes before that
            if not waits and (note := self._note(kind)):
                shown.append((kind if kind in TEXT else "stderr", note))
        self._pending = rest
        self._count()
        return shown

    def _note(self, kind: str) -> bytes:
        """Return the note to show before the next piece of a kind, or nothing."""
        lost = self._lost.get(kind)
        if not lost:
            return b""
        self._lost[kind] = 0
        if kind == "display":
            return f"[{lost} display{'s' * (lost > 1)}".encode() + NOT_SHOWN
        begin = "\n" if self._mid_line[kind] else ""
        self._mid_line[kind] = False
        return f"{begin}[{human_bytes(lost)}".encode() + NOT_SHOWN

    # -- what is left out -------------------------------------------------------------------------

    def _trim(self, text: int, displays: float) -> None:
        """Leave out the oldest pieces, until no more than this waits.

        A stream that shows little isn't cut because of one that shows much.
        """
        one, two = map(self._size, TEXT)
        if one + two > text:
            for kind, other in zip(TEXT, (two, one), strict=True):
                self._cut(kind, max(text // 2, text - other))
        excess = self._cost() - displays
        for piece in self._pending:
            if excess > 0 and piece.kind == "display" and piece.data:
                excess -= self._cost_of(piece)
                piece.data = b""
                self._lost["display"] += 1
        self._count()

    def _cut(self, kind: str, size: int) -> None:
        """Keep about ``size`` bytes of a stream, the last ones, from the beginning of a line on."""
        excess = self._size(kind) - size
        for piece in self._pending:
            if excess <= 0:
                return
            if piece.kind == kind:
                length = len(piece.data)
                cut = length if excess >= length else line_start(piece.data, excess)
                piece.data = piece.data[cut:]
                self._lost[kind] += cut
                excess -= cut
