"""Which cell a shell runs: noted for the session, with the line and the memory if it runs long, so
that it can be said if the kernel dies. Stops a cell that takes what is left of the memory."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from typing import Any

from workbench import context
from workbench.engine.queries import NoteCell
from workbench.system import data_limit
from workbench.system.machine import MemoryGauge

EVERY = 0.25  # seconds between two looks at line and memory; one takes some 50 µs

LOOKS = 2
"""So many looks have to find that a cell takes what is left, before it is stopped."""


class RunningCell:
    """``number``: the one beside it; ``is_running``: it hasn't ended. Lines are noted in the
    kernel's thread that sends output; in a terminal there is none."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        thread = getattr(getattr(shell, "kernel", None), "iopub_thread", None)
        self._loop: Any = getattr(thread, "io_loop", None)
        self._gauge = MemoryGauge()
        self._looks = self.is_running = False
        self._exceeded = 0  # looks at this cell, one after another, that found it so
        self.number = 0
        self.is_out_of_memory = False  # the cell ends for that: it isn't stopped (again)

    def begins(self, stored: int = 0) -> None:
        """Note a cell that begins; ``stored``: 1 if its input is in IPython's history already."""
        # ``execution_count`` is its number in some versions of IPython, and the next in others.
        self.number = len(self._shell.history_manager.input_hist_parsed) - stored
        self.is_running, self.is_out_of_memory, self._exceeded = True, False, 0
        self.note()
        if self._loop is not None and not self._looks:
            self._looks = True
            self._loop.add_callback(self._loop.call_later, EVERY, self._look)

    def ends(self) -> None:
        self.is_running = False
        self.note()

    def stop(self) -> None:
        """Stop the cell, once: there is no memory for it. Any thread."""
        if self.is_running and not self.is_out_of_memory:
            self.is_out_of_memory = True
            os.kill(os.getpid(), signal.SIGINT)  # ipykernel raises it only inside a cell

    def note(self, *seen: int) -> None:
        engine = context.get()
        if engine is not None:
            engine.ask(NoteCell(self.number, self.is_running, *seen))

    def _look(self) -> None:
        self._looks = self.is_running
        if self._looks:
            self._loop.call_later(EVERY, self._look)
            self.note(self._line(), self._gauge.private(os.getpid()))
            self._exceeded = self._exceeded + 1 if data_limit.is_exceeded() else 0
            if self._exceeded >= LOOKS:
                self.stop()
        else:
            self.note()  # again: the cell may have ended during the last one

    def _line(self) -> int:
        """Return the line of the running cell that the main thread is at; 0 if at none."""
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        while frame is not None:
            label = self._shell.compile.format_code_name(frame.f_code.co_filename)
            if label is not None and re.sub(r"\D", "", label[1]) == str(self.number):
                return frame.f_lineno
            frame = frame.f_back
        return 0
