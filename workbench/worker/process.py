"""A worker process from its fork to its end. What a task is, `executor` knows."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable

from workbench import current
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
    number: int, nursery: int, settings: Settings, begins: Callable[[int], None]
) -> None:
    """The forked child's life. Returns when the session has no more use for it.

    ``nursery`` is its parent's pid, known before the fork: it may be gone by now.
    ``begins`` is told of each task: should this one kill the process, that is all that's left.
    """
    from workbench.client.client import Client
    from workbench.worker.capture import Capture
    from workbench.worker.executor import Executor
    from workbench.worker.unattended import install

    die_with_parent(nursery)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.argv = ["workbench-worker"]
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(settings.address)
    client = Client(
        sock, settings.session, worker=number, threads=settings.threads,
        debug=settings.pickle_debug, huge=settings.huge_pages,
    )  # fmt: skip
    current.set(client)
    executor = Executor(client, begins, settings.reload)
    sys.stdout = Capture("stdout", client)
    sys.stderr = Capture("stderr", client)
    install()
    # Set, not inherited: a Jupyter server started in the background hands down an ignored one.
    signal.signal(signal.SIGINT, executor.interrupted)
    client.join()
    executor.serve()
