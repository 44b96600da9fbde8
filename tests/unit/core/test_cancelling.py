"""Whom a Cancel reaches: by any of a task's results, and the tasks it has submitted."""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Pair
from workbench.core import events as ev
from workbench.core import instructions as do


@pytest.mark.parametrize("recursive", [True, False])
def test_what_a_task_has_submitted_is_cancelled_with_it(pair: Pair, recursive: bool) -> None:
    s, driver, worker = pair(workers=1)
    function = s.function(driver)
    (parent,) = driver.submit(function, (), ())
    s.all_read()
    (child,) = worker.submit(function, (), ())
    (other,) = driver.submit(function, (), ())
    driver.post(ev.Cancel(parent, recursive=recursive))
    out = s.turn()
    assert do.Send(worker.number, do.Stop(parent)) in out
    left = s.session.state.scheduler.tasks.keys()
    assert left == {parent, other} | (set() if recursive else {child})


def test_any_result_stands_for_its_task(pair: Pair) -> None:
    s, driver, _ = pair(workers=1)
    function = s.function(driver)
    (running,) = driver.submit(function, (), ())
    first, _, last = driver.submit(function, (), (), returns=3)
    driver.post(ev.Cancel(last))
    s.turn()
    assert s.session.state.scheduler.tasks.keys() == {running}
    driver.post(ev.Cancel(first))
    driver.post(ev.Cancel(last))
    s.turn()
