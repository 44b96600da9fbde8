"""Who gets memory, who waits for it, and what a refusal says.

Objects in messages have a share of the store; who asks for more than that is told no.
"""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Drivers, Make, Pair, Stage
from tests.unit.core.peers import ABOUT, Peer, grants, of, runs
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.budget import INLINE_GRACE
from workbench.core.loop_events import Measured
from workbench.core.memory_monitor import LATE
from workbench.system.sizes import PAGE, inline_allowance


def test_who_gave_all_that_was_asked_is_asked_again(drivers: Drivers) -> None:
    """Small objects come unasked, so what would have been enough may not be any more."""
    s, (keeper, asker) = drivers(2, capacity=10 * PAGE)
    s.all_hear(keeper.open_arena(20, granted=10))
    s.hears(asker.open_arena(20, granted=2))
    keeper.put(ev.Value(b"P" * 100))
    s.say(keeper, ev.Trimmed(2 * PAGE, answer=True))
    assert list(keeper.inbox) == [do.Trim(2 * PAGE), do.Trim(100)]
    s.say(keeper, ev.Trimmed(PAGE, answer=True))
    assert grants(asker) == [(1, 2 * PAGE)]


def test_a_segment_that_got_lost_is_shared_again(drivers: Drivers) -> None:
    s, (writer, reader, other) = drivers(3, capacity=10 * PAGE)
    segment = s.hears(writer.open_arena(20, granted=1))
    object = writer.put(ev.Value(b"E", segment, 0, PAGE))
    reader.borrow((object,))
    s.say(reader, ev.Want((object,)))
    reader.inbox.clear()
    for peer in (reader, other):
        peer.post(ev.Reshare(5, segment))
        peer.post(ev.Reshare(6, 99))
    s.turn()
    moved = "The object's bytes have moved."
    refused = [do.Answer(5, text=moved), do.Answer(6, text=moved)]
    assert list(reader.inbox) == [do.Shared(segment, 20 * PAGE), do.Answer(5), refused[1]]
    assert list(other.inbox) == refused, "it was never shared with this one"


def test_who_reads_a_stream_has_the_segment_before_the_item(pair: Pair) -> None:
    s, driver, worker = pair()
    (task,) = driver.submit(s.function(driver), (), (), spec=ev.TaskSpec(ahead=2))
    assert worker.value(1) is None  # it asks for memory
    s.all_read()
    value = worker.value(1)
    assert value is not None
    s.say(worker, ev.Yielded(task, worker.id(), value))
    assert [type(message) for message in driver.inbox] == [do.Shared, do.Item]


def test_a_refusal_lists_what_holds_the_room(drivers: Drivers) -> None:
    s, (driver, other) = drivers(2, capacity=10 * PAGE)
    segment = s.hears(driver.open_arena(20, granted=9))
    offset = 0
    for pages, kind, name in [(1, "small", ""), (6, "large", ""), (2, "medium", "m")]:
        value = ev.Value(b"E", segment, offset, pages * PAGE)
        driver.post(ev.Sealed(driver.id(), value, ev.About(kind, 0, 0, 0, 0.0, 0.0), name))
        offset += pages * PAGE
    s.hears(other.open_arena(20, granted=2))
    (answer,) = of(do.Grown, other.inbox)
    assert answer.granted == 0
    assert "moves nothing to disk" in answer.text
    told = answer.snapshot
    assert told is not None
    assert (told.granted, told.capacity) == (9 * PAGE, 10 * PAGE)
    assert [o.about and o.about.type for o in told.objects] == ["large", "medium", "small"]
    assert (told.objects[1].names, told.objects[1].holders) == (("m",), (driver.number,))


def test_memory_is_watched_while_a_task_needs_no_processor(stage: Make) -> None:
    s = stage(workers=1)
    s.session.memory_monitor.headroom = 1
    driver, worker = s.driver(), s.worker()
    s.hears(driver.submit(s.function(driver), (), (), spec=ev.TaskSpec(cpus=0)))
    assert runs(worker)
    assert of(do.Measure, s.turn(after=LATE))


