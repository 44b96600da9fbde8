"""Who gets memory, who waits for it, and what a refusal says."""

from __future__ import annotations

from tests.unit.core.conftest import Make
from tests.unit.core.peers import Peer, of, runs
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.memory_monitor import LATE
from workbench.system.sizes import PAGE


def grants(peer: Peer) -> list[tuple[int, int]]:
    return [(m.request, m.granted) for m in peer.inbox if isinstance(m, do.Granted)]


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


def test_who_reads_a_stream_has_the_segment_before_the_item(stage: Make) -> None:
    s = stage()
    driver, worker = s.driver(), s.worker()
    (task,) = driver.submit(s.function(driver), (), (), spec=ev.TaskSpec(ahead=2))
    assert worker.value(1) is None  # it asks for memory
    s.all_read()
    value = worker.value(1)
    assert value is not None
    worker.post(ev.Yielded(task, worker.id(), value))
    s.turn()
    assert [type(message) for message in driver.inbox] == [do.Shared, do.Item]


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
