"""The decisions worth a name, one story each. What must hold always is the machine's business."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.unit.core.conftest import Stage
from tests.unit.core.peers import ABOUT, Peer
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.catalog import MOST_SITES
from workbench.core.events import ID_BITS
from workbench.core.lifetime import ALONE_AT_START, FINAL
from workbench.core.loop_events import Left, Tick, WorkerExited
from workbench.core.memory_monitor import LATE
from workbench.core.pool import (
    KILLS,
    MOST,
    MOST_STARTUP_FAILURES,
    PAUSES,
    RETRY_SECONDS,
    SPARE_SECONDS,
)
from workbench.core.scheduler import BATCH_SECONDS, BATCH_TASKS
from workbench.core.session import STARTER
from workbench.core.snapshot_builder import take_snapshot
from workbench.system.sizes import PAGE

T = TypeVar("T")

Make = Callable[..., Stage]

NONE = ev.Value(b"N")


def runs(peer: Peer) -> list[int]:
    """Tasks the peer has been sent and hasn't read."""
    return [m.task for m in peer.inbox if isinstance(m, do.Run)]


def told(peer: Peer) -> dict[int, bytes]:
    """What the peer is told of objects: by id, the header up to its first newline."""
    return {m.object: m.value.header.split(b"\n")[0] for m in peer.inbox if isinstance(m, do.Ready)}


def of(kind: type[T], out: list[do.Anything]) -> list[T]:
    return [i for i in out if isinstance(i, kind)]


# -- order ----------------------------------------------------------------------------------------


def test_short_tasks_are_sent_ahead_of_time(stage: Make) -> None:
    s = stage()
    driver, worker = s.driver(), s.worker()
    f = s.function(driver, seconds=BATCH_SECONDS / 8)
    tasks = [driver.submit(f, (), ())[0] for _ in range(50)]
    s.turn()
    assert runs(worker) == tasks[:8]


def test_a_batch_has_an_end_however_short_its_tasks(stage: Make) -> None:
    s = stage()
    driver, worker = s.driver(), s.worker()
    f = s.function(driver, seconds=0.0)
    for _ in range(2 * BATCH_TASKS):
        driver.submit(f, (), ())
    s.turn()
    assert len(runs(worker)) == BATCH_TASKS


def test_an_unknown_function_is_not_queued_behind_others(stage: Make) -> None:
    s = stage()
    driver, worker = s.driver(), s.worker()
    short, unknown = s.function(driver, seconds=0.0), s.function(driver)
    first, *_ = [driver.submit(f, (), ())[0] for f in (short, unknown, short)]
    s.turn()
    assert runs(worker) == [first]


def test_nothing_is_queued_behind_an_unknown_function(stage: Make) -> None:
    s = stage()
    driver, worker = s.driver(), s.worker()
    short, unknown = s.function(driver, seconds=0.0), s.function(driver)
    first, *_ = [driver.submit(f, (), ())[0] for f in (unknown, short)]
    s.turn()
    assert runs(worker) == [first]


def test_what_was_sent_too_early_is_recalled_for_whoever_has_time(stage: Make) -> None:
    s = stage(workers=2)
    driver, busy = s.driver(), s.worker()
    f = s.function(driver, seconds=BATCH_SECONDS / 8)
    tasks = [driver.submit(f, (), ())[0] for _ in range(8)]
    s.all_read()
    late = s.worker()
    assert list(busy.inbox) == [do.Recall(4)]
    busy.read()
    s.turn()
    assert runs(late)[0] == tasks[4]
    assert sorted([*runs(late), *runs(busy)]) == tasks[4:]


def test_a_task_that_nobody_waits_for_goes_with_its_submitter(stage: Make) -> None:
    s = stage(workers=1)
    leaver, other, worker = s.driver(), s.driver(), s.worker()
    f = s.function(leaver)
    running, _, shared = (leaver.submit(f, (), ())[0] for _ in range(3))
    s.all_read()
    other.borrow((shared,))
    other.post(ev.Want((shared,)))
    s.turn()
    s.leave(leaver)
    assert set(s.session.state.scheduler.tasks) == {running, shared}
    for _ in range(2):
        worker.finish((NONE,), 1.0)
        s.all_read()
    assert other.values[shared] == NONE


