"""Tasks that go straight to a worker that is lent: they do what tasks by the server do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.gates import Gate
from tests.process.test_lines import check_results, made, needs_no_server, soon
from workbench.engine.base import Engine
from workbench.errors import TaskCancelledError


def does(kind: Any = None, stop: Any = None) -> Any:
    if stop is not None:
        return stop()
    return kind and made(kind)


def go_straight(server: psutil.Process, submit: Callable[[], Any], times: int = 5) -> bool:
    """Whether tasks one after the other end without the server. To be asked until they do: a lease
    may end in between."""
    for _ in range(20):
        wb.get(submit())
    return needs_no_server(server, lambda: [soon(submit()) for _ in range(times)])


@pytest.fixture
def do(server: psutil.Process) -> Any:
    """A function whose tasks go straight to a worker from now on."""
    function = wb.remote(does)
    assert eventually(lambda: go_straight(server, function.remote))
    return function


def test_tasks_of_functions_that_take_turns_go_straight(server: psutil.Process, do: Any) -> None:
    """A lease is for all of them, once its worker knows them."""
    other = wb.remote(lambda: None)

    def turns() -> Any:
        soon(do.remote())
        return other.remote()

    assert eventually(lambda: go_straight(server, turns))


def test_arguments_by_reference_go_straight(server: psutil.Process, session: Engine) -> None:
    size, ref = wb.remote(len), wb.put(np.ones(1_000_000))
    array = wb.get(ref)  # stands for its object
    for given in (ref, array):
        assert eventually(lambda: go_straight(server, lambda: size.remote(given)))  # noqa: B023
    assert wb.get(size.remote(wb.put(np.ones(500_000)))) == 500_000  # which wasn't lent


def test_results_of_any_kind(do: Any, capsys: pytest.CaptureFixture[str]) -> None:
    check_results(do.remote, capsys)


def test_only_one_at_a_time_goes_there(session: Engine, do: Any, gate: Gate) -> None:
    """The others go where there is room; who waits for a worker has the lent one, too."""
    for function in (do, wb.remote(lambda _, stop: stop())):
        refs = [function.remote(None, gate.stop) for _ in range(session.workers + 1)]
        visitors = [gate.next() for _ in range(session.workers)]
        assert len({visitor.pid for visitor in visitors}) == session.workers
        for visitor in visitors:
            visitor.let_on("done")
        gate.next().let_on("done")
        assert wb.get(refs) == ["done"] * len(refs)


def test_it_can_be_stopped(server: psutil.Process, session: Engine, do: Any, gate: Gate) -> None:
    ref = do.remote(None, gate.stop)
    visitor = gate.next()

    def tasks() -> list[tuple[str, ...]]:
        workers = session.snapshot().workers
        return [worker.tasks for worker in workers if worker.pid == visitor.pid]

    assert eventually(lambda: tasks() == [("does",)])
    assert not wb.wait([ref], timeout=0)[0]
    wb.cancel(ref)
    with pytest.raises(TaskCancelledError):
        wb.get(ref)
    assert eventually(lambda: go_straight(server, do.remote))
