"""Rate limits of output, per task and per process, and what is left out. Pure: time is passed in.

A notebook keeps all that a cell shows, and its kernel has to pass it on while it runs other
cells. So what nobody would read is not sent: states of a progress bar that were overwritten at
once, figures that were cleared, and of a flood the middle.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby

from workbench.host.texts import line_end, line_start, overwritten
from workbench.units import human_bytes

TEXT = ("stdout", "stderr")
"""Kinds of output that are prints."""

Shown = tuple[str, bytes]
"""What is sent: a kind, and its content."""


@dataclass(frozen=True)
class Limits:
    """What a task may show; all else follows from these three. What is usual is far below.

    Two floods at a time stay below what Jupyter's server lets through: 3 MB of text in three
    seconds. With more it passes on nothing at all for a while, of no cell.

    Attributes
    ----------
    burst : int
        Bytes of text that a task may show as fast as it likes. Each time that it has shown four
        times as much, the rate halves.
    rate : int
        Bytes of text a second when the burst is used up.
    displays : int
        Displays that a task may show as fast as it likes; then a hundredth of it a second.
    """

    burst: int = 1_000_000
    rate: int = 128_000
    displays: int = 500

    @property
    def kept(self) -> int:
        """Bytes of each stream's latest text that are kept, and shown at the task's end."""
        return self.rate // 2

    @property
    def least(self) -> int:
        """The same when the process has no room left: it runs many tasks that show much."""
        return self.rate // 32

    @property
    def full(self) -> int:
        """Bytes that wait for the next time; with more it isn't waited. A larger display counts
        as several."""
        return 2 * self.rate

    @property
    def display_rate(self) -> float:
        """Displays a second when those that are free are used up."""
        return self.displays / 100

    @property
    def kept_displays(self) -> float:
        """How many of the latest displays are kept, and shown at the task's end."""
        return self.displays / 25

    def rate_after(self, shown: int) -> int:
        """Bytes of text a second for a task that has shown so many, beyond its burst."""
        return max(self.rate >> shown // (4 * self.burst), self.rate // 128)


LIMITS = Limits()


class Bucket:
    """A token bucket: room for so much at once, which comes back at some rate."""

    def __init__(self, size: float, now: float) -> None:
        self._size = self._room = size
        self._at = now

    def room(self, now: float, rate: float) -> float:
        """What there is room for, now that ``rate`` a second have come back since the last look."""
        self._room = min(self._room + (now - self._at) * rate, self._size)
        self._at = now
        return self._room

    def take(self, amount: float) -> None:
        """Use some of it up; what is always allowed may be more than there is."""
        self._room = max(self._room - amount, 0)


class ProcessRoom:
    """What all tasks of one process share, so that many small floods aren't a large one.

    Sixteen bursts of text, and then the rate of four tasks.
    """

    def __init__(self, now: float, limits: Limits = LIMITS) -> None:
        self._bucket = Bucket(16 * limits.burst, now)
        self._rate = 4 * limits.rate
        self.take = self._bucket.take

    def room(self, now: float) -> float:
        """Bytes of text."""
        return self._bucket.room(now, self._rate)


class Pending:
    """Something that waits to be sent; without data it doesn't any more."""

    __slots__ = ("data", "kind")

    def __init__(self, kind: str, data: bytes) -> None:
        self.kind = kind
        self.data = data


class Throttle:
    """What one task shows, between the task and the socket. The order of all kinds is kept.

    Parameters
    ----------
    process : ProcessRoom
        Its process's room for text.
    now : float
        Seconds of any clock, as in all methods.
    limits : Limits, optional
        Others than the usual ones.
    """

    def __init__(self, process: ProcessRoom, now: float, limits: Limits = LIMITS) -> None:
        self._process = process
        self._limits = limits
        self._text = Bucket(limits.burst, now)
        self._displays = Bucket(limits.displays, now)
        self._pending: list[Pending] = []
        self._updates: dict[str, Pending] = {}  # those that wait, by what they change
        self._waiting: Pending | None = None  # a clear that waits for something to come after it
        self._sizes = dict.fromkeys(TEXT, 0)  # bytes of text that wait
        self._other = 0  # bytes of all else that waits
        self._lost = dict.fromkeys((*TEXT, "display"), 0)  # and not told yet
        self._mid_line = dict.fromkeys(TEXT, False)  # where the text that was sent ends
        self._shown = 0
        self._held = False  # the last line, at the last `take`
        self._settled = True  # nothing came since `_settle`

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._pending) or any(self._lost.values())

    @property
    def pending_bytes(self) -> int:
        """How much waits."""
        return self._size + self._other

    @property
    def is_full(self) -> bool:
        """Whether it is time for `take`: it sends some, or leaves some out."""
        return self.pending_bytes >= self._limits.full

    # -- in ---------------------------------------------------------------------------------------

    def add(self, kind: str, data: bytes, key: str = "") -> None:
        """The task shows something: text, a display, an update, a clear, or any other kind.

        ``key``: of an update, what it changes: a display, or some traits of a widget.
        """
        if not data:
            return
        self._settled = False
        piece = Pending(kind, data)
        if kind == "clear":
            self._clear(piece)
        elif kind == "display" or kind in TEXT:
            if self._waiting is not None:  # something takes the place of what it clears
                self._erase(self._pending.index(self._waiting))
        elif key:
            if key in self._updates:
                self._remove(self._updates[key])
            self._updates[key] = piece
        if kind in TEXT:
            self._sizes[kind] += len(data)
        else:
            self._other += len(data)
        self._pending.append(piece)

    def skip(self, kind: str, size: int) -> None:
        """So many bytes of a stream were left out before they came here."""
        self._cut(kind, 0)  # so that one note tells it all
        self._lost[kind] += size

    def _clear(self, piece: Pending) -> None:
        if self._waiting is not None:
            self._remove(self._waiting)
            self._waiting = None
        if json.loads(piece.data).get("wait"):
            self._waiting = piece
        else:
            self._erase(len(self._pending))

    def _erase(self, end: int) -> None:
        """Nobody will see what waits before a clear. But an update may be of another cell's."""
        seen = []
        for piece in self._pending[:end]:
            if piece.kind in ("display", "clear", *TEXT):
                self._remove(piece)
            else:
                seen.append(piece)
        self._pending[:end] = seen
        self._waiting = None
        self._lost = dict.fromkeys(self._lost, 0)
        self._mid_line = dict.fromkeys(TEXT, False)

    def _remove(self, piece: Pending) -> None:
        if piece.kind in TEXT:
            self._sizes[piece.kind] -= len(piece.data)
        else:
            self._other -= len(piece.data)
        piece.data = b""

    # -- out --------------------------------------------------------------------------------------

    def take(self, now: float) -> list[Shown]:
        """What may be sent now: all that waits, or, in a flood, something about once a second.

        A line that isn't over is left for the next time, once. In a flood, what comes last waits
        too: should the task end now, it is shown together with what was just before it.
        """
        self._settle()
        limits = self._limits
        rate = limits.rate_after(self._shown)
        text = int(min(self._text.room(now, rate), self._process.room(now)))
        displays = self._displays.room(now, limits.display_rate)
        if self._size <= text and self._cost <= displays:
            line = self._last_line()
            self._held = bool(line)
            return self._send(self._pending, line)
        second = min(rate, limits.kept)
        if text >= min(self._size, second) and displays >= min(self._cost, limits.display_rate):
            self._trim(text + max(second, limits.least), displays + limits.kept_displays)
            return self._send(*self._split(text, displays))
        if self.is_full:
            self._trim(limits.kept, limits.kept_displays)
        return []

    def end(self, now: float) -> list[Shown]:
        """The task is over: what is left to be sent, the end of its text in any case."""
        self._settle()
        limits, shared = self._limits, self._process.room(now)
        always = limits.kept if shared >= limits.kept else limits.least
        text = max(always, int(min(self._text.room(now, limits.rate), shared)))
        displays = self._displays.room(now, limits.display_rate)
        self._trim(text, max(displays, limits.kept_displays))
        return self._send(self._pending, [])

    @property
    def _size(self) -> int:
        return sum(self._sizes.values())

    @property
    def _cost(self) -> float:
        return sum(map(self._cost_of, self._pending))

    def _cost_of(self, piece: Pending) -> float:
        """In displays: an update costs only its bytes, and nothing more than may be shown."""
        if piece.kind not in ("display", "update") or not piece.data:
            return 0
        limits = self._limits
        cost = len(piece.data) / limits.full
        return min(max(cost, piece.kind == "display"), limits.displays)

    def _settle(self) -> None:
        """Join neighbouring text, and leave out what was overwritten in it."""
        if self._settled:
            return
        self._settled = True
        pending: list[Pending] = []
        for kind, group in groupby(filter(has_data, self._pending), lambda piece: piece.kind):
            if kind in TEXT:
                text = b"".join(piece.data for piece in group)
                data = overwritten(text)
                self._sizes[kind] -= len(text) - len(data)
                pending.append(Pending(kind, data))
            else:
                pending.extend(group)
        self._pending = pending

    def _last_line(self) -> list[Pending]:
        """The end of the text, taken off, if that is a line which isn't over, and a new one."""
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
        """What waits: as much as there is room for, and the rest."""
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
        """Send these with notes of what was left out; the rest goes on waiting."""
        shown: list[Shown] = []
        size = 0
        for piece in filter(has_data, pieces):
            shown += self._notes(piece.kind)
            shown.append((piece.kind, piece.data))
            if piece.kind in TEXT:
                self._mid_line[piece.kind] = not piece.data.endswith(b"\n")
                size += len(piece.data)
        self._text.take(size)
        self._process.take(size)
        self._displays.take(sum(map(self._cost_of, pieces)))
        self._shown += size
        for kind in self._lost:
            if not any(piece.kind == kind for piece in rest):  # else it is said before that
                shown += self._notes(kind)
        self._pending = rest
        self._updates = {}
        self._waiting = self._waiting if self._waiting in rest else None
        self._sizes = {
            kind: sum(len(piece.data) for piece in rest if piece.kind == kind) for kind in TEXT
        }
        self._other = sum(len(piece.data) for piece in rest if piece.kind not in TEXT)
        return joined(shown)

    def _notes(self, kind: str) -> list[Shown]:
        """What is to be said before the next piece of a kind."""
        lost = self._lost.get(kind)
        if not lost:
            return []
        self._lost[kind] = 0
        if kind == "display":
            return [("stderr", f"[{lost} display{'s' * (lost > 1)} not shown]\n".encode())]
        begin = "\n" if self._mid_line[kind] else ""
        self._mid_line[kind] = False
        return [(kind, f"{begin}[{human_bytes(lost)} not shown]\n".encode())]

    # -- what is left out -------------------------------------------------------------------------

    def _trim(self, text: int, displays: float) -> None:
        """Leave out the oldest, until what waits is no more than this.

        A stream that shows little isn't cut for one that shows much.
        """
        sizes = dict(self._sizes)
        if sum(sizes.values()) > text:
            for kind, other in (TEXT, TEXT[::-1]):
                self._cut(kind, max(text // 2, text - sizes[other]))
        excess = self._cost - displays
        for piece in self._pending:
            if excess > 0 and piece.kind == "display" and piece.data:
                excess -= self._cost_of(piece)
                self._remove(piece)
                self._lost["display"] += 1

    def _cut(self, kind: str, size: int) -> None:
        """Keep about ``size`` bytes of a stream, the last ones, from the beginning of a line on."""
        excess = self._sizes[kind] - size
        for piece in self._pending:
            if excess <= 0:
                return
            if piece.kind == kind:
                length = len(piece.data)
                cut = length if excess >= length else line_start(piece.data, excess)
                piece.data = piece.data[cut:]
                self._sizes[kind] -= cut
                self._lost[kind] += cut
                excess -= cut


def has_data(piece: Pending) -> bool:
    """Whether it still waits."""
    return bool(piece.data)


def joined(shown: list[Shown]) -> list[Shown]:
    """With each stream's neighbouring pieces as one."""
    result: list[Shown] = []
    for kind, data in shown:
        if result and kind in TEXT and result[-1][0] == kind:
            data = result.pop()[1] + data
        result.append((kind, data))
    return result