# -- workers --------------------------------------------------------------------------------------


def test_a_worker_that_waits_lends_its_slot(stage: Make) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    f = s.function(driver)
    driver.submit(f, (), ())
    s.all_read()
    worker.block()
    assert not of(do.Fork, s.turn()), "there is nothing to run in the slot"
    driver.submit(f, (), ())
    assert len(of(do.Fork, s.turn())) == 1
    helper = s.worker()
    assert len(runs(helper)) == 1
    s.all_read()
    helper.finish((NONE,), 1.0)
    worker.unblock()
    s.turn()
    assert s.session.deadline() == s.now + SPARE_SECONDS
    assert not s.turn(SPARE_SECONDS / 2)
    assert of(do.Hangup, s.turn(SPARE_SECONDS / 2)) == [
        do.Hangup(helper.number, "not needed any more", is_fault=False)
    ]
    assert s.leave(helper) == [do.Kill(helper.worker, grace=True)]
    assert s.session.deadline() is None


def test_a_worker_that_hung_up_is_killed_and_its_slot_is_free(stage: Make) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    f = s.function(driver)
    running, queued = (driver.submit(f, (), (), retries=1)[0] for _ in range(2))
    s.turn()
    assert s.leave(worker) == [do.Kill(worker.worker, grace=True), do.Fork(worker.worker + 1)]
    other = s.worker()
    assert runs(other) == [queued]
    s.post(0, WorkerExited(worker.worker, -9))
    assert not s.turn(), "there is one worker, as there shall be"
    s.all_read()
    other.finish((NONE,), 1.0)
    s.turn()
    assert runs(other) == [running]


@pytest.mark.parametrize("how", ["given back", "crash"])
def test_what_is_cancelled_is_not_sent_again(stage: Make, how: str) -> None:
    s = stage()
    driver, worker = s.driver(), s.worker()
    f = s.function(driver, seconds=0.0)
    tasks = [driver.submit(f, (), (), retries=1)[0] for _ in range(3)]
    s.turn()
    assert runs(worker) == tasks
    driver.post(ev.Cancel(tasks[1], False, True))
    if how == "crash":  # before it heard of it
        s.turn()
        s.crash(worker)
        worker = s.worker()
        assert runs(worker) == [tasks[0], tasks[2]]
    else:
        worker.post(ev.GaveBack((tasks[1],)))
        s.turn()
        assert runs(worker) == tasks
    assert told(driver)[tasks[1]] == b"!cancelled"


def test_a_crash_is_the_running_tasks_and_that_of_those_before_it(stage: Make) -> None:
    """Those before it have run too, and their results were lost; those behind it haven't begun."""
    s = stage()
    driver, worker = s.driver(), s.worker()
    f = s.function(driver, seconds=0.0)
    tasks = [driver.submit(f, (), (), retries=r)[0] for r in (1, 0, 0, 0)]
    s.turn()
    s.post(0, WorkerExited(worker.worker, -9, "", tasks[2]))
    s.leave(worker)
    assert runs(s.worker()) == [tasks[0], tasks[3]]
    assert told(driver) == {tasks[1]: b"!crashed", tasks[2]: b"!crashed"}


@pytest.mark.parametrize("retries", [0, 1])
def test_what_a_dead_worker_had_not_sent_is_shown_before_its_end(stage: Make, retries: int) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    task = driver.submit(s.function(driver), (), (), retries=retries, origin=7)[0]
    s.turn()
    unsent = ((task, "stdout", b"so far\n"), (task + 1, "stdout", b"of no task\n"))
    s.post(0, WorkerExited(worker.worker, -9, "", task, unsent=unsent))
    sent = [i.message for i in of(do.Send, s.turn()) if i.to == driver.number]
    assert sent[0] == ev.Output(task, "stdout", b"so far\n", 7, 1)
    assert len(sent) == 1 + (not retries)  # and that it failed


def test_tasks_that_wait_for_tasks_do_not_fill_the_machine(stage: Make) -> None:
    s = stage(workers=1)
    driver = s.driver()
    f = s.function(driver)
    for _ in range(MOST + 2):
        driver.submit(f, (), ())
        s.turn()
        if not s.starting:
            break
        worker = s.worker()
        worker.read()
        worker.block()
    assert len(s.session.state.scheduler.workers) == MOST


