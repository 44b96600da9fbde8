"""Processes die, one kind after the other: the rest goes on, or ends, and says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import workbench as wb
from tests.patience import TIMEOUT
from tests.process import limits
from tests.process.gates import Gate
from tests.process.processes import Processes
from tests.process.test_actors import counter
from workbench.engine.base import Engine
from workbench.errors import SessionError


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
    wb.shutdown()


def test_a_fork_that_fails_costs_nobody_else(session: Engine, processes: Processes) -> None:
    Counter = counter()
    first = Counter.remote()
    assert wb.get(first.add.remote()) == 1
    with limits.descriptors(processes.forkserver().pid):
        added = Counter.remote().add.remote()
        assert wb.wait([added], timeout=0.1)[1]  # it tries, and tries again
        assert wb.get(first.add.remote()) == 2
    assert wb.get([added, first.add.remote()]) == [1, 3]
