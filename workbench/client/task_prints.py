"""What tasks print, in a process without our notebook extension: whole lines on its own stdout
and stderr. Displays are shown as their text; widgets need a notebook.

Threads: the one that reads the socket only queues. A thread of our own prints, and so does whoever
gets a result or waits for one, before the result is handed over: what a task printed stands before
what is printed because of its result. So nobody who reads the socket waits for a terminal or a
pager, and who prints isn't the only one who could let go of the lock that printing waits for.
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
"""Seconds for which who wants a result waits until another thread has printed. A signal's handler
may ask while its own thread is printing."""

MOST_CELLS = 1000
"""Cells of a notebook to which prints find back; later ones' appear in the running cell."""


MOST_OPEN = 1_000_000
"""Bytes of a line that are kept until it is over; what is more begins a new one."""


class Written(NamedTuple):
    """Text for a stream, under the cell of that number."""

    origin: int
    stream: str
    text: str


class _Printing:
    """One thread of a process prints at a time, and none while it is forked: the child would find
    the lock of its stdout held for ever, and half a line in its buffer."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(
            before=lambda: self._held.append(self.lock.acquire(timeout=PATIENCE)),
            after_in_parent=lambda: self.lock.release() if self._held.pop() else None,
            after_in_child=self._renew,
        )

    def _renew(self) -> None:
        self.lock = threading.RLock()
        self._held: list[bool] = []  # by forks that are going on


_printing = _Printing()


class Lines:
    """Joins what workers write to whole lines. From the second worker on, lines say whose they are.

    A line that isn't over is kept until it is, or its task is. If it is overwritten (``\\r``: a
    progress bar) where that can be seen, it is shown as it is, one such line at a time. Pure.
    """

    def __init__(self) -> None:
        self._workers: set[int] = set()
        self._rests: dict[tuple[int, str], Output] = {}  # by worker and stream
        self._bar: Output | None = None  # with which what is shown ends

    def __bool__(self) -> bool:
        """Whether a line waits for its end."""
        return bool(self._rests)

    def add(self, output: Output, is_live: bool) -> Iterator[Written]:
        """What to write now. ``is_live``: overwritten text can be seen where it goes."""
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

    def ended(self, is_over: Callable[[int], bool]) -> Iterator[Written]:
        """End the lines of tasks that are over."""
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
        """Whether what is shown ends with a line that this is of."""
        bar, writer = self._bar, (output.task, output.worker, output.kind)
        return bar is not None and (bar.task, bar.worker, bar.kind) == writer

    def _worded(self, output: Output) -> str:
        """A line, as it is seen: what is left when it was overwritten."""
        label = f"(worker {output.worker}) " if len(self._workers) > 1 else ""
        return label + output.data.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")


class TaskPrints:
    """See the module. ``is_over(task)``: whether a task is known to have ended."""

    def __init__(self, is_over: Callable[[int], bool]) -> None:
        self._is_over = is_over
        self._lines = Lines()
        self._came: deque[Output] = deque()  # the first is taken away when it has been printed
        self._wake: SimpleQueue[bool] = SimpleQueue()  # its `put` may be interrupted by itself
        self._thread: threading.Thread | None = None
        self._busy = False  # guarded by the lock: in a signal's handler it is ours
        self._cells: OrderedDict[int, Context] = OrderedDict()
        self._latest: tuple[Any, int] = None, 0  # a cell's header, and its number

    def show(self, output: Output) -> None:
        """Have it printed. The reading thread."""
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
        """What listens until a notebook does. Without ``logs`` nothing is printed."""
        listener = CellListener(origin=self.origin)
        return replace(listener, output=self.show, flush=self.flush) if logs else listener

    def origin(self) -> int:
        """The number of the notebook cell whose code calls; 0 where there are none.

        ipykernel keeps in a context variable where the prints of a piece of code appear.
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
        """Print what has come, unless another thread takes long to. Any thread."""
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
        self._write(self._lines.ended(self._is_over))

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
        """Print all there is, lines that aren't over too; end the thread."""
        self._is_over = lambda task: True
        self.flush()
        self._wake.put(False)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(PATIENCE)

    def abandon(self) -> None:
        """In a forked child: what came is its parent's to print."""
        self._came.clear()
        self._lines = Lines()


def _with(output: Output, data: bytes, kind: str = "") -> Output:
    """The same with other content."""
    return Output(output.task, kind or output.kind, data, output.origin, output.worker)


def _is_live(name: str) -> bool:
    """Whether overwritten text can be seen there: in a terminal, in a notebook."""
    stream = getattr(sys, name)
    try:
        return hasattr(stream, "parent_header") or bool(stream.isatty())
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def _write(name: str, text: str) -> None:
    """To the stream that has the name at this moment: pytest, `redirect_stdout` change it."""
    stream = getattr(sys, name)
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()  # else a process that is forked now would print it again
    except (OSError, ValueError, AttributeError):
        pass  # nobody reads it any more, it is closed, or there is none: nobody to be told
    except Exception:  # of somebody's own stream
        traceback.print_exc(file=sys.__stderr__)