def test_workers_that_die_before_they_speak_are_not_made_for_ever(stage: Make) -> None:
    s = stage(workers=1)
    driver = s.driver()
    f = s.function(driver)
    before = driver.submit(f, (), ())[0]
    after = driver.submit(f, (before,), ())[0]
    for _ in range(MOST_STARTUP_FAILURES):
        s.post(0, WorkerExited(s.starting.pop(), 1))
        s.turn()
    assert not s.starting
    later = driver.submit(f, (), ())[0]  # is reason to try once more
    s.turn()
    s.post(0, WorkerExited(s.starting.pop(), 1))
    s.turn()
    assert not s.starting
    assert told(driver) == {before: b"!crashed", after: b"!crashed", later: b"!crashed"}


@pytest.mark.parametrize(
    "end",
    [
        lambda worker: WorkerExited(worker, 1),
        lambda worker: WorkerExited(worker, 0, unforked="Too many open files"),
        lambda worker: WorkerExited(worker, -9),
    ],
    ids=["it can't begin", "it isn't born", "it is killed"],
)
def test_a_broken_pool_tries_again_now_and_then_though_nobody_submits(
    stage: Make, end: Callable[[int], WorkerExited]
) -> None:
    s = stage(workers=2)
    s.driver()  # else the session ends
    while not s.session.state.pool.broken:
        while s.starting:
            s.post(0, end(s.starting.pop()))
        s.turn(RETRY_SECONDS)
    tries = []
    while len(tries) < 8:
        assert not s.starting
        when = s.session.deadline()
        assert when is not None
        assert when > s.now, "it asks for no time that has passed"
        tries.append(when - s.now)
        s.turn(when - s.now)
        s.post(0, end(s.starting.pop()))
        assert not s.starting, "one at a time"
        s.turn()
    first, longest = PAUSES
    assert tries == [pytest.approx(min(first * 2**n, longest)) for n in range(8)]
    s.turn(longest)
    s.worker()
    s.turn()
    assert len(s.starting) == 1  # it is whole again
    assert s.session.state.pool.startup_failures == 0


def test_a_whole_pool_that_could_fork_nobody_for_an_actor_waits_for_nothing(stage: Make) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    handles = driver.put(ev.Value(b"P"))
    creation = ev.Submit(handles, s.function(driver), b"", returns=0, actor=handles)
    driver.post(ev.Create(creation))
    s.turn()
    while s.starting:
        s.post(0, WorkerExited(s.starting.pop(), 0, unforked="Too many open files"))
        s.turn()
        s.turn(RETRY_SECONDS)
    assert s.session.state.pool.broken
    s.turn(PAUSES[0])
    when = s.session.deadline()
    assert when is None or when > s.now
    assert worker.number in s.session.state.clients


@pytest.mark.parametrize("unforked", ["", "the process that forks workers ended"])
def test_workers_that_are_killed_before_they_speak_are_made_for_longer(
    stage: Make, unforked: str
) -> None:
    """Or the process that was to fork them: somebody kills, and Python isn't broken."""
    s = stage(workers=1)
    driver = s.driver()
    task = driver.submit(s.function(driver), (), ())[0]
    for _ in range(MOST_STARTUP_FAILURES * KILLS):
        s.post(0, WorkerExited(s.starting.pop(), -9, unforked=unforked))
        s.turn()
        s.turn(RETRY_SECONDS)
    assert not s.starting
    assert told(driver) == {task: b"!crashed"}


def test_the_pool_is_whole_again_after_whatever_ended_its_newborn_workers(stage: Make) -> None:
    """The forkserver's death at its start, SIGTERM, a process limit: nobody's code is to blame."""
    s = stage(workers=4)
    driver = s.driver()
    for event in (
        lambda worker: WorkerExited(worker, -9, unforked="the process that forks workers ended"),
        lambda worker: WorkerExited(worker, -15),
    ):
        while s.starting:
            s.post(0, event(s.starting.pop()))
        s.turn()
        s.turn(RETRY_SECONDS)
        assert len(s.starting) == 4
    task = driver.submit(s.function(driver), (), ())[0]
    worker = s.worker()
    s.turn()
    assert runs(worker) == [task]


