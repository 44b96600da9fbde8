"""`python -m workbench.engines.dask.child PARENT FD…`: a child of a worker of Dask's. It
runs tasks, one at a time, in its main thread: see `slots`. It ends when the worker hangs up."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from workbench import context, error_notes
from workbench.engines.cluster.engine import ClusterEngine
from workbench.engines.cluster.hosting import ChannelLink, Hosting
from workbench.engines.dask.keys import key_of
from workbench.engines.dask.session import DaskBackend
from workbench.engines.dask.slots import Channel, HeadDone, RunHead
from workbench.host.interrupts import Interrupts
from workbench.host.remains import ChildRemains
from workbench.host.setup import set_up
from workbench.interop.registration import register_when_imported
from workbench.system.parent_death import die_with_parent


class ChildHost:
    """The process. Made in the main thread."""

    def __init__(self, work: Channel, orders: Channel, remains: ChildRemains) -> None:
        self._work, self._orders = work, orders
        self._link = ChannelLink(os.getpid(), self._shown)
        mark = partial(setattr, self, "_position")
        self._output = set_up(self._link, remains.captures, mark, remains.unsent)
        self._position = 0
        self._sessions: dict[str, tuple[ClusterEngine, DaskBackend, Hosting]] = {}
        self._stopped: set[int] = set()  # perhaps before they come
        self._has_slot = True
        self._interrupts = Interrupts()
        signal.signal(signal.SIGINT, self._interrupts.handle)
        register_when_imported()
        error_notes.install()
        sys.argv = ["workbench-worker"]

    def _shown(self, batch: bytes) -> None:
        with suppress(OSError):
            self._work.send(batch)

    def listen(self) -> None:
        """Stop tasks as told, in a thread of its own. The channel's end is the process's."""
        try:
            while True:
                self._stop(self._orders.receive())
        except (EOFError, OSError):
            os._exit(0)

    def _stop(self, task: int) -> None:
        self._stopped.add(task)
        for engine, _, _ in list(self._sessions.values()):
            engine.stop_here([task], False)

    def serve(self) -> None:
        with suppress(EOFError, OSError):
            while not self._run(self._work.receive()):
                pass

    def _run(self, message: RunHead) -> bool:
        head = message.head
        engine, backend, hosting = self._session(message)
        self._has_slot = not head.actor
        if context.get() is not engine:
            context.set(engine)
        if head.task in self._stopped:
            hosting.stop(head.task)
        end, results = hosting.run(head, message.values, message.inside)
        # What results refer to lives as long as these: that is known before we let go of it.
        if natives := [native for value in results for native in value.natives]:
            backend.contains(key_of(head.session, head.name, head.task), natives)
        self._work.send(HeadDone(end, results, self._position, hosting.leaves))
        return hosting.leaves

    def _session(self, message: RunHead) -> tuple[ClusterEngine, DaskBackend, Hosting]:
        if message.head.session not in self._sessions:
            address, security = message.scheduler

            def connect() -> Any:
                from distributed import Client

                return Client(address, security=security, set_as_default=False)

            backend = DaskBackend(connect, message.head.session, True, address, self.lends)
            engine = ClusterEngine(backend, logs=False)
            backend.sink = engine.heard
            hosting = Hosting(
                engine.packer, engine.entries.learn, self._link, self._output.finish, os.getpid()
            )
            hosting.interrupts = self._interrupts
            engine.host(hosting)
            self._sessions[message.head.session] = engine, backend, hosting
        return self._sessions[message.head.session]

    @contextmanager
    def lends(self) -> Iterator[None]:
        """Around code that waits: others may run on our worker meanwhile."""
        if threading.current_thread() is not threading.main_thread() or not self._has_slot:
            yield
            return
        self._has_slot = False
        self._work.send(True)
        try:
            yield
        finally:
            self._has_slot = True
            self._work.send(False)
            self._work.receive()


def main() -> None:
    parent, *fds = map(int, sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # until there is a task to stop
    die_with_parent(parent)
    for fd in fds:
        os.set_inheritable(fd, False)
    remains = ChildRemains(fds[2:])
    for fd, capture in enumerate(remains.captures, 1):
        capture.divert(fd)
    faulthandler.enable(2, all_threads=False)
    work, orders = (Channel(socket.socket(fileno=fd)) for fd in fds[:2])
    host = ChildHost(work, orders, remains)
    threading.Thread(target=host.listen, name="workbench-control", daemon=True).start()
    # What cells need, before any comes: a Stop amid an import would leave half a module.
    import workbench.host.shell  # noqa: F401

    host.serve()


if __name__ == "__main__":
    main()
