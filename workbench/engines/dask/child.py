"""`python -m workbench.engines.dask.child WORK CONTROL PARENT NUMBER`: runs tasks, one at a time.

A child of a worker of Dask's: see `slots`. Its descriptors 1 and 2 are captured, its prints and
displays go to the worker, which sends them on. It ends with the worker, or when that hangs up.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from workbench.engines.dask.channel import Channel, ChildReady
from workbench.engines.dask.remains import ChildRemains
from workbench.system.parent_death import die_with_parent


def captured() -> ChildRemains:
    """Where 1 and 2 lead from now on, and what isn't sent yet is kept."""
    remains = ChildRemains()
    for fd, capture in enumerate(remains.captures, 1):
        capture.divert(fd)
    faulthandler.enable(2, all_threads=False)
    return remains


def listen(control: Channel, heard: Callable[[Any], None]) -> None:
    """Hand over what comes on the second channel, in a thread of its own. Its end is ours, though
    a task may run: nobody is left who wants its result."""

    def read() -> None:
        try:
            while True:
                message, _ = control.receive()
                heard(message)
        except (EOFError, OSError):
            os._exit(0)

    threading.Thread(target=read, name="workbench-control", daemon=True).start()


def main() -> None:
    work, control, parent, number = map(int, sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # until there is a task to stop
    die_with_parent(parent)
    channel = Channel(socket.socket(fileno=work))
    remains = captured()
    from workbench.engines.dask.child_host import ChildHost

    orders = Channel(socket.socket(fileno=control))
    host = ChildHost(channel, remains, number, orders)
    listen(orders, host.heard)
    channel.send(ChildReady(), remains.descriptors())
    # What cells need, before any comes: a Stop amid an import would leave half a module.
    import workbench.host.shell  # noqa: F401

    host.serve()


if __name__ == "__main__":
    main()
