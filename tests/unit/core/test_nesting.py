"""Tasks that wait for tasks: none is stuck, and no more run than there are processors.

At random: `test_session_machine`, `test_lease_machine`.
"""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Make, Pair
from tests.unit.core.peers import BOOM, NONE
from workbench.core import events as ev

LENGTH = 40


@pytest.mark.parametrize("most", [60, 30])
def test_a_chain_takes_a_worker_each_and_fails_without(stage: Make, most: int) -> None:
    """Each waits for one that it has submitted; the last one finds no worker, or ends."""
    s = stage(workers=1)
    s.session.state.pool.most = most
    driver = s.driver()
    f = s.function(driver)
    (root,) = driver.submit(f, (), ())
    chain = []
    while s.starting:
        chain.append(worker := s.worker())
        s.all_read()
        assert len(worker.runs) == 1
        if len(chain) < LENGTH:
            worker.block(worker.submit(f, (), ()))
            s.turn()
    assert len(chain) == min(most, LENGTH)
    s.all_read()
    failed = [value for peer in chain for value in peer.values.values() if value.failed]
    assert len(failed) == (most < LENGTH)
    assert all(b"each waits for another one" in value.header for value in failed)
    for worker in reversed(chain):
        if worker.waits:
            worker.unblock()
        s.finish(worker, (NONE,), 1.0)
    assert driver.values[root] == NONE
    assert not s.session.state.scheduler.tasks


def test_what_is_needed_by_what_has_begun_comes_first_with_its_arguments(pair: Pair) -> None:
    """Also if another submitted it, and it waits for others itself."""
    s, driver, worker = pair(workers=1)
    f = s.function(driver)
    began = s.all_hear(driver.submit(f, (), ()))[0]
    others = [driver.submit(f, (), ())[0] for _ in range(5)]
    first = driver.submit(f, (), ())[0]
    last = s.hears(driver.submit(f, (first,), ()))[0]
    assert worker.runs[0].task == began
    worker.borrow((last,))
    worker.post(ev.Want((last,)))
    worker.block((last,))
    s.turn()
    helper = s.all_hear(s.worker())
    order = []
    for _ in range(8):
        if worker.waits and last in worker.values:
            worker.unblock()
        able = [peer for peer in (worker, helper) if peer.runs and not peer.waits]
        assert len(able) == 1
        order.append(able[0].runs[0].task)
        s.finish(able[0], (NONE,), 1.0)
    assert order == [first, last, began, *others]


def test_who_waits_for_what_is_there_lends_nothing(pair: Pair) -> None:
    """Nor does one whose wait is over, though it hasn't said so yet."""
    s, driver, worker = pair(workers=1)
    f = s.function(driver)
    ready, failed = driver.put(NONE), driver.put(BOOM)
    tasks = s.all_hear([driver.submit(f, (), ())[0] for _ in range(3)])
    pending = worker.submit(f, (), ())[0]
    for objects, enough in (
        ((ready,), 0), ((ready, failed), 0), ((failed, pending), 0), ((ready, pending), 1),
        ((999,), 0),
    ):  # fmt: skip
        worker.block(objects, enough)
        assert not s.turn(), objects
        worker.unblock()
        assert not s.turn()
    assert not s.starting
    worker.block((pending,))
    s.turn()
    helper = s.all_hear(s.worker())
    assert helper.runs[0].task == pending
    s.finish(helper, (NONE,), 1.0)
    assert not helper.runs, "the slot is the first one's"
    worker.unblock()
    s.finish(worker, (NONE,), 1.0)
    assert {p.runs[0].task for p in (worker, helper) if p.runs} == {tasks[1]}


def test_a_wait_ends_with_its_task(pair: Pair) -> None:
    """A thread that a task left waits on: the next task's slot isn't lent by that."""
    s, driver, worker = pair(workers=1)
    f = s.function(driver)
    first, second = (driver.submit(f, (), ())[0] for _ in range(2))
    s.all_read()
    worker.post(ev.Blocked(first))
    s.finish(worker, (NONE,), 1.0)
    assert worker.runs[0].task == second
    driver.submit(f, (), ())
    worker.post(ev.Blocked(first, 2))
    worker.post(ev.Unblocked(1))
    assert not s.turn()


def test_items_of_a_generator_end_the_wait_for_them(pair: Pair) -> None:
    s, driver, worker = pair(workers=1)
    f = s.function(driver)
    s.all_hear(driver.submit(f, (), ()))
    driver.submit(f, (), ())  # what would begin there
    stream = worker.submit(f, (), (), spec=ev.TaskSpec(ahead=4))[0]
    s.say(worker, ev.Blocked(worker.runs[0].task, 1, (stream,), 1, item=1))
    helper = s.all_hear(s.worker())
    assert helper.runs[0].task == stream
    used = s.session.state.scheduler
    helper.post(ev.Blocked(stream, 1))  # as if there were no room for more
    helper.post(ev.Yielded(stream, helper.id(), NONE))
    s.turn()
    assert used.used == used.cpus, "the first one's"
    worker.post(ev.Unblocked(1))
    worker.post(ev.Blocked(worker.runs[0].task, 2, (stream,), 1, item=1))  # it had come
    s.turn()
    assert used.used == used.cpus
