"""Notes that outlive a worker's process, for the forkserver: its task and its last output.

Made before the fork. The worker writes; the forkserver reads once the worker is dead.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial

from workbench.core.loop_events import WorkerExited
from workbench.host.fd_capture import FdCapture
from workbench.host.remains import ShownRemains
from workbench.host.unsent import Unsent

_NUMBER = struct.Struct("q")
_NOTE = struct.Struct("qq")

MOST_LINES = 255
"""Most lines whose begun calls are noted: with the two numbers they fill a page."""


class LineNotes:
    """Number of the last call that began, for each line to this worker."""

    def __init__(self, note: mmap.mmap) -> None:
        self._note = note
        self._free = list(range(MOST_LINES, 0, -1))
        self._places: dict[int, int] = {}

    def add(self, line: int) -> Callable[[int], object]:
        """Add a line. Return the function to call with each call's number as it begins."""
        if not self._free:
            return bool  # not noted
        place = self._places[line] = self._free.pop()
        _NOTE.pack_into(self._note, place * _NOTE.size, line, 0)
        return partial(_NUMBER.pack_into, self._note, place * _NOTE.size + _NUMBER.size)

    def remove(self, line: int) -> None:
        place = self._places.pop(line, 0)
        if place:
            _NOTE.pack_into(self._note, place * _NOTE.size, 0, 0)
            self._free.append(place)

    def read(self) -> tuple[tuple[int, int], ...]:
        pairs = list(_NOTE.iter_unpack(self._note[_NOTE.size :]))
        return tuple((line, number) for line, number in pairs if line)


class Remains(ShownRemains):
    """Remains of one worker. If a part can't be made, raises OSError and closes the others."""

    def __init__(self) -> None:
        with ExitStack() as made:
            take = made.enter_context
            self.captures = take(closing(FdCapture())), take(closing(FdCapture()))
            self.unsent = take(closing(Unsent()))
            note = mmap.mmap(-1, (1 + MOST_LINES) * _NOTE.size)
            made.pop_all()
        self._note = note
        self.begins = partial(_NUMBER.pack_into, note, 0)
        """To be called with each task that the worker begins."""
        self.mark = partial(_NUMBER.pack_into, note, _NUMBER.size)
        """To be called with the position in the second capture at which a task ended."""
        self.lines = LineNotes(note)

    def exit_event(self, worker: int, status: int) -> WorkerExited:
        running, ended = _NOTE.unpack_from(self._note)
        words, shown = self.words(since=ended), tuple(self.pieces(running))
        return WorkerExited(worker, status, words, running, "", shown, self.lines.read())
