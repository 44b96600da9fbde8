"""Whose task ends where memory runs short, and what becomes of it."""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Make
from tests.unit.core.peers import Peer, of, runs, told
from workbench.core import instructions as do
from workbench.core.loop_events import Measured


def test_where_memory_runs_short_the_youngest_of_those_who_have_most_ends(stage: Make) -> None:
    s = stage(workers=3, headroom=1000)
    driver = s.driver()
    idle, busy = [s.worker() for _ in range(3)], list[Peer]()
    for _ in range(3):
        driver.submit(s.function(driver), (), ())
        s.turn(1.0)
        busy += [worker for worker in idle if runs(worker) and worker not in busy]
    old, young, small = busy
    sizes = ((old.worker, 5000), (young.worker, 4000), (small.worker, 1000))
    s.post(0, Measured(1000, 100_000, sizes))
    assert not of(do.Kill, s.turn()), "enough is left"
    s.post(0, Measured(999, 100_000, sizes))
    assert of(do.Kill, s.turn()) == [do.Kill(young.worker)]


@pytest.mark.parametrize("others", [1, 0])
def test_what_memory_was_short_for_is_tried_again_unless_it_ran_alone(
    stage: Make, others: int
) -> None:
    s = stage(workers=1 + others, headroom=1000)
    driver = s.driver()
    workers = [s.worker() for _ in range(1 + others)]
    f = s.function(driver)
    first, *_ = [driver.submit(f, (), (), retries=1)[0] for _ in workers]
    s.turn()
    victim = next(worker for worker in workers if runs(worker) == [first])
    s.post(0, Measured(0, 100_000, ((victim.worker, 50_000),)))
    assert of(do.Kill, s.turn()) == [do.Kill(victim.worker)]
    s.crash(victim)
    assert told(driver) == ({} if others else {first: b"!memory"})
