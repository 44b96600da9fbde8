"""A bounded log of a background cell's output: the last of it, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from workbench.core import events as ev
from workbench.format import human_bytes

TEXT = ("stdout", "stderr")
"""Kinds of output that are prints."""

NOT_SHOWN = b" not shown]\n"
"""End of the notes that stand in place of output which a worker's throttle left out."""

MOST_TEXT = 1_000_000
"""Bytes of a job's prints that are kept: the last ones."""

MOST_DISPLAYED = 8_000_000
"""Bytes of a job's displays that are kept: the last ones."""

PIECE = 1 << 14
"""Bytes after which prints begin a new piece; smaller ones are joined, which saves memory."""

MOST_PIECES = 30_000
"""Pieces that are kept: each costs some 200 bytes, however small it is."""


def printed(outputs: Iterable[ev.Output]) -> str:
    """Return what was printed, in the order in which it came, stdout and stderr mixed."""
    return "".join(o.data.decode("utf-8", "replace") for o in outputs if o.kind in TEXT)


@dataclass(eq=False)
class Log:
    """The last output of one job, in order. ``lines`` and ``displays`` count all of it.

    ``is_part``: workers left some output out before it came here, so the counts are too low.
    """

    text: int = MOST_TEXT
    displayed: int = MOST_DISPLAYED
    piece: int = PIECE
    pieces: int = MOST_PIECES

    def __post_init__(self) -> None:
        self._most = (self.displayed, self.text)
        self._pieces: deque[tuple[ev.Output, bytearray]] = deque()
        self._reset()

    def _reset(self) -> None:
        self._pieces.clear()
        self._sizes = [0, 0]  # bytes kept: of displays, of text
        self._cut = [0, 0]  # displays, and bytes of text, that were removed
        self.lines = 0
        self.displays = 0
        self.is_part = False

    def add(self, output: ev.Output) -> None:
        """Add output. The first pieces go when there is too much; a "clear" removes all."""
        pieces, kind, data = self._pieces, output.kind, output.data
        if pieces and pieces[-1][0].kind == "clear":
            self._reset()  # earlier output was cleared from the screen
        is_text = kind in TEXT
        self.lines += data.count(b"\n") if is_text else 0
        self.is_part |= is_text and NOT_SHOWN in data
        self.displays += kind == "display"
        last = pieces[-1] if pieces else None
        goes_on = is_text and last is not None and _goes_with(last[0], output)
        if goes_on and last is not None and len(last[1]) < self.piece:
            last[1].extend(data)
        else:
            pieces.append((replace(output, data=b""), bytearray(data)))
        self._sizes[is_text] += len(data)
        while self._sizes[is_text] > self._most[is_text]:
            self._cut_first(is_text)
        if len(pieces) > self.pieces:
            self._cut_first(pieces[0][0].kind in TEXT)

    def _cut_first(self, is_text: bool) -> None:
        """Remove the first display whole, or of prints the excess, up to the end of a line.

        Remove a whole piece if there are too many pieces rather than bytes.
        """
        for place, (output, data) in enumerate(self._pieces):
            if (output.kind in TEXT) == is_text:
                excess = self._sizes[True] - self._most[True]
                size = len(data)
                if is_text and excess > 0:
                    size = min(data.find(b"\n", excess - 1) + 1 or excess, size)
                del data[:size]
                self._sizes[is_text] -= size
                self._cut[is_text] += size if is_text else 1
                if not data:
                    del self._pieces[place]
                return

    def __iter__(self) -> Iterator[ev.Output]:
        """Iterate over what is kept, after a note on what isn't: its ``origin`` is -1 - bytes."""
        displays, text = self._cut
        cut = [human_bytes(text)] if text else []
        cut += [f"{displays} display(s)"] if displays else []
        if cut:
            where = "before this" if self._pieces else "shown"
            note = f"[{' and '.join(cut)} {where}, not kept]\n"
            yield ev.Output(0, "stderr", note.encode(), -1 - text)
        for output, data in self._pieces:
            yield replace(output, data=bytes(data))

    @property
    def nbytes(self) -> int:
        return sum(self._sizes)

    def close(self) -> None:
        """Drop all output but keep the counts; the log then says so."""
        self._cut[True] += self._sizes[True]
        self._cut[False] += sum(output.kind not in TEXT for output, _ in self._pieces)
        self._pieces.clear()
        self._sizes = [0, 0]


def _goes_with(last: ev.Output, output: ev.Output) -> bool:
    return (last.kind, last.task, last.worker) == (output.kind, output.task, output.worker)