def test_a_fork_that_fails_is_tried_again_after_a_moment_and_not_for_ever(stage: Make) -> None:
    s = stage(workers=1)
    driver = s.driver()
    task = driver.submit(s.function(driver), (), ())[0]
    s.turn()
    tries = 0
    while s.starting:
        tries += 1
        s.post(0, WorkerExited(s.starting.pop(), 0, unforked="Resource temporarily unavailable"))
        s.turn()
        assert not s.starting  # not at once
        s.turn(RETRY_SECONDS)
    assert tries == MOST_STARTUP_FAILURES * KILLS
    assert told(driver) == {task: b"!crashed"}


def test_tasks_go_on_if_some_worker_lives(stage: Make) -> None:
    s = stage(workers=2)
    driver, worker = s.driver(), s.worker()
    for _ in range(MOST_STARTUP_FAILURES):
        s.post(0, WorkerExited(s.starting.pop(), 1))
        s.turn()
    task = driver.submit(s.function(driver), (), ())[0]
    s.turn()
    assert runs(worker) == [task]


def test_only_the_running_task_is_charged_with_a_crash(stage: Make) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    f = s.function(driver, seconds=0.0)
    fragile = driver.submit(f, (), (), retries=0, name="fragile")[0]
    behind = driver.submit(f, (), (), retries=0)[0]
    s.all_read()
    assert len(worker.runs) == 2
    s.crash(worker)
    message = driver.inbox[-1]
    assert isinstance(message, do.Ready)
    assert message.object == fragile
    text = message.value.header.decode()
    assert text.startswith("!crashed\n")
    assert "SIGKILL" in text
    assert "while it ran `fragile`" in text
    assert runs(s.worker()) == [behind]


def test_a_task_is_run_again_as_often_as_it_may(stage: Make) -> None:
    s = stage(workers=1)
    driver = s.driver()
    task = driver.submit(s.function(driver), (), (), retries=2)[0]
    for _ in range(3):
        assert not told(driver)
        worker = s.worker()
        assert runs(worker) == [task]
        s.crash(worker)
    assert told(driver) == {task: b"!crashed"}


def test_a_function_is_sent_once_and_its_bytes_wait_until_the_worker_lets_go(stage: Make) -> None:
    s = stage()
    driver, worker = s.driver(), s.worker()
    driver.granted = 4 * PAGE
    driver.post(ev.Grow(1, 4 * PAGE))
    value = driver.value(1)
    assert value is not None
    s.all_read()
    f = driver.put(value)
    for first in (True, False):
        driver.submit(f, (), ())
        s.turn()
        run = worker.inbox[-1]
        assert isinstance(run, do.Run)
        assert run.values == ((value,) if first else ())
        s.all_read()
        worker.view(f) if first else None
        worker.finish((NONE,), 1.0)
        s.all_read()
    driver.drop(f)
    s.turn()
    assert list(worker.inbox) == [do.Forget((f,), unused=True)]
    worker.read()
    assert not of(do.Send, s.turn()), "an array of the function lives"
    worker.unview(f)
    assert s.turn() == [do.Send(driver.number, do.Release(((value.offset, value.length),)))]


def test_a_task_given_back_twice_is_run_once(stage: Make) -> None:
    s = stage()
    driver, worker = s.driver(), s.worker()
    task = driver.submit(s.function(driver), (), ())[0]
    s.turn()
    worker.post(ev.GaveBack((task, task)))
    s.turn()
    assert runs(worker) == [task, task], "sent, given back, and sent again"


def test_who_wants_an_object_twice_is_told_once(stage: Make) -> None:
    s = stage()
    driver, other, worker = s.driver(), s.driver(), s.worker()
    task = driver.submit(s.function(driver), (), ())[0]
    other.borrow((task,))
    for _ in range(2):
        other.post(ev.Want((task,)))
    s.all_read()
    worker.finish((NONE,), 1.0)
    s.turn()
    assert list(other.inbox) == [do.Ready(task, NONE)]


