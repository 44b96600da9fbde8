"""The decisions worth a name, one story each. What must hold always is the machine's business."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.core.conftest import Stage
from tests.unit.core.peers import Peer, of, runs, told
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.catalog import MOST_SITES
from workbench.core.loop_events import Left, WorkerExited
from workbench.core.pool import (
    KILLS,
    MOST,
    MOST_STARTUP_FAILURES,
    PAUSES,
    RETRY_SECONDS,
    SPARE_SECONDS,
)
from workbench.core.scheduler import BATCH_SECONDS, BATCH_TASKS
from workbench.core.snapshot_builder import take_snapshot
from workbench.system.sizes import PAGE

Make = Callable[..., Stage]

NONE = ev.Value(b"N")


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
