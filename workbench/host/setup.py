"""Making the process a host of tasks: all its output goes through a `Link`, nobody is asked."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

from workbench.host import display, stdin_guard
from workbench.host.fd_capture import FdCapture
from workbench.host.link import Link
from workbench.host.outstream import OutputQueue, OutStream


def set_up(
    link: Link,
    captures: tuple[FdCapture, FdCapture],
    mark: Callable[[int], None] = lambda position: None,
) -> OutputQueue:
    """Send prints, displays and what is written to descriptors 1 and 2 through ``link``.

    For the whole life of the process, which may fork.

    Parameters
    ----------
    link : Link
        The way out.
    captures : tuple of FdCapture
        Where 1 and 2 lead already.
    mark : callable(position), optional
        See `OutputQueue`.

    Returns
    -------
    OutputQueue
        Its `finish` is to be called at each task's end.
    """
    queue = OutputQueue(link, captures, mark)
    display.connect(queue.show)
    if isinstance(sys.__stdout__, io.TextIOWrapper):
        sys.__stdout__.reconfigure(line_buffering=True)  # it is our descriptor 1 for some
    streams = OutStream("stdout", 1, queue), OutStream("stderr", 2, queue)
    sys.stdout, sys.stderr = streams
    stdin_guard.install()
    for forked in (queue.abandon, *(stream.forked for stream in streams)):
        os.register_at_fork(after_in_child=forked)
    return queue
