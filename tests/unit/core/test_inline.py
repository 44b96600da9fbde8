"""Objects in messages have a share of the store; who asks for more than that is told no."""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Make, Stage
from tests.unit.core.peers import ABOUT, Peer
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.budget import INLINE_GRACE
from workbench.core.loop_events import Measured
from workbench.system.sizes import PAGE, inline_allowance

CAPACITY = 4 << 20
LEAVE = inline_allowance(CAPACITY)


def asks(s: Stage, peer: Peer) -> bool:
    """Whether it gets leave for another allowance."""
    peer.inbox.clear()
    peer.post(ev.Ask(1, "inline"))
    s.turn()
    (answer,) = peer.inbox
    assert isinstance(answer, do.Answer)
    return not answer.text


def fill(s: Stage, peer: Peer) -> list[int]:
    """Put as much as it may; the objects."""
    objects = [peer.put(ev.Value(bytes(LEAVE)))]
    while asks(s, peer):
        objects.append(peer.put(ev.Value(bytes(LEAVE))))
    return objects


def test_half_of_the_store_and_no_more_until_some_are_gone(stage: Make) -> None:
    s = stage(capacity=CAPACITY)
    driver, other = s.driver(), s.driver()
    objects = fill(s, driver)
    assert len(objects) * LEAVE == CAPACITY // 2
    assert not asks(s, other), "it is the store's share, not one's own"
    driver.drop(objects[0])
    assert asks(s, other)


def test_large_objects_leave_less_of_it(stage: Make) -> None:
    s = stage(capacity=CAPACITY)
    driver = s.driver()
    driver.post(ev.Opened(segment := driver.id(), CAPACITY))
    driver.post(ev.Grow(1, CAPACITY - LEAVE))
    s.turn()
    driver.post(ev.Sealed(driver.id(), ev.Value(b"E", segment, 0, CAPACITY - LEAVE), ABOUT))
    s.turn()
    assert asks(s, driver)
    driver.put(ev.Value(bytes(PAGE)))
    s.turn()
    assert not asks(s, driver)


def test_what_is_only_kept_warm_leaves_it_all(stage: Make) -> None:
    s = stage(capacity=CAPACITY)
    driver = s.driver()
    driver.post(ev.Opened(driver.id(), CAPACITY))
    driver.post(ev.Grow(1, CAPACITY))
    s.turn()
    assert asks(s, driver)


def test_arguments_of_tasks_take_of_it_until_these_are_over(stage: Make) -> None:
    s = stage(capacity=CAPACITY)
    driver, worker = s.driver(), s.worker()
    function = s.function(driver)
    submitted = 0
    while not submitted or asks(s, driver):
        driver.post(ev.Submit(driver.id(), function, bytes(LEAVE), (), (), 0))
        submitted += 1
    assert CAPACITY // 2 - LEAVE <= submitted * LEAVE <= CAPACITY // 2
    for _ in range(2):  # the function takes a little, too
        worker.read()
        worker.finish((), 0.1)
        s.turn()
    assert asks(s, driver)


def test_the_machines_last_memory_is_not_given_for_them(stage: Make) -> None:
    s = stage(capacity=CAPACITY, headroom=PAGE)
    driver = s.driver()
    driver.post(ev.Opened(driver.id(), CAPACITY))
    driver.post(ev.Grow(1, PAGE))
    s.turn()
    s.post(0, Measured(3 * PAGE, 1000 * PAGE, ()))
    s.turn()
    assert not asks(s, driver)


@pytest.mark.parametrize("how", ["puts", "results", "items"])
def test_who_sends_much_more_than_it_may_is_hung_up_on(stage: Make, how: str) -> None:
    s = stage(capacity=CAPACITY)
    driver, worker = s.driver(), s.worker()
    small = ev.Value(bytes(LEAVE))
    enough = (LEAVE + INLINE_GRACE) // LEAVE
    function = s.function(driver)
    sender = worker
    if how == "puts":
        sender = driver
        for _ in range(enough - 1):  # and the function
            driver.put(small)
    elif how == "results":
        driver.submit(function, (), (), enough)
        s.turn()
        worker.read()
        worker.finish((small,) * enough, 0.1)
    else:
        driver.submit(function, (), (), spec=ev.TaskSpec(ahead=1000))
        s.turn()
        for _ in range(enough):
            worker.post(ev.Yielded(worker.inbox[0].task, worker.id(), small))  # type: ignore[union-attr]
    assert not hung_up(s)
    if how == "items":
        worker.post(ev.Yielded(worker.inbox[0].task, worker.id(), small))  # type: ignore[union-attr]
    else:
        sender.put(small)
    assert hung_up(s) == [sender.number]


def hung_up(s: Stage) -> list[int]:
    return [each.client for each in s.turn() if isinstance(each, do.Hangup)]
