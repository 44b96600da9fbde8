"""A worker process from its fork to its end. `executor` runs its tasks."""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from workbench import context
from workbench.errors import SessionError
from workbench.host.task_context import TaskContext
from workbench.server.settings import Settings
from workbench.system.parent_death import die_with_parent
from workbench.worker.remains import Remains


class WorkerLink(NamedTuple):
    """`Link` of a local worker: its tasks, and its client's connection."""

    work: TaskContext[Any]
    put: Callable[[Any], None]
    flush: Callable[[], None]


def run_worker(
    number: int,
    forkserver: int,
    settings: Settings,
    remains: Remains,
) -> None:
    """Run the forked child. Returns when the session has no more use for it.

    ``forkserver`` is its parent's pid, read before the fork: the parent may be gone by now.
    ``remains`` notes each task and its output: if a task kills the process, only that is left.
    """
    from workbench.client.base import ClientBase
    from workbench.client.client import Client
    from workbench.core.instructions import Run
    from workbench.host.setup import set_up
    from workbench.interop.registration import register_when_imported
    from workbench.worker.executor import TaskExecutor

    die_with_parent(forkserver)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.argv = ["workbench-worker"]
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(settings.address)
    base = ClientBase(
        sock,
        settings.session,
        worker=number,
        threads=settings.threads,
        huge=settings.config.huge_pages,
    )
    work = TaskContext[Run]()
    link = WorkerLink(work, lambda output: executor.output(output), base.connection.push)
    output = set_up(link, remains.captures, remains.mark, remains.unsent)
    executor = TaskExecutor(base, work, remains, output.finish, settings.config.reload)
    Client(base, executor)
    context.set(base.references.engine)
    # Set explicitly: a Jupyter server started in the background passes on an ignored SIGINT.
    signal.signal(signal.SIGINT, executor.on_signal)
    base.join()
    register_when_imported()
    with contextlib.suppress(SessionError):
        executor.serve()
    executor.leave()
    _exit_in_order()


def _exit_in_order() -> None:
    """Do the parts of an interpreter's exit that users notice, without the slow rest.

    End executors, run atexit functions, finalize objects that only cycles keep, flush open files.
    A worker that takes too long over that is killed.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # joins threads that aren't daemons
    atexit._run_exitfuncs()
    _write_files()  # first: the collector may close a file's parts in any order, and lose text
    gc.collect()
    _write_files()


def _write_files() -> None:
    for each in gc.get_objects():
        if isinstance(each, io.IOBase) and not each.closed:
            with contextlib.suppress(Exception):
                each.flush()