CAPACITY = 4 << 20
LEAVE = inline_allowance(CAPACITY)
"""Bytes that a process may send at a time; see `inline_allowance`."""


def asks(s: Stage, peer: Peer) -> bool:
    """Whether it gets leave for another allowance."""
    peer.inbox.clear()
    s.say(peer, ev.Ask(1, "inline"))
    (answer,) = of(do.Answer, peer.inbox)
    return not answer.text


def fill(s: Stage, peer: Peer) -> list[int]:
    """Put as much as it may; the objects."""
    objects = [peer.put(ev.Value(bytes(LEAVE)))]
    while asks(s, peer):
        objects.append(peer.put(ev.Value(bytes(LEAVE))))
    return objects


def test_half_of_the_store_and_no_more_until_some_are_gone(drivers: Drivers) -> None:
    s, (driver, other) = drivers(2, capacity=CAPACITY)
    objects = fill(s, driver)
    assert len(objects) * LEAVE == CAPACITY // 2
    assert not asks(s, other), "it is the store's share, not one's own"
    driver.drop(objects[0])
    assert asks(s, other)


def test_large_objects_leave_less_of_it(drivers: Drivers) -> None:
    s, (driver,) = drivers(capacity=CAPACITY)
    segment = s.hears(driver.open_arena(CAPACITY // PAGE, granted=(CAPACITY - LEAVE) // PAGE))
    s.say(driver, ev.Sealed(driver.id(), ev.Value(b"E", segment, 0, CAPACITY - LEAVE), ABOUT))
    assert asks(s, driver)
    s.hears(driver.put(ev.Value(bytes(PAGE))))
    assert not asks(s, driver)


def test_what_is_only_kept_warm_leaves_it_all(drivers: Drivers) -> None:
    s, (driver,) = drivers(capacity=CAPACITY)
    s.hears(driver.open_arena(CAPACITY // PAGE, granted=CAPACITY // PAGE))
    assert asks(s, driver)


def test_arguments_of_tasks_take_of_it_until_these_are_over(pair: Pair) -> None:
    s, driver, worker = pair(capacity=CAPACITY)
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


def test_the_machines_last_memory_is_not_given_for_them(drivers: Drivers) -> None:
    s, (driver,) = drivers(capacity=CAPACITY, headroom=PAGE)
    s.hears(driver.open_arena(CAPACITY // PAGE, granted=1))
    s.post(0, Measured(3 * PAGE, 1000 * PAGE, ()))
    s.turn()
    assert not asks(s, driver)


@pytest.mark.parametrize("how", ["puts", "results", "items"])
def test_who_sends_much_more_than_it_may_is_hung_up_on(pair: Pair, how: str) -> None:
    s, driver, worker = pair(capacity=CAPACITY)
    small = ev.Value(bytes(LEAVE))
    enough = (LEAVE + INLINE_GRACE) // LEAVE
    function = s.function(driver)
    sender = worker
    if how == "puts":
        sender = driver
        for _ in range(enough - 1):  # and the function
            driver.put(small)
    elif how == "results":
        s.hears(driver.submit(function, (), (), enough))
        worker.read()
        worker.finish((small,) * enough, 0.1)
    else:
        s.hears(driver.submit(function, (), (), spec=ev.TaskSpec(ahead=1000)))
        for _ in range(enough):
            worker.post(ev.Yielded(worker.inbox[0].task, worker.id(), small))  # type: ignore[union-attr]
    assert not hung_up(s)
    if how == "items":
        worker.post(ev.Yielded(worker.inbox[0].task, worker.id(), small))  # type: ignore[union-attr]
    else:
        sender.put(small)
    assert hung_up(s) == [sender.number]


def hung_up(s: Stage) -> list[int]:
    return [each.client for each in of(do.Hangup, s.turn())]


def test_arguments_that_take_too_much_are_refused(drivers: Drivers) -> None:
    s, (driver,) = drivers()
    function = s.function(driver)
    s.all_read()
    (hangup,) = of(do.Hangup, s.say(driver, ev.Submit(driver.id(), function, bytes(64 << 20))))
    assert "more arguments" in hangup.reason
