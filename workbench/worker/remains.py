"""What outlives a worker's process, for the forkserver to tell: its task, what it showed last.

Made before the fork. The worker writes; the forkserver reads, once that one is dead.
"""

from __future__ import annotations

import contextlib
import mmap
import struct
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from workbench.core.loop_events import WorkerExited
from workbench.host.fd_capture import FdCapture
from workbench.host.remains import ShownRemains
from workbench.host.unsent import Unsent

_NUMBER = struct.Struct("q")
_NOTE = struct.Struct("qq")

MOST_LINES = 255
"""Of which it is noted what began: with the two numbers, they fill a page."""

Part = TypeVar("Part", FdCapture, Unsent)


class LineNotes:
    """Of each line to this worker, the number of the last call by it that began."""

    def __init__(self, note: mmap.mmap) -> None:
        self._note = note
        self._free = list(range(MOST_LINES, 0, -1))
        self._places: dict[int, int] = {}

    def add(self, line: int) -> Callable[[int], object]:
        """To be called with each call that begins."""
        if not self._free:
            return bool  # nobody will know
        place = self._places[line] = self._free.pop()
        _NOTE.pack_into(self._note, place * _NOTE.size, line, 0)
        return partial(_NUMBER.pack_into, self._note, place * _NOTE.size + _NUMBER.size)

    def remove(self, line: int) -> None:
        """Nobody will ask for it."""
        place = self._places.pop(line, 0)
        if place:
            _NOTE.pack_into(self._note, place * _NOTE.size, 0, 0)
            self._free.append(place)

    def read(self) -> tuple[tuple[int, int], ...]:
        """By line. What isn't there, isn't known."""
        pairs = list(_NOTE.iter_unpack(self._note[_NOTE.size :]))
        return tuple((line, number) for line, number in pairs if line)


class Remains(ShownRemains):
    """Of one worker. OSError, and nothing is left of it, if a part of it can't be had."""

    def __init__(self) -> None:
        with contextlib.ExitStack() as made:

            def take(part: Part) -> Part:
                made.callback(part.close)
                return part

            self.captures = take(FdCapture()), take(FdCapture())
            self.unsent = take(Unsent())
            note = mmap.mmap(-1, (1 + MOST_LINES) * _NOTE.size)
            made.pop_all()
        self._note = note
        self.begins = partial(_NUMBER.pack_into, note, 0)
        """To be called with each task that the worker begins."""
        self.mark = partial(_NUMBER.pack_into, note, _NUMBER.size)
        """To be called with the position in the second capture at which a task ended."""
        self.lines = LineNotes(note)

    def told(self, worker: int, status: int) -> WorkerExited:
        """How the worker ended, and what it left."""
        running, ended = _NOTE.unpack_from(self._note)
        words, shown = self.words(since=ended), tuple(self.pieces(running))
        return WorkerExited(worker, status, words, running, "", shown, self.lines.read())