def test_an_object_nobody_made_yet_can_be_dropped_by_who_claims_to_see_it(stage: Make) -> None:
    s = stage()
    driver, worker = s.driver(), s.worker()
    task = driver.submit(s.function(driver), (), ())[0]
    driver.post(ev.View(task, 0))
    driver.drop(task)
    s.all_read()
    worker.finish((NONE,), 1.0)
    s.turn()
    assert not driver.inbox


# -- long chains ----------------------------------------------------------------------------------


def test_ten_thousand_tasks_that_wait_for_each_other_fail_together(stage: Make) -> None:
    s = stage()
    driver, worker = s.driver(), s.worker()
    f = s.function(driver)
    chain = [driver.submit(f, (), ())[0]]
    for _ in range(10_000):
        chain.append(driver.submit(f, (chain[-1],), ())[0])
    s.all_read()
    worker.finish((ev.Value(b"boom", failed=True),), 1.0)
    s.turn()
    assert told(driver) == dict.fromkeys(chain, b"boom")


def test_ten_thousand_objects_inside_each_other_are_freed_together(stage: Make) -> None:
    s = stage()
    driver = s.driver()
    outer = driver.put(NONE)
    for _ in range(10_000):
        inner, outer = outer, driver.put(ev.Value(b"P", contains=(outer,)))
        driver.drop(inner)
    s.turn()
    assert len(s.session.state.catalog) == 10_001
    driver.drop(outer)
    s.turn()
    while s.session.state.catalog.backlog.work:
        s.turn()
    assert not len(s.session.state.catalog)


# -- memory ---------------------------------------------------------------------------------------


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


# -- a session's life -----------------------------------------------------------------------------


def test_a_session_without_a_driver_gives_up(stage: Make) -> None:
    s = stage()
    assert s.session.deadline() == ALONE_AT_START
    assert not of(do.Exit, s.turn(ALONE_AT_START - 1))
    assert of(do.Exit, s.turn(1))


def test_a_session_whose_starter_is_killed_before_its_hello_ends(stage: Make) -> None:
    s = stage()
    s.post(STARTER + 1, Left())  # somebody who only tried whether we listen
    assert not of(do.Exit, s.turn())
    s.post(STARTER, Left())
    assert of(do.Exit, s.turn())


@pytest.mark.parametrize(("graceful", "seconds"), [(True, 0.0), (False, 60.0)])
def test_a_session_outlives_a_driver_that_does_not_say_goodbye(
    stage: Make, graceful: bool, seconds: float
) -> None:
    s = stage()
    first, last = s.driver(linger=1.0), s.driver(linger=60.0)
    last.put(NONE, "kept")
    last.put(NONE)
    s.leave(first)
    assert s.session.deadline() is None
    s.leave(last, graceful)
    assert list(s.session.state.catalog.names) == ["kept"]
    assert len(s.session.state.catalog) == 1
    assert s.session.deadline() == s.now + seconds
    assert of(do.Exit, s.turn(seconds))


def shut_down(s: Stage, driver: Peer) -> None:
    """As a kernel leaves that a person shut down."""
    driver.post(ev.Bye(lingers=True, final=True))
    s.turn()
    s.leave(driver)


def test_a_session_whose_kernel_was_shut_down_is_kept_for_a_moment(stage: Make) -> None:
    s = stage()
    driver = s.driver(linger=60.0)
    driver.put(NONE, "kept")
    shut_down(s, driver)
    assert s.session.deadline() == s.now + FINAL
    s.turn(FINAL / 2)
    driver = s.driver(linger=60.0)  # it comes back, and crashes
    assert list(s.session.state.catalog.names) == ["kept"]
    s.leave(driver)
    assert s.session.deadline() == s.now + 60.0


@pytest.mark.parametrize("linger", [0.0, FINAL / 2])
def test_that_is_never_longer_than_its_time(stage: Make, linger: float) -> None:
    s = stage()
    shut_down(s, s.driver(linger=linger))
    assert s.session.state.linger == linger
    assert of(do.Exit, s.turn(linger))


