"""A worker process from its fork to its end. What a task is, `executor` knows."""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
from collections.abc import Callable

from workbench import context
from workbench.host.fd_capture import FdCapture
from workbench.server.settings import Settings


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, whatever it is doing then.

    Parameters
    ----------
    parent : int
        Who the parent was before the call: if it is gone already, we go too.
    """
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def run_worker(
    number: int,
    forkserver: int,
    settings: Settings,
    begins: Callable[[int], None],
    spools: tuple[FdCapture, FdCapture],
    mark: Callable[[int], None],
) -> None:
    """The forked child's life. Returns when the session has no more use for it.

    ``forkserver`` is its parent's pid, known before the fork: it may be gone by now.
    ``begins`` is told of each task: should this one kill the process, that is all that's left,
    and what it wrote to descriptor 2 after the last ``mark``. ``spools`` are where 1 and 2 lead.
    """
    from workbench.client.base import ClientBase
    from workbench.client.client import Client
    from workbench.client.task_context import TaskContext
    from workbench.host.capture import Capture
    from workbench.host.outstream import OutStream
    from workbench.host.stdin_guard import install
    from workbench.worker.executor import Executor

    die_with_parent(forkserver)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.argv = ["workbench-worker"]
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(settings.address)
    base = ClientBase(
        sock, settings.session, worker=number, threads=settings.threads,
        debug=settings.pickle_debug, huge=settings.huge_pages,
    )  # fmt: skip
    work = TaskContext()
    outlet = OutStream(base.connection, work, spools, mark)
    executor = Executor(base, work, outlet, begins, settings.reload)
    Client(base, executor)
    context.set(base.references.engine)
    if isinstance(sys.__stdout__, io.TextIOWrapper):
        sys.__stdout__.reconfigure(line_buffering=True)  # it is our descriptor 1 for some
    streams = (
        Capture("stdout", 1, work, outlet), Capture("stderr", 2, work, outlet)
    )  # fmt: skip
    sys.stdout, sys.stderr = streams
    install()
    for forked in (outlet.abandon, *(stream.forked for stream in streams)):
        os.register_at_fork(after_in_child=forked)
    # Set, not inherited: a Jupyter server started in the background hands down an ignored one.
    signal.signal(signal.SIGINT, executor.on_signal)
    base.join()
    executor.serve()
