"""Drivers of one session take turns at its workers, a task each."""

from __future__ import annotations

from tests.unit.core.conftest import Make, Stage
from tests.unit.core.peers import NONE, Peer
from workbench.core import instructions as do
from workbench.core.scheduler import BATCH_TASKS, SHARED_BATCH_TASKS


def order(s: Stage, worker: Peer) -> list[int]:
    """Tasks as they run, one after the other, until none is left."""
    ran = []
    s.all_read()
    while worker.runs:
        ran.append(worker.runs[0].task)
        worker.finish((NONE,), 1.0)
        s.all_read()
    return ran


def burst(driver: Peer, function: int, many: int) -> list[int]:
    return [driver.submit(function, (), ())[0] for _ in range(many)]


def test_what_tasks_submit_is_their_drivers(stage: Make) -> None:
    s = stage()
    one, two, worker = s.driver(), s.driver(), s.worker()
    f, g = s.function(one), s.function(two)
    parent = burst(one, f, 2)
    s.all_read()
    other = burst(two, g, 2)
    worker.borrow((f,))
    children = burst(worker, f, 2)
    assert order(s, worker) == [parent[0], parent[1], other[0], children[0], other[1], children[1]]


def test_fewer_are_sent_ahead_while_they_do(stage: Make) -> None:
    s = stage()
    one, two, worker = s.driver(), s.driver(), s.worker()
    f, g = s.function(one, seconds=0.0), s.function(two, seconds=0.0)
    burst(one, f, 2 * BATCH_TASKS)
    burst(two, g, 1)
    s.turn()
    assert sum(isinstance(m, do.Run) for m in worker.inbox) == SHARED_BATCH_TASKS