def test_it_is_kept_for_as_long_as_anybody_asked(stage: Make) -> None:
    s = stage()
    first, last = s.driver(linger=600.0), s.driver(linger=60.0)
    s.leave(first)
    shut_down(s, last)
    assert s.session.deadline() == s.now + 600.0
    s = stage()
    last = s.driver(linger=60.0)
    last.post(ev.Keep(8000.0))
    shut_down(s, last)
    assert s.session.deadline() == s.now + 8000.0


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "runs"])
def test_it_is_kept_for_a_background_cell_whose_end_nobody_saw(stage: Make, ends: bool) -> None:
    s = stage()
    driver, worker = s.driver(linger=60.0), s.worker()
    driver.submit(s.function(driver), (), (), spec=ev.TaskSpec(job="cell 1"))
    s.all_read()
    shut_down(s, driver)
    if ends:
        worker.finish((NONE,), 1.0)
        s.turn()
    assert s.session.deadline() == s.now + 60.0


def test_a_driver_that_comes_back_in_time_finds_everything(stage: Make) -> None:
    s = stage()
    before = s.driver(linger=60.0)
    id = before.put(NONE, "kept")
    s.leave(before)
    s.turn(59)
    after = s.driver()
    after.post(ev.Find(1, "kept"))
    after.post(ev.Find(2, "other"))
    s.turn(100)
    assert list(after.inbox) == [do.Found(1, id), do.Found(2, 0)]


def test_an_admin_neither_prolongs_a_session_nor_ends_it(stage: Make) -> None:
    s = stage()
    early = s.admin()
    assert s.session.deadline() == ALONE_AT_START  # as if nobody had come
    s.leave(early)
    assert s.session.deadline() == ALONE_AT_START
    driver, during = s.driver(linger=60.0), s.admin()
    s.leave(during)
    assert s.session.deadline() is None
    during = s.admin()
    s.leave(driver)
    end = s.now + 60
    assert s.session.deadline() == end  # somebody looks, and it lingers all the same
    s.turn(30)
    late = s.admin()
    s.leave(during, graceful=True)
    s.leave(late)
    assert s.session.deadline() == end
    assert of(do.Exit, s.turn(30))


def test_an_admin_is_shown_as_what_it_is(stage: Make) -> None:
    s = stage()
    s.driver(), s.worker()
    admin = s.admin()
    admin.post(ev.Ask(1, "overview"))
    (sent,) = of(do.Send, s.turn())
    assert isinstance(sent.message, do.Answer)
    assert sent.message.snapshot is not None
    assert [c.role for c in sent.message.snapshot.clients] == ["driver", "worker", "admin"]


def test_whoever_ends_a_session_has_its_drivers_told_why(stage: Make) -> None:
    s = stage()
    first, second, admin, _ = s.driver(linger=60.0), s.driver(), s.admin(), s.worker()
    admin.post(ev.EndSession("because"))
    admin.post(Left())
    s.meet()  # comes too late to prolong it
    out = s.turn()
    told = [i for i in of(do.Send, out) if isinstance(i.message, do.Ended)]
    assert told == [do.Send(n, do.Ended("because")) for n in (first.number, second.number)]
    assert of(do.Exit, out)


def test_output_goes_to_whoever_submitted_the_task(stage: Make) -> None:
    s = stage()
    driver, _, worker = s.driver(), s.driver(), s.worker()
    task = driver.submit(s.function(driver), (), (), origin=7)[0]
    worker.post(ev.Output(task, "stdout", b"hello"))
    worker.post(ev.Output(task + 1, "stdout", b"of no task"))
    out = s.turn()
    sent = [i for i in of(do.Send, out) if isinstance(i.message, ev.Output)]
    assert sent == [do.Send(driver.number, ev.Output(task, "stdout", b"hello", 7, 1))]


def test_output_of_a_tasks_own_tasks_goes_where_its_own_does(stage: Make) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    driver.submit(s.function(driver), (), ())
    s.all_read()
    inner = worker.submit(s.function(worker), (), (), origin=7)[0]
    worker.block()
    s.turn()
    helper = s.worker()
    assert runs(helper) == [inner]
    helper.post(ev.Output(inner, "stdout", b"deep"))
    assert s.turn() == [do.Send(driver.number, ev.Output(inner, "stdout", b"deep", 7, 2))]


# -- peers that misbehave -------------------------------------------------------------------------

MINE, THEIRS = 1 << ID_BITS, 2 << ID_BITS
SEGMENT = MINE + 1
"""An arena of four pages, of which the first holds `MINE` + 2; one more page is granted."""


