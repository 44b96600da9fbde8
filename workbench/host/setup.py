"""Makes the process a host of tasks: all its output goes through a `Link`, input is refused.

A call that needs a person at the keyboard raises an error: in a worker it would wait forever.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import getpass
import io
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from workbench.errors import UnattendedError
from workbench.host import display
from workbench.host.fd_capture import FdCapture
from workbench.host.link import Link
from workbench.host.outstream import OutputQueue, OutStream
from workbench.host.task_context import TaskContext
from workbench.host.unsent import Unsent


def set_up(
    link: Link,
    captures: tuple[FdCapture, FdCapture],
    mark: Callable[[int], None] = lambda position: None,
    unsent: Unsent | None = None,
) -> OutputQueue:
    """Send prints, displays and what is written to descriptors 1 and 2 through ``link``.

    For the whole life of the process, which may fork. 1 and 2 lead to the ``captures`` already. The
    queue's `finish` is to be called at each task's end. ``unsent`` keeps what isn't sent yet.
    """
    os.environ.setdefault("MPLBACKEND", "agg")  # nobody sees a window
    queue = OutputQueue(link, captures, mark, unsent)
    display.connect(queue.show, queue.recorded)
    if isinstance(sys.__stdout__, io.TextIOWrapper):
        sys.__stdout__.reconfigure(line_buffering=True)  # some code writes to it
    streams = OutStream("stdout", 1, queue), OutStream("stderr", 2, queue)
    sys.stdout, sys.stderr = streams
    _refuse_input()
    _follow_threads(link.work)
    for forked in (queue.abandon, *(stream.forked for stream in streams)):
        os.register_at_fork(after_in_child=forked)
    return queue


def _follow_threads(work: TaskContext[Any]) -> None:
    """Make a starting thread note which task starts it: its prints are the task's."""
    native: Any = threading.Thread
    start = native.start

    @functools.wraps(start)
    def noted(thread: threading.Thread) -> None:
        with contextlib.suppress(AssertionError):  # without __init__ `start` raises a better one
            work.starts(thread)
        start(thread)

    native.start = noted


def _refuse_input() -> None:
    answer = "ask in the notebook, and let the cell read the answer from a variable."
    native: Any = builtins
    native.input = _refusing("builtins.input", "input()", answer)  # pdb asks through it too
    getpass.getpass = _refusing("getpass.getpass", "getpass()", answer)
    debug = "run the code in the notebook to debug it."
    sys.breakpointhook = _refusing("sys.breakpointhook", "breakpoint()", debug)


def _refusing(name: str, what: str, instead: str) -> Callable[..., NoReturn]:
    """Return a function that raises. It is pickled by ``name``: a driver gets its own original."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise UnattendedError(f"{what} needs a person, and nobody sits at a worker: {instead}")

    refuse.__module__, _, refuse.__qualname__ = name.rpartition(".")
    refuse.__name__ = refuse.__qualname__
    return refuse
