"""Routes output of tasks to the cell that submitted them. Formats nothing but errors.

Tasks carry the number of their cell (the *origin*); here are the cells' message headers by that
number. `sink` and `failed` run in whichever thread reads the socket.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

from IPython.core.displaypub import CapturingDisplayPublisher

from workbench.core.events import Output
from workbench.core.logs import TEXT
from workbench.format import printable
from workbench.ipython.interleave import OpenLine, Screen
from workbench.ipython.job import Job
from workbench.ipython.worker_widgets import Widgets, is_control
from workbench.report.job_status import STILL
from workbench.report.markup import remark

MOST_CELLS = 10_000
"""Headers kept. Output of a task whose cell is older than that appears in the latest cell."""

_MESSAGES = {"display": "display_data", "update": "update_display_data", "clear": "clear_output"}
"""Kinds of output that are passed on as Jupyter messages."""

ERASE = "\r\x1b[K"
"""Makes a terminal's last line empty."""

_OF_PYTHON = re.compile(r"_\d+_\d+$")
"""End of the ids of messages from front ends in Python: their process, and a number."""

LATE = "workbench_late_output"
"""Key in the metadata of a program's message with a cell: it shows what comes after its end."""

OURS = "workbench-"
"""Prefix of our own display ids, which aren't tasks'."""

Bundle = dict[str, str]
"""One output in several formats, by MIME type."""

_origin: ContextVar[int] = ContextVar("workbench_origin")


class CellOutput:
    """Target of one cell's output."""

    __slots__ = ("actor", "header", "held_output", "is_running", "jobs", "lock", "noted", "screen")

    def __init__(self, header: Any) -> None:
        self.header = header  # of the front end's message with the cell; None in a terminal
        self.is_running = True  # its own code runs, in the kernel
        self.screen = Screen()
        # Background cells that show something here; how to show the line of each again.
        self.jobs: dict[Job, Callable[[], None] | None] = {}
        self.actor = ""  # the namespace in which it runs, if not in the pool
        self.noted: set[str] = set()  # what we have said under it; workers needn't say it again
        self.held_output: list[Output] | None = None  # output to be shown later; guarded by `lock`
        self.lock = threading.RLock()

    def job_of(self, output: Output) -> Job | None:
        """Return the background cell that showed the output: by its task, or else the latest."""
        jobs = list(self.jobs)
        return next((job for job in jobs if job.number_of(output.task) is not None), None) or (
            jobs[-1] if jobs else None
        )


