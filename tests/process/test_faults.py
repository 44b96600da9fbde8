"""Processes die, one kind after the other: the rest goes on, or ends, and says so."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process import limits
from tests.process.gates import Gate
from tests.process.processes import Processes
from workbench.engines.base import Engine
from workbench.errors import SessionError, WorkerCrashedError


def test_what_a_dead_worker_put_stays(session: Engine, gate: Gate) -> None:
    stop = gate.stop

    @wb.remote(max_retries=0)
    def puts_and_dies() -> None:
        wb.put(np.full(100_000, 7), name="left")
        wb.put(np.full(100_000, 8))
        stop()

    large, small = wb.get(
        wb.remote(lambda: [wb.put(np.full(100_000, 5)), wb.put("small")]).remote()
    )
    died = puts_and_dies.remote()
    os.kill(gate.next().pid, signal.SIGKILL)
    with pytest.raises(WorkerCrashedError):
        wb.get(died)
    for worker in session.snapshot().workers:
        if worker.pid:  # 0 before it is forked, and that would be ourselves
            os.kill(worker.pid, signal.SIGKILL)
    assert (wb.get(wb.remote(lambda x: x + 1).remote(large)) == 6).all()
    assert (wb.get(large) == 5).all()
    assert wb.get(small) == "small"
    assert (wb.get(session.find("left")) == 7).all()

    def extents() -> int:
        return sum(record.where == "memory" for record in session.snapshot().objects)

    assert eventually(lambda: extents() == 2)  # 5 and 7; nothing kept the 8


def test_everything_ends_with_the_server(session: Engine, gate: Gate, processes: Processes) -> None:
    value = wb.put(np.arange(100_000))
    shown = wb.get(value)
    pending = wb.remote(gate.stop).remote()
    future = pending.future()
    gate.next()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(wb.get, pending)
        processes.server().kill()
        assert "server hung up" in str(waiting.exception(TIMEOUT))
    assert isinstance(future.exception(TIMEOUT), SessionError)

    async def awaits() -> None:
        await pending

    assert not wb.is_initialized()
    uses: list[Callable[[], object]] = [
        lambda: wb.put(1),
        lambda: wb.get(pending),
        lambda: wb.wait([pending]),
        lambda: wb.free(value),
        lambda: wb.remote(len).remote([]),
        wb.snapshot,
        pending.future,
        lambda: asyncio.run(awaits()),
    ]
    for use in uses:
        with pytest.raises(SessionError, match=r"`init\(\)`"):
            use()
    assert "session over" in repr(pending)
    assert (shown == np.arange(100_000)).all()
    assert processes.gone()
    again = wb.init(workers=1)  # which sweeps what the first one left behind
    assert again is not session
    assert wb.get(wb.remote(lambda: "a new one").remote()) == "a new one"


def test_the_pool_is_whole_again_after_its_newborn_processes_were_ended(
    runtime: str, processes: Processes
) -> None:
    """A forkserver at its start, then workers at theirs, with signals that ask them to end."""
    wb.init(workers=2)
    assert eventually(lambda: len(processes.all()) == 2)
    processes.forkserver().kill()
    assert wb.get(wb.remote(os.getpid).remote())
    for _ in range(3):
        for worker in processes.workers():
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.terminate()
        assert wb.get(wb.remote(os.getpid).remote())
    assert eventually(lambda: len(processes.workers()) == 2)
    wb.shutdown()


def test_a_fork_that_fails_costs_nobody_else(session: Engine, processes: Processes) -> None:
    @wb.remote
    class Counter:
        n = 0

        def add(self) -> int:
            self.n += 1
            return self.n

    first = Counter.remote()
    assert wb.get(first.add.remote()) == 1
    with limits.descriptors(processes.forkserver().pid):
        second = Counter.remote()
        added = second.add.remote()
        assert wb.wait([added], timeout=0.1)[1]  # it tries, and tries again
        assert wb.get(first.add.remote()) == 2
    assert wb.get(added) == 1
    assert wb.get(first.add.remote()) == 3
