"""Prints of tasks, in a process without our notebook extension: whole lines on its own stdout
and stderr. Displays are shown as their text; widgets need a notebook.

Threads: the one that reads the socket only queues. A thread of our own prints, and so does a thread
that gets a result or waits for one, before it returns: a task's prints stand before what is printed
because of its result. So the thread that reads the socket never waits for a terminal or a pager,
and printing never waits for a lock that only the printing thread could release.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from queue import SimpleQueue
from typing import Any, NamedTuple

from workbench.core.events import Output
from workbench.core.logs import TEXT
from workbench.engine.base import CellListener
from workbench.system.ki_protection import ki_protection

PATIENCE = 1.0
"""Most seconds that `get` waits until another thread has printed. A signal handler may call it
while its own thread prints."""

MOST_CELLS = 1000
"""Most cells of a notebook whose prints appear below them; others' appear in the running cell."""


MOST_OPEN = 1_000_000
"""Most bytes of an unfinished line that are kept; a longer one is ended there."""


class Written(NamedTuple):
    """Text for a stream, under cell number ``origin``."""

    origin: int
    stream: str
    text: str


class _Printing:
    """Lock of printing: one thread prints at a time, and none during a fork, or the child would
    find the lock of its stdout held for ever, and half a line in its buffer."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(
            before=lambda: self._held.append(self.lock.acquire(timeout=PATIENCE)),
            after_in_parent=lambda: self.lock.release() if self._held.pop() else None,
            after_in_child=self._renew,
        )

    def _renew(self) -> None:
        self.lock = threading.RLock()
        self._held: list[bool] = []  # one for each fork that is going on


_printing = _Printing()


class Lines:
    """Joins what workers write into lines, which name the worker once there are several.

    An unfinished line is kept until it or its task ends. If it is overwritten (``\\r``: a
    progress bar) where that can be seen, it is shown unfinished, one such line at a time. Pure.
    """

    def __init__(self) -> None:
        self._workers: set[int] = set()
        self._rests: dict[tuple[int, str], Output] = {}  # by worker and stream
        self._bar: Output | None = None  # the unfinished line that is shown last

    def __bool__(self) -> bool:
        """True if an unfinished line is kept."""
        return bool(self._rests)

    def add(self, output: Output, is_live: bool) -> Iterator[Written]:
        """Yield what to write now. ``is_live``: overwritten text can be seen where it goes."""
        writer = output.worker, output.kind
        self._workers.add(output.worker)
        before = self._rests.pop(writer, None)
        data = output.data
        if before is not None and before.task == output.task:
            data = before.data + data
        elif before is not None:
            yield from self._line(before)
        *lines, rest = data.split(b"\n")
        for line in lines:
            yield from self._line(_with(output, line))
        if not rest:
            return
        is_bar = b"\r" in rest or self._is_bar(output)
        rest = rest[rest.rstrip(b"\r").rfind(b"\r") + 1 :]
        output = _with(output, rest)
        if len(rest) > MOST_OPEN:
            yield from self._line(output)
            return
        self._rests[writer] = output
        if is_live and is_bar and (self._bar is None or self._is_bar(output)):
            self._bar = output
            yield Written(output.origin, output.kind, f"\r{self._worded(output)}")

    def end_lines(self, is_over: Callable[[int], bool]) -> Iterator[Written]:
        for writer, output in list(self._rests.items()):
            if is_over(output.task):
                del self._rests[writer]
                yield from self._line(output)

    def _line(self, output: Output) -> Iterator[Written]:
        if self._bar is not None:
            begin = "\r" if self._is_bar(output) else "\n"
            yield Written(self._bar.origin, self._bar.kind, begin)
            self._bar = None
        yield Written(output.origin, output.kind, f"{self._worded(output)}\n")

    def _is_bar(self, output: Output) -> bool:
        """True if the bar that is shown last is a line of the same writer."""
        bar, writer = self._bar, (output.task, output.worker, output.kind)
        return bar is not None and (bar.task, bar.worker, bar.kind) == writer

    def _worded(self, output: Output) -> str:
        """Return the line as it is seen: what remains after overwriting."""
        label = f"(worker {output.worker}) " if len(self._workers) > 1 else ""
        return label + output.data.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")


class TaskPrints:
    """Prints what tasks print. ``is_over(task)``: True if a task is known to have ended."""

    def __init__(self, is_over: Callable[[int], bool]) -> None:
        self._is_over = is_over
        self._lines = Lines()
        self._came: deque[Output] = deque()  # each is removed after it was printed
        self._wake: SimpleQueue[bool] = SimpleQueue()  # its `put` may be interrupted by itself
        self._thread: threading.Thread | None = None
        self._busy = False  # guarded by the lock, which a signal handler may hold already
        self._cells: OrderedDict[int, Context] = OrderedDict()
        self._latest: tuple[Any, int] = None, 0  # a cell's header, and its number

    def show(self, output: Output) -> None:
        """Queue an output to be printed. Runs in the reading thread."""
        if output.kind not in (*TEXT, "display"):
            return
        self._came.append(output)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._serve, name="workbench-prints", daemon=True
            )
            self._thread.start()
        self._wake.put(True)

    def listener(self, logs: bool) -> CellListener:
        """Return the listener until a notebook sets its own. Without ``logs`` it prints nothing."""
        listener = CellListener(origin=self.origin)
        return replace(listener, output=self.show, flush=self.flush) if logs else listener

    def origin(self) -> int:
        """Return the number of the notebook cell whose code calls; 0 where there are none.

        ipykernel keeps in a context variable under which cell a piece of code prints.
        """
        header = getattr(sys.stdout, "parent_header", None)
        if not header:
            return 0
        latest, number = self._latest
        if header is not latest:
            number += 1
            self._cells[number] = copy_context()
            self._latest = header, number
            if len(self._cells) > MOST_CELLS:
                self._cells.popitem(last=False)
        return number

    def flush(self) -> None:
        """Print what has come, unless another thread takes long to print. Any thread."""
        if not self._came and not self._lines:
            return
        with ki_protection():
            lock = _printing.lock
            if not lock.acquire(timeout=PATIENCE):
                return
            try:
                if not self._busy:
                    self._busy = True
                    try:
                        self._print()
                    finally:
                        self._busy = False
            finally:
                lock.release()

    def _print(self) -> None:
        while self._came:
            output = self._came[0]
            if output.kind == "display":
                shown = str(json.loads(output.data)["data"].get("text/plain", ""))
                output = _with(output, f"{shown}\n".encode(), "stdout")
            self._write(self._lines.add(output, _is_live(output.kind)))
            self._came.popleft()
        self._write(self._lines.end_lines(self._is_over))

    def _write(self, pieces: Iterator[Written]) -> None:
        for (origin, name), group in groupby(pieces, attrgetter("origin", "stream")):
            text = "".join(piece.text for piece in group)
            cell = self._cells.get(origin)
            if cell is None:
                _write(name, text)
            else:
                cell.run(_write, name, text)

    def _serve(self) -> None:
        while self._wake.get():
            self.flush()

    def close(self) -> None:
        """Print everything, unfinished lines too; end the thread."""
        self._is_over = lambda task: True
        self.flush()
        self._wake.put(False)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(PATIENCE)

    def abandon(self) -> None:
        """Drop all output in a forked child: the parent prints it."""
        self._came.clear()
        self._lines = Lines()


def _with(output: Output, data: bytes, kind: str = "") -> Output:
    return Output(output.task, kind or output.kind, data, output.origin, output.worker)


def _is_live(name: str) -> bool:
    """True if the stream shows overwritten text: in a terminal, in a notebook."""
    stream = getattr(sys, name)
    try:
        return hasattr(stream, "parent_header") or bool(stream.isatty())
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def _write(name: str, text: str) -> None:
    """Write to the stream that has the name now: pytest and `redirect_stdout` change it."""
    stream = getattr(sys, name)
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()  # else a process that is forked now would print it again
    except (OSError, ValueError, AttributeError):
        pass  # no reader any more, closed, or no such stream: nothing to do
    except Exception:  # of somebody's own stream
        traceback.print_exc(file=sys.__stderr__)