def placed(offset: int, length: int = PAGE, segment: int = SEGMENT) -> ev.Value:
    return ev.Value(b"E", segment, offset, length)


def sealed(id: int, value: ev.Value) -> ev.Sealed:
    return ev.Sealed(id, value, ABOUT)


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(ev.Hello(1, 1), id="hello twice"),
        pytest.param(Tick(), id="the loop's own event"),
        pytest.param(sealed(THEIRS + 9, NONE), id="another's id"),
        pytest.param(sealed(MINE + 2, NONE), id="an object sealed twice"),
        pytest.param(sealed(MINE + 9, placed(0)), id="an extent that is taken"),
        pytest.param(sealed(MINE + 9, placed(PAGE, PAGE + 1)), id="more than was granted"),
        pytest.param(sealed(MINE + 9, placed(4 * PAGE - 1, 2)), id="past the end"),
        pytest.param(sealed(MINE + 9, placed(PAGE, 0)), id="an empty extent"),
        pytest.param(sealed(MINE + 9, placed(0, 1, THEIRS + 1)), id="another's arena"),
        pytest.param(sealed(MINE + 9, placed(0, 1, MINE + 5)), id="no arena"),
        pytest.param(ev.Opened(THEIRS + 9, PAGE), id="another's segment"),
        pytest.param(ev.Submit(THEIRS + 9, MINE + 2, b""), id="another's task"),
        pytest.param(ev.Submit(THEIRS - 1, MINE + 2, b"", returns=2), id="another's result"),
        pytest.param(ev.Submit(MINE + 2, MINE + 2, b""), id="a result that exists"),
        pytest.param(ev.SubmitCalls((MINE + 9, THEIRS), (b"", b""), MINE + 2), id="another's call"),
        pytest.param(ev.SubmitCalls((MINE + 9,) * 2, (b"", b""), MINE + 2), id="a call twice"),
        pytest.param(ev.SubmitCalls((MINE + 9, MINE + 2), (b"", b""), MINE + 2), id="known calls"),
        pytest.param(ev.SubmitCalls((MINE + 9,), (), MINE + 2), id="calls without arguments"),
        pytest.param(ev.Done(MINE + 9, (NONE,), 0.0), id="done with what it was not given"),
        pytest.param(ev.Register(THEIRS + 9, b"how"), id="another's serializer"),
    ],
)
def test_who_breaks_the_rules_is_hung_up_and_forgotten(stage: Make, event: ev.Event) -> None:
    s = stage(capacity=4 * PAGE)
    rogue, honest = s.driver(), s.driver()
    assert (rogue.number, honest.number) == (MINE >> ID_BITS, THEIRS >> ID_BITS)
    honest.post(ev.Opened(honest.id(), 4 * PAGE))
    honest.post(ev.Grow(1, PAGE))
    honest.put(NONE)
    rogue.post(ev.Opened(SEGMENT, 4 * PAGE))
    rogue.post(ev.Grow(1, 2 * PAGE))
    s.turn()
    rogue.post(sealed(MINE + 2, placed(0)))
    s.turn()
    rogue.post(event)
    assert [i.client for i in of(do.Hangup, s.turn())] == [rogue.number]
    assert of(do.Discard, s.leave(rogue)) == [do.Discard(SEGMENT)]
    assert len(s.session.state.catalog) == 1
    assert list(s.session.state.budget.arenas) == [THEIRS + 1]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param((NONE,), id="too few"),
        pytest.param((placed(0), placed(0, segment=MINE + 1)), id="another's arena"),
        pytest.param((placed(0), placed(0)), id="one extent twice"),
        pytest.param(
            (ev.Value(b"E", SEGMENT, 0, PAGE, failed=True), NONE), id="a failure's extent"
        ),
    ],
)
def test_a_worker_that_breaks_the_rules_does_not_take_the_task_along(
    stage: Make, values: tuple[ev.Value, ...]
) -> None:
    s = stage()
    worker, driver = s.worker(), s.driver()
    worker.post(ev.Opened(SEGMENT, 4 * PAGE))
    worker.post(ev.Grow(1, 4 * PAGE))
    task = driver.submit(s.function(driver), (), (), returns=2, retries=1)[0]
    s.turn()
    worker.post(ev.Done(task, values, 0.0))
    assert [i.client for i in of(do.Hangup, s.turn())] == [worker.number]
    s.crash(worker)
    assert not told(driver)
    assert runs(s.worker()) == [task]


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (ev.Want((1,)), "Want before Hello"),
        (ev.Hello(1, prefix=1), "prefix taken"),
        (ev.Hello(1, prefix=9, worker=77), "no such worker"),
    ],
)
def test_a_stranger_is_hung_up(stage: Make, hello: ev.Event, reason: str) -> None:
    s = stage()
    s.driver()
    s.post(5, hello)
    (hangup,) = s.turn()
    assert isinstance(hangup, do.Hangup)
    assert hangup.client == 5
    assert reason in hangup.reason
    s.post(5, Left())
    assert not s.turn()


