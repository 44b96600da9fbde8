"""Processes that are out of file descriptors: they go on, and nobody else notices."""

from __future__ import annotations

import os
import resource

import numpy as np
import psutil
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.processes import Processes, few_descriptors
from tests.process.scripts import Scripts
from tests.process.test_actors import counter
from workbench.client.base import SPARES
from workbench.engine.base import Engine
from workbench.engine.queries import Names
from workbench.errors import ActorDiedError, LimitError


@pytest.mark.fresh_session
def test_a_driver_without_descriptors_stays_in_its_session(session: Engine) -> None:
    @wb.remote
    class Maker:
        def __init__(self, name: str) -> None:
            wb.put(np.ones(100_000), name=name)

    most = SPARES + 2
    makers = [Maker.remote(f"x{i}") for i in range(most)]  # a call might open a line to its actor
    assert eventually(lambda: len(session.ask(Names())) == len(makers))

    def total(number: int) -> float:
        """Of an array in a segment of its own."""
        return float(wb.get(f"x{number}").sum())

    wb.get(wb.put("all is imported"))
    with few_descriptors(os.getpid(), others=1):
        seen: list[float] = []
        for use in (lambda: seen.extend(map(total, range(most))), lambda: wb.put(np.ones(100_000))):
            with pytest.raises(LimitError, match="can open no more files"):
                use()
        assert len(seen) >= 3  # with those it had spared
        assert [total(i) for i in range(len(seen))] == seen == [100_000] * len(seen)
        assert wb.get(wb.put("goes on")) == "goes on"
    assert [total(i) for i in range(most)] == [100_000] * most
    assert (wb.get(wb.put(np.ones(100_000))) == 1).all()
    for i in range(most):
        wb.free(f"x{i}")


def test_a_server_without_descriptors_has_newcomers_wait_and_tells_them_at_last(
    script: Scripts, processes: Processes, runtime: str
) -> None:
    wb.init(session="two", workers=1)
    task = wb.remote(lambda: np.full(100_000, 2))
    wb.get(task.remote())
    server = psutil.Process(processes.server().pid)
    with few_descriptors(server.pid):
        before = sum(server.cpu_times()[:2])
        driver = script(
            """
            from workbench.errors import SessionError
            try:
                wb.init(session="two").put(1)
            except SessionError as error:
                say(error)
            """
        )
        assert "can open no more connections" in driver.line()
        assert sum(server.cpu_times()[:2]) - before < 0.5, "it does nothing else than that"
        assert (wb.get(task.remote()) == 2).all()


def test_the_server_may_open_all_files_and_workers_as_many_as_here(processes: Processes) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, before[1]))
    try:
        wb.init(workers=1)
        soft, hard = wb.get(wb.remote(resource.getrlimit).remote(resource.RLIMIT_NOFILE))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert soft == 500
    assert resource.prlimit(processes.server().pid, resource.RLIMIT_NOFILE) == (hard, hard)


def test_a_fork_that_fails_costs_nobody_else(session: Engine, processes: Processes) -> None:
    Counter = counter()
    first = Counter.remote()
    assert wb.get(first.add.remote()) == 1
    with few_descriptors(processes.forkserver().pid):
        added = Counter.remote().add.remote()
        assert wb.wait([added], timeout=0.1)[1]  # it tries, and tries again
        assert wb.get(first.add.remote()) == 2
    assert wb.get([added, first.add.remote()]) == [1, 3]


def test_a_worker_that_can_have_no_thread_says_which_limit(processes: Processes) -> None:
    Counter = counter()
    wb.get(Counter.remote().add.remote())
    resource.prlimit(processes.forkserver().pid, resource.RLIMIT_AS, (1 << 20, 1 << 40))
    with pytest.raises(ActorDiedError, match="`ulimit -v` allows a process"):
        wb.get(Counter.remote().add.remote())
    wb.shutdown()


@pytest.mark.fresh_session
def test_who_has_no_address_space_is_told_which_limit(session: Engine) -> None:
    make, before = wb.remote(lambda: np.ones(100_000)), resource.getrlimit(resource.RLIMIT_AS)
    most = psutil.Process().memory_info().vms + (99 << 20)  # the store is 64 MB, and as much again
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        for use in (lambda: wb.put(np.ones(100_000)), lambda: wb.get(make.remote())):
            with pytest.raises(LimitError, match="`ulimit -v` allows a process"):
                use()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert wb.get(wb.put(np.ones(100_000))).sum() == wb.get(make.remote()).sum()
