"""`python -m workbench.cli.selftest NAME`: uses a small private session once, in a process of its
own, so that `doctor` has a timeout. Prints one JSON document; see `run`."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from workbench import api
from workbench.api.functions import remote
from workbench.cli import admin
from workbench.system import machine

NBYTES = 10_000_000
"""Size of the array that is stored and read, in bytes."""

PATIENCE = 10.0
"""Timeout of one answer in seconds, enough on a busy machine."""


def double(x: int) -> int:
    return 2 * x


class Accumulator:
    def __init__(self) -> None:
        self.count = 0

    def increment(self) -> int:
        self.count += 1
        return self.count


def run(name: str) -> dict[str, Any]:
    """Start a session of this name, try everything once, and end it.

    ``seconds`` of each step, in order; the first task and the first call count as starts.
    ``ports``: those on which the session's ``processes`` listen.
    """
    seconds: dict[str, float] = {}
    array = np.arange(NBYTES // 8)
    last = time.perf_counter()

    def lap(name: str) -> None:
        """Record the time since the last lap under this name; an empty name drops it."""
        nonlocal last
        if name:
            seconds[name] = time.perf_counter() - last
        last = time.perf_counter()

    api.init(session=name, engine="local", workers=2, memory="64MB", linger=0)
    _expect(api.get(remote(double).remote(1), timeout=PATIENCE), 2)
    lap("start, first task")
    ref = api.put(array)
    lap("put 10 MB")
    read = api.get(ref, timeout=PATIENCE)
    lap("get 10 MB")
    _expect(np.array_equal(read, array), True)
    lap("")
    _expect(api.get(remote(double).remote(21), timeout=PATIENCE), 42)
    lap("task")
    counter = remote(Accumulator).remote()
    _expect(api.get(counter.increment.remote(), timeout=PATIENCE), 1)
    lap("start of an actor")
    _expect(api.get(counter.increment.remote(), timeout=PATIENCE), 2)
    lap("actor call")
    pids = admin.processes(name)
    ports = {pid: found for pid in pids if (found := machine.tcp_listeners(pid))}
    del read, ref, counter
    lap("")
    api.shutdown()
    lap("end")
    return {"seconds": seconds, "processes": pids, "ports": ports}


def _expect(found: object, right: object) -> None:
    if found != right:
        raise RuntimeError(f"the session gave {found!r} where {right!r} was right")


if __name__ == "__main__":
    json.dump(run(sys.argv[1]), sys.stdout)