# -- custom serializers, refs that leave ----------------------------------------------------------


def known(worker: Peer) -> list[tuple[int, bytes]]:
    return [(m.serializer, m.payload) for m in worker.inbox if isinstance(m, do.Registered)]


def test_a_serializer_comes_before_the_tasks_submitted_after_it(stage: Make) -> None:
    s = stage(workers=2)
    driver, worker = s.driver(), s.worker()
    f = s.function(driver)
    serializer = driver.id()
    driver.post(ev.Register(serializer, b"how"))
    driver.submit(f, (), ())
    s.turn()
    assert [type(m) for m in worker.inbox] == [do.Registered, do.Run]
    late = s.worker()
    assert known(late) == [(serializer, b"how")]


def test_a_drivers_serializers_stay_until_its_last_task_is_done(stage: Make) -> None:
    s = stage()
    driver, other, worker = s.driver(), s.driver(), s.worker()
    f = s.function(driver)
    serializer = driver.id()
    driver.post(ev.Register(serializer, b"how"))
    driver.submit(f, (), ())
    s.turn()
    worker.read()
    worker.read()
    s.leave(driver)
    assert not known(worker)
    worker.finish((NONE,), 0.1)
    s.turn()
    assert known(worker) == [(serializer, b"")]
    other.post(ev.Ask(1))
    assert not of(do.Registered, s.turn())


def test_places_at_which_refs_escape_are_counted_up_to_a_point(stage: Make) -> None:
    s = stage()
    driver = s.driver()
    id = driver.put(NONE)
    for n in [*range(2 * MOST_SITES), 0]:
        driver.post(ev.Escape(id, f"line {n}"))
    s.turn()
    entry = s.session.state.catalog.get(id)
    assert entry is not None
    assert entry.escapes == tuple(f"line {n}" for n in range(MOST_SITES))


def test_who_has_left_and_still_shows_an_object_keeps_its_bytes(stage: Make) -> None:
    s = stage(capacity=10 * PAGE)
    owner, reader = s.driver(), s.driver()
    owner.post(ev.Opened(segment := owner.id(), 20 * PAGE))
    owner.post(ev.Grow(1, 4 * PAGE))
    s.turn()
    id = owner.put(ev.Value(b"E", segment, 0, PAGE))
    reader.borrow((id,))
    reader.post(ev.Want((id,)))
    s.all_read()
    reader.view(id)
    reader.post(ev.Bye(shows=True))
    reader.post(ev.Drop((id,)))  # said behind its goodbye
    s.turn()
    assert [c.client for c in take_snapshot(s.session.state).clients] == [owner.number]
    owner.drop(id)
    s.turn()
    assert not [m for m in owner.inbox if isinstance(m, do.Release)], "it is shown"
    reader.post(Left())
    s.turn()
    assert do.Release(((0, PAGE),)) in owner.inbox


def test_the_last_driver_ends_its_session_though_it_shows_objects(stage: Make) -> None:
    s = stage()
    driver = s.driver(linger=60.0)
    driver.post(ev.Bye(shows=True))
    assert do.Exit() in s.turn()
    s = stage()
    driver = s.driver(linger=60.0)
    driver.post(ev.Bye(lingers=True, shows=True))
    assert do.Exit() not in s.turn()
    assert s.session.deadline() == 60.0
