"""Who gets memory, who waits for it, and what a refusal says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.core.conftest import Stage
from tests.unit.core.peers import Peer, of, runs
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import Tick
from workbench.core.memory_monitor import LATE
from workbench.system.sizes import PAGE

Make = Callable[..., Stage]


def grants(peer: Peer) -> list[tuple[int, int]]:
    return [(m.request, m.granted) for m in peer.inbox if isinstance(m, do.Granted)]


def test_requests_for_memory_are_served_in_order(stage: Make) -> None:
    s = stage(capacity=10 * PAGE)
    keeper, large, small = s.driver(), s.driver(), s.driver()
    for peer in (keeper, large, small):
        peer.post(ev.Opened(peer.id(), 20 * PAGE))
    keeper.post(ev.Grow(1, 6 * PAGE))
    s.all_read()
    large.post(ev.Grow(1, 8 * PAGE))
    small.post(ev.Grow(1, 2 * PAGE))
    s.turn()
    assert list(keeper.inbox) == [do.Trim(4 * PAGE)]
    assert not large.inbox
    assert not small.inbox, "there was room, but somebody else's turn"
    s.post(0, Tick())
    assert not s.turn(1), "an answer is due"
    keeper.post(ev.Trimmed(4 * PAGE, answer=True))
    s.turn()
    assert grants(large) == [(1, 8 * PAGE)]
    assert list(keeper.inbox)[1:] == [do.Trim(2 * PAGE)]
    keeper.post(ev.Trimmed(2 * PAGE, answer=True))
    s.turn()
    assert grants(small) == [(1, 2 * PAGE)]


def test_who_gave_all_that_was_asked_is_asked_again(stage: Make) -> None:
    """Small objects come unasked, so what would have been enough may not be any more."""
    s = stage(capacity=10 * PAGE)
    keeper, asker = s.driver(), s.driver()
    for peer in (keeper, asker):
        peer.post(ev.Opened(peer.id(), 20 * PAGE))
    keeper.post(ev.Grow(1, 10 * PAGE))
    s.all_read()
    asker.post(ev.Grow(1, 2 * PAGE))
    s.turn()
    keeper.put(ev.Value(b"P" * 100))
    keeper.post(ev.Trimmed(2 * PAGE, answer=True))
    s.turn()
    assert list(keeper.inbox) == [do.Trim(2 * PAGE), do.Trim(100)]
    keeper.post(ev.Trimmed(PAGE, answer=True))
    s.turn()
    assert grants(asker) == [(1, 2 * PAGE)]


@pytest.mark.parametrize("leaves", ["keeper", "asker"])
def test_who_leaves_while_memory_is_on_its_way_holds_nobody_up(stage: Make, leaves: str) -> None:
    s = stage(capacity=10 * PAGE)
    keeper, asker, third = s.driver(), s.driver(), s.driver()
    for peer in (keeper, asker, third):
        peer.post(ev.Opened(peer.id(), 20 * PAGE))
    keeper.post(ev.Grow(1, 6 * PAGE))
    asker.post(ev.Grow(1, 8 * PAGE))
    third.post(ev.Grow(1, 2 * PAGE))
    s.turn()
    assert keeper.inbox[-1] == do.Trim(4 * PAGE)
    s.leave({"keeper": keeper, "asker": asker}[leaves])
    if leaves == "asker":
        keeper.post(ev.Trimmed(0, answer=True))
        s.turn()
    assert grants(third) == [(1, 2 * PAGE)]


def test_a_segment_that_got_lost_is_shared_again(stage: Make) -> None:
    s = stage(capacity=10 * PAGE)
    writer, reader, other = s.driver(), s.driver(), s.driver()
    writer.post(ev.Opened(segment := writer.id(), 20 * PAGE))
    writer.post(ev.Grow(1, PAGE))
    s.turn()
    object = writer.put(ev.Value(b"E", segment, 0, PAGE))
    reader.borrow((object,))
    reader.post(ev.Want((object,)))
    s.turn()
    reader.inbox.clear()
    for peer in (reader, other):
        peer.post(ev.Reshare(5, segment))
        peer.post(ev.Reshare(6, 99))
    s.turn()
    moved = "The object's bytes have moved."
    refused = [do.Answer(5, text=moved), do.Answer(6, text=moved)]
    assert list(reader.inbox) == [do.Shared(segment, 20 * PAGE), do.Answer(5), refused[1]]
    assert list(other.inbox) == refused, "it was never shared with this one"


def test_a_refusal_lists_what_holds_the_room(stage: Make) -> None:
    s = stage(capacity=10 * PAGE)
    driver, other = s.driver(), s.driver()
    driver.post(ev.Opened(segment := driver.id(), 20 * PAGE))
    driver.post(ev.Grow(1, 9 * PAGE))
    s.turn()
    offset = 0
    for pages, kind, name in [(1, "small", ""), (6, "large", ""), (2, "medium", "m")]:
        value = ev.Value(b"E", segment, offset, pages * PAGE)
        driver.post(ev.Sealed(driver.id(), value, ev.About(kind, 0, 0, 0, 0.0, 0.0), name))
        offset += pages * PAGE
    other.post(ev.Opened(other.id(), 20 * PAGE))
    other.post(ev.Grow(7, 2 * PAGE))
    s.turn()
    answer = other.inbox[-1]
    assert isinstance(answer, do.Granted)
    assert (answer.request, answer.granted) == (7, 0)
    assert "moves nothing to disk" in answer.text
    told = answer.snapshot
    assert told is not None
    assert (told.granted, told.capacity) == (9 * PAGE, 10 * PAGE)
    assert [o.about and o.about.type for o in told.objects] == ["large", "medium", "small"]
    assert (told.objects[1].names, told.objects[1].holders) == (("m",), (driver.number,))


def test_inline_objects_count_too(stage: Make) -> None:
    s = stage(capacity=2 * PAGE)
    driver = s.driver()
    driver.post(ev.Opened(driver.id(), 4 * PAGE))
    driver.put(ev.Value(bytes(2 * PAGE)))
    driver.post(ev.Grow(1, PAGE))
    s.turn()
    assert grants(driver) == [(1, 0)]


def test_memory_is_watched_while_a_task_needs_no_processor(stage: Make) -> None:
    s = stage(workers=1)
    s.session.memory_monitor.headroom = 1
    driver, worker = s.driver(), s.worker()
    driver.submit(s.function(driver), (), (), spec=ev.TaskSpec(cpus=0))
    s.turn()
    assert runs(worker)
    assert of(do.Measure, s.turn(after=LATE))


def test_the_last_extent_of_one_who_left_takes_the_segment_along(stage: Make) -> None:
    s = stage(capacity=10 * PAGE)
    maker, reader = s.driver(), s.driver()
    maker.post(ev.Opened(segment := maker.id(), 4 * PAGE))
    maker.post(ev.Grow(1, 4 * PAGE))
    s.turn()
    first, last = (maker.put(ev.Value(b"E", segment, n * PAGE, PAGE)) for n in (1, 3))
    reader.borrow((first, last))
    reader.post(ev.Want((first, last)))
    s.turn()
    assert do.Shared(segment, 4 * PAGE) in reader.inbox
    assert s.leave(maker) == [do.Punch(segment, ((0, PAGE), (2 * PAGE, PAGE)))]
    reader.drop(first)
    assert s.turn() == [do.Punch(segment, ((PAGE, PAGE),))]
    reader.drop(last)
    assert s.turn() == [do.Discard(segment), do.Send(reader.number, do.Unshare(segment))]
