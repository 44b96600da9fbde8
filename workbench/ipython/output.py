"""What tasks show → the cell that submitted them. Formats nothing but errors.

Tasks carry the number of their cell (the *origin*); here are the cells' message headers by that
number. `sink` and `failed` run in whichever thread reads the socket.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import OrderedDict
from contextvars import ContextVar
from typing import Any

MOST_CELLS = 10_000
"""Headers kept. A task that shows something after so many cells more shows it in the last one."""

_MESSAGES = {
    "display": "display_data",
    "update": "update_display_data",
    "clear": "clear_output",
}
"""Kinds of output that are Jupyter messages as they are."""

_origin: ContextVar[int] = ContextVar("workbench_origin")


class Router:
    """Routes output in one shell.

    Parameters
    ----------
    shell : InteractiveShell
        A kernel's or a terminal's.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._kernel: Any = getattr(shell, "kernel", None)
        self._numbers = itertools.count(1)
        self._headers: OrderedDict[int, Any] = OrderedDict()
        self._latest = 0
        self.enter_cell()

    def enter_cell(self, info: Any = None) -> None:
        """A cell begins. What is submitted from now on, in its context, belongs to it.

        A context variable, so that asyncio tasks which a cell has started still belong to it
        while later cells run. Threads have no context of their own: theirs is the latest cell.
        """
        self._latest = next(self._numbers)
        self._headers[self._latest] = self._shell.get_parent() if self._kernel else None
        if len(self._headers) > MOST_CELLS:
            self._headers.popitem(last=False)
        _origin.set(self._latest)

    @property
    def headless(self) -> bool:
        """Whether the running cell was sent by a program that nobody sits at."""
        header = self._headers[self._latest] or {}
        return not header.get("content", {}).get("allow_stdin", True)

    def origin(self) -> int:
        """The number of the cell whose code is running here."""
        return _origin.get(self._latest)

    def sink(self, origin: int, kind: str, data: bytes) -> None:
        """Show what a task sent: see `OutputSink`."""
        if self._kernel is None:
            self._print(kind, data)
        elif kind in _MESSAGES:
            self._publish(origin, _MESSAGES[kind], json.loads(data))
        else:
            text = data.decode("utf-8", "replace")
            self._publish(origin, "stream", {"name": kind, "text": text})

    def failed(self, origin: int, error: BaseException) -> None:
        """Show an exception of a background cell as the cell's own."""
        render = getattr(error, "_render_traceback_", None)
        lines = render() if render is not None else [f"{type(error).__name__}: {error}"]
        if self._kernel is not None:
            name, text = type(error).__name__, str(error)
            content = {"ename": name, "evalue": text, "traceback": lines}
            self._publish(origin, "error", content)
        else:
            print(*lines, sep="\n", file=sys.stderr)

    @staticmethod
    def _print(kind: str, data: bytes) -> None:
        """In a terminal, all there is to show is text."""
        if kind in ("stdout", "stderr"):
            stream = sys.stdout if kind == "stdout" else sys.stderr
            stream.write(data.decode("utf-8", "replace"))
            stream.flush()
        elif kind == "display":
            print(json.loads(data)["data"].get("text/plain", ""))

    def _publish(self, origin: int, kind: str, content: dict[str, Any]) -> None:
        """Send a message with the cell's header: front ends put it where that cell's output is.

        `Session.send` hands over to the kernel's IOPub thread, so any thread may call this.
        """
        header = self._headers.get(origin)
        kernel = self._kernel
        if header is None:
            header = self._headers.get(self._latest)
        topic = f"kernel.{kernel.ident}.{kind}".encode()
        kernel.session.send(kernel.iopub_socket, kind, content, parent=header, ident=topic)