class Router:
    """Routes output in one shell: a kernel's or a terminal's."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._kernel: Any = getattr(shell, "kernel", None)
        self._numbers = itertools.count(1)
        self._cells: OrderedDict[int, CellOutput] = OrderedDict()
        self.latest = 0  # number of the cell that began last: hooks have another context
        self._running: list[CellOutput] = []
        self.passing_line = False  # in a terminal, the last line is one that will be replaced
        self.logs = True  # show also output of tasks that belong to no background cell
        # Gets a namespace, a cell's number, a widget's id, and what was done to it.
        self.on_widget: Callable[[str, int, str, dict[str, Any]], None] = lambda *_: None
        self._displays = itertools.count(1)
        self._widgets = Widgets(self._answer)
        self.enter_cell()

    def enter_cell(self) -> None:
        """Begin a cell. What is submitted from now on, in its context, belongs to it.

        A context variable, so that asyncio tasks which a cell has started still belong to it
        while later cells run. Threads without a context of their own belong to the latest cell.
        """
        self.latest = next(self._numbers)
        self._cells[self.latest] = CellOutput(self._shell.get_parent() if self._kernel else None)
        if len(self._cells) > MOST_CELLS:
            self._cells.popitem(last=False)
        _origin.set(self.latest)
        self._running.append(self._cells[self.latest])

    def leave_cell(self) -> None:
        """End the cell that began last; with ``%%capture``, an outer cell goes on."""
        if self._running:
            self._running.pop().is_running = False

    @property
    def headless(self) -> bool:
        """True if a program without a person sent the running cell."""
        header = self._cells[self.latest].header or {}
        return not header.get("content", {}).get("allow_stdin", True)

    @property
    def shows_late_output(self) -> bool:
        """True if who sent the running cell also shows what comes after the cell's end."""
        header = self._cells[self.latest].header or {}
        return not self.headless or LATE in header.get("metadata", {})

    @property
    def is_terminal(self) -> bool:
        """True if there is no kernel: IPython runs in a terminal."""
        return self._kernel is None

    def is_text(self, origin: int) -> bool:
        """True if a cell's output is only text, which stays as it was printed: in a terminal, and
        in front ends that replace no output (Jupyter console, QtConsole, Spyder)."""
        header = self.cell(origin).header or {}
        is_notebook = self.headless or "cellId" in header.get("metadata", {})
        sender = header.get("header", {}).get("msg_id", "")
        return self._kernel is None or (not is_notebook and bool(_OF_PYTHON.search(sender)))

    def origin(self) -> int:
        """Return the number of the cell whose code is running here."""
        return _origin.get(self.latest)

    @contextlib.contextmanager
    def within(self, origin: int) -> Iterator[None]:
        """Make everything submitted in this context belong to that cell."""
        before = _origin.set(origin)
        try:
            yield
        finally:
            _origin.reset(before)

    def cell(self, origin: int) -> CellOutput:
        """Return the target of that cell's output; the latest cell's, if it was too long ago."""
        return self._cells.get(origin) or self._cells[self.latest]

    def introduce_widgets(self) -> None:
        """Tell ipywidgets, now imported, about the widgets that workers made."""
        self._widgets.introduce()

    def source(self, origin: int) -> str:
        """Return the text of a cell, if a front end sent it."""
        header = self.cell(origin).header or {}
        return str(header.get("content", {}).get("code", ""))

    # -- what tasks show: whichever thread reads the socket ---------------------------------------

    def sink(self, output: Output) -> None:
        """Show what a task sent: see `CellListener`."""
        cell = self.cell(output.origin)
        if not (cell.jobs or self.logs):
            return
        if cell.held_output is not None:
            with cell.lock:
                if cell.held_output is not None:
                    cell.held_output.append(output)
                    return
        self._take(cell, output)

    @contextlib.contextmanager
    def hold_output(self, origin: int) -> Iterator[None]:
        """Hold back output for this cell until the context ends."""
        cell = self.cell(origin)
        try:  # inside `try`: an interrupt must not leave it held
            cell.held_output = []
            yield
        finally:
            with cell.lock:
                held, cell.held_output = cell.held_output, None
                for output in held or ():
                    self._take(cell, output)

    def _take(self, cell: CellOutput, output: Output) -> None:
        kind, job = output.kind, cell.job_of(output)
        label = f"(worker {output.worker})" if job is None else job.label_of(output)
        if job is not None:
            job.on_output(output)
        if kind in TEXT:
            text = output.data.decode("utf-8", "replace")
            if cell.noted:
                lines = text.splitlines(keepends=True)
                text = "".join(line for line in lines if line.rstrip("\n") not in cell.noted)
            for part in cell.screen.write(label, kind, text):
                self._show(cell, output, part)
        elif self._kernel is None:
            if kind == "display":
                self._say(json.loads(output.data)["data"].get("text/plain", "") + "\n", sys.stdout)
        elif kind == "comm":
            header = (cell.header or {}).get("header", {})
            tell = partial(self.on_widget, cell.actor, output.origin) if cell.actor else None
            kind, content, parts = self._widgets.message(
                output.data, header.get("msg_id", ""), tell
            )
            if kind == "comm_open" and tell is None and job is not None and is_control(content):
                job.note(STILL)
            self._send(cell.header, kind, content, **parts)
        elif kind in _MESSAGES:
            if kind == "display":
                for part in cell.screen.heading(label):
                    self._show(cell, output, part)
            self._publish(cell, _MESSAGES[kind], json.loads(output.data))
            if kind == "clear":
                cell.screen.clear()
                for show_line in filter(None, list(cell.jobs.values())):
                    show_line()

    def _show(self, cell: CellOutput, output: Output, part: Any) -> None:
        if self._kernel is None or (cell.is_running and _stands_in(output.kind)):
            self._print(part, output.kind)
        elif isinstance(part, OpenLine) and self.is_text(output.origin):
            if part.is_last:
                self._publish(cell, "stream", {"name": output.kind, "text": f"{part.text}\n"})
        elif isinstance(part, OpenLine):
            name = self.display_id("bar", f"{output.origin}-{part.number}")
            self.display(output.origin, name, {"text/plain": part.text}, part.is_new)
        else:
            self._publish(cell, "stream", {"name": part.stream, "text": part.text})

    def _print(self, part: Any, kind: str) -> None:
        """Print a part where only text can be shown."""
        stream = sys.stdout if kind == "stdout" else sys.stderr
        if not isinstance(part, OpenLine):
            self._say(part.text, stream)
        elif part.is_last:
            self._say(f"{part.text}\n", stream)

    def _say(self, text: str, stream: Any) -> None:
        """Print in a terminal; a line that is there only for now makes room."""
        if self.passing_line:
            sys.stdout.write(ERASE)
            sys.stdout.flush()
        stream.write(text)
        stream.flush()

    # -- what we show ourselves: any thread -------------------------------------------------------

    def failed(self, origin: int, error: BaseException) -> None:
        """Show an exception of a background cell as the cell's own."""
        name, text = type(error).__name__, str(error)
        render = getattr(error, "_render_traceback_", None)
        lines = render() if render is not None else [f"{name}: {text}"]
        if self._kernel is not None:
            content = {"ename": name, "evalue": text, "traceback": lines}
            self._publish(self.cell(origin), "error", content)
        else:
            self._say("\n".join([*lines, ""]), sys.stderr)

    def note(self, origin: int, text: str, stream: str = "") -> None:
        """Show lines under a cell, in grey, or as if printed to a ``stream``; any thread.

        To stderr if that is captured: ``%%capture`` takes no displays of ours.
        """
        self.cell(origin).noted.add(text)
        text = printable(text)
        if self._kernel is None:
            self._say(f"{text}\n", sys.stdout if stream == "stdout" else sys.stderr)
        elif stream or (self.cell(origin).is_running and _stands_in("stderr")):
            content = {"name": stream or "stderr", "text": f"{text}\n"}
            self._publish(self.cell(origin), "stream", content)
        else:
            shown = {"text/plain": text, "text/html": remark(text)}
            self.display(origin, self.display_id("remark"), shown, is_new=True)

    def display(self, origin: int, name: str, bundle: Bundle, is_new: bool) -> None:
        """Show an output under a cell, or replace it in place; ``name``: its display id."""
        kind = "display_data" if is_new else "update_display_data"
        content = {"data": bundle, "metadata": {}, "transient": {"display_id": name}}
        self._publish(self.cell(origin), kind, content)

    def display_id(self, what: str, which: str = "") -> str:
        """Return a new display id, or that of ``which``. Unique among kernels of a notebook."""
        ident = "terminal" if self._kernel is None else self._kernel.ident
        return f"{OURS}{what}-{ident}-{which or next(self._displays)}"

    def _answer(self, kind: str, content: dict[str, Any], **parts: Any) -> None:
        """Answer the front end's message that the kernel is handling."""
        self._send(self._shell.get_parent(), kind, content, **parts)

    def _publish(self, cell: CellOutput, kind: str, content: dict[str, Any]) -> None:
        """Send a message with the cell's header: front ends put it where that cell's output is.

        While the cell runs, its output may be captured, and then so is this.
        """
        if not (cell.is_running and self._is_captured(kind, content)):
            self._send(cell.header, kind, content)

    def _is_captured(self, kind: str, content: dict[str, Any]) -> bool:
        """True if ``%%capture``, `redirect_stdout` or the like has captured the message."""
        if kind == "stream":
            stream = _stands_in(content["name"])
            if stream is not None:
                stream.write(content["text"])
            return stream is not None
        publisher = self._shell.display_pub
        if kind not in _MESSAGES.values() or not isinstance(publisher, CapturingDisplayPublisher):
            return False
        if kind == "clear_output":
            publisher.clear_output(content.get("wait", False))
            return True
        # Our lines aren't the cell's output; captured, they would say for ever that it runs.
        if not content["transient"].get("display_id", "").startswith(OURS):
            publisher.publish(**content, update=kind != "display_data")
        return True

    def _send(self, header: Any, kind: str, content: Any, **parts: Any) -> None:
        """Send a message; any thread: Jupyter's session hands it to IOPub's thread."""
        socket, ident = self._kernel.iopub_socket, self._kernel.ident
        topic = f"kernel.{ident}.{kind}".encode()
        send = self._kernel.session.send
        send(socket, kind, content, parent=header, ident=topic, **parts)


def _stands_in(name: str) -> Any:
    """Return what has replaced the kernel's stdout or stderr, if anything.

    ipykernel's own streams know under which cell they print.
    """
    stream = sys.stderr if name == "stderr" else sys.stdout
    return None if hasattr(stream, "parent_header") else stream
