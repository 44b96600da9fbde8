"""Background cells: what is kept of what they show, and how somebody else comes by it."""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Drivers, Make, Pair, Stage
from tests.unit.core.peers import BOOM, NONE, Peer, of
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.snapshot import JobRecord
from workbench.core.snapshot_builder import take_snapshot
from workbench.system.sizes import PAGE


def shown(peer: Peer) -> list[tuple[str, bytes, int]]:
    """What the peer was told to show: (kind, data, origin)."""
    return [(m.kind, m.data, m.origin) for m in of(ev.Output, peer.inbox)]


def collected(peer: Peer) -> do.Collected:
    (found,) = of(do.Collected, peer.inbox)
    return found


def records(s: Stage) -> list[JobRecord]:
    return list(take_snapshot(s.session.state).jobs)


def cell(s: Stage, driver: Peer, name: str = "cell 7", returns: int = 1, origin: int = 7) -> int:
    spec = ev.TaskSpec(job=name, binds=tuple("ab"[: returns - 1]))
    function = s.function(driver)
    return driver.submit(function, (), (), returns, origin=origin, spec=spec)[0]


def runner(s: Stage, task: int) -> Peer:
    """The worker that runs it."""
    return next(peer for peer in s.peers.values() if peer.runs and peer.runs[0].task == task)


def test_a_cell_goes_on_without_its_notebook_and_is_collected(pair: Pair) -> None:
    s, before, worker = pair(linger=60.0)
    task = s.all_hear(cell(s, before, returns=2))
    s.say(worker, ev.Output(task, "stdout", b"before\n"))
    assert shown(before) == [("stdout", b"before\n", 7)]
    s.leave(before)
    s.turn(after=3.0)
    (record,) = records(s)
    assert record == JobRecord(
        task, 1, "cell 7", "running", 3.0, 1, 0, ("a",), True, worker=1, there=("a",)
    )
    worker.post(ev.Output(task, "stdout", b"between\n"))
    after = s.driver(60.0)
    s.say(after, ev.Collect(1, task, origin=3))
    assert shown(after) == [("stdout", b"before\nbetween\n", 3)]
    assert collected(after).results == (task, task + 1)
    after.inbox.clear()
    after.holds.update((task, task + 1))
    worker.post(ev.Output(task, "stdout", b"after\n"))
    worker.finish((NONE, ev.Value(b"the result")), 1.0)
    s.say(after, ev.Want((task + 1,)))
    assert shown(after) == [("stdout", b"after\n", 3)]
    assert do.Ready(task + 1, ev.Value(b"the result")) in after.inbox
    (record,) = records(s)
    assert (record.state, record.lines, record.kept) == ("done", 3, False)
    after.drop(task + 1)
    s.turn()
    assert s.session.state.catalog.get(task + 1) is None, "nobody keeps it any more"


def test_what_it_gave_to_others_to_do_is_shown_with_it(stage: Make) -> None:
    s = stage(workers=2)
    driver, _, _ = s.driver(60.0), s.worker(), s.worker()
    task = s.all_hear(cell(s, driver))
    parent = runner(s, task)
    (child,) = s.all_hear(parent.submit(parent.put(ev.Value(b"f")), (), (), origin=7))
    s.leave(driver)
    runner(s, child).post(ev.Output(child, "stdout", b"kept\n"))
    after = s.driver(60.0)
    after.post(ev.Collect(1, task, origin=4))
    s.say(runner(s, child), ev.Output(child, "stdout", b"live\n"))
    assert shown(after) == [("stdout", b"kept\n", 4), ("stdout", b"live\n", 4)]
    parent.finish((NONE,), 1.0)
    s.say(runner(s, child), ev.Output(child, "stdout", b"late\n"))
    assert shown(after)[2:] == [("stdout", b"late\n", 4)]
    job = s.session.state.scheduler.tasks[child].job
    assert job is not None
    assert [piece.data for piece in job.log] == [b"kept\nlive\nlate\n"]


def test_how_it_ended(stage: Make) -> None:
    s = stage(workers=4)
    driver, *_ = s.driver(60.0), *(s.worker() for _ in range(4))
    good, bad, stopped = (cell(s, driver, f"cell {n}") for n in range(3))
    limited = ev.TaskSpec(timeout=1.0, job="cell 3")
    (late,) = driver.submit(s.function(driver), (), (), spec=limited)
    never = s.all_hear(cell(s, driver, "cell 4"))
    driver.post(ev.Cancel((never,)))
    runner(s, good).finish((NONE,), 1.0)
    runner(s, bad).finish((BOOM,), 1.0)
    driver.post(ev.Cancel((stopped,)))
    s.turn(after=1.0)
    for task in (stopped, late):
        s.finish(runner(s, task), (ev.error_value("cancelled", "it heard"),), 1.0)
    assert {record.id: record.state for record in records(s)} == {
        good: "done", bad: "failed", stopped: "stopped", late: "failed", never: "stopped",
    }  # fmt: skip


def test_results_are_kept_for_a_reason_and_can_be_freed(pair: Pair) -> None:
    s, driver, worker = pair(linger=60.0)
    task = s.all_hear(cell(s, driver, returns=2))
    s.leave(driver)
    worker.finish((NONE, ev.Value(b"the result")), 1.0)
    after = s.driver(60.0)
    s.say(after, ev.Ask(1, "why", task + 1))
    (answer,) = of(do.Answer, after.inbox)
    assert answer.account is not None
    assert [(pin.reason, pin.detail) for pin in answer.account.pins] == [("job", "cell 7")]
    s.say(after, ev.Free((task + 1,)), ev.Collect(1, task))
    assert collected(after).results == (task, 0)


def test_of_very_many_the_last_are_remembered_and_fewer_are_listed(stage: Make) -> None:
    s = stage()
    s.session.jobs.most_jobs, s.session.jobs.most_records = 12, 7
    driver, worker = s.driver(60.0), s.worker()
    tasks = [finished(s, driver, worker, name=f"cell {n}") for n in range(15)]
    assert [record.id for record in records(s)] == tasks[-7:]
    other = s.driver(60.0)
    s.say(other, ev.Ask(3, "jobs"), ev.Collect(1, tasks[3]), ev.Collect(2, tasks[2]))
    (answer,) = of(do.Answer, other.inbox)
    assert [record.id for record in answer.jobs] == tasks[3:]
    known, unknown = of(do.Collected, other.inbox)
    assert (known.job, known.results) == (answer.jobs[0], (tasks[3],))
    assert (unknown.job, unknown.results) == (None, ())


def finished(
    s: Stage,
    driver: Peer,
    worker: Peer,
    *results: ev.Value,
    name: str = "cell 7",
    text: str = "",
    end: ev.Value = NONE,
) -> int:
    """A cell that has printed something and made these results."""
    task = s.all_hear(cell(s, driver, name, 1 + len(results)))
    if text:
        worker.post(ev.Output(task, "stdout", text.encode()))
    s.finish(worker, (end, *results), 1.0)
    return task


def collect(s: Stage, peer: Peer, job: int, name: str = "") -> do.Collected:
    peer.inbox.clear()
    s.say(peer, ev.Collect(1, job, origin=3, name=name))
    found = collected(peer)
    s.all_read()
    return found


def test_what_a_cell_showed_is_there_as_often_as_somebody_asks(pair: Pair) -> None:
    """However it ended, and whoever had it before; how it ended, too."""
    s, driver, worker = pair(linger=60.0)
    task = finished(s, driver, worker, text="loss 0.1\n")
    failed = finished(s, driver, worker, name="cell 8", end=BOOM)
    for id in (task, failed):
        driver.drop(id)
    s.turn()
    assert s.session.state.catalog.get(task) is None, "a handle was the last"
    other = s.driver(60.0)
    for _ in range(2):
        for peer in (driver, other):
            s.say(peer, ev.Collect(1, task, origin=3))
            assert shown(peer)[-1] == ("stdout", b"loss 0.1\n", 3)
            s.all_read()
    for id, end in ((task, NONE), (failed, BOOM)):
        collect(s, other, id)
        s.say(other, ev.Want((id,)))
        assert do.Ready(id, end) in other.inbox
        s.all_read()
    s.say(driver, ev.Ask(7, "log", task), ev.Ask(8, "log", 99))
    answers = [answer.outputs for answer in of(do.Answer, driver.inbox)]
    assert answers == [(ev.Output(task, "stdout", b"loss 0.1\n", worker=1),), None]


def test_what_a_kernel_that_died_had_is_found_by_its_name(pair: Pair) -> None:
    s, driver, worker = pair(linger=60.0)
    task = finished(s, driver, worker, ev.Value(b"one"), ev.Value(b"two"))
    s.leave(driver)
    (record,) = records(s)
    assert (record.kept, record.there) == (False, ("a", "b"))
    after = s.driver(60.0)
    assert not collect(s, after, task, "other").job
    assert collect(s, after, task, "a").results == (task + 1,)
    assert not shown(after)
    assert records(s)[0].there == ("b",), "what nobody took is still kept"
    after.drop(task + 1)
    s.turn()
    assert s.session.state.catalog.get(task + 1) is None, "as if it had made it"
    assert collect(s, after, task, "b").results == (task + 2,)
    assert records(s)[0].there == ()
    s.leave(after)
    assert records(s)[0].there == ("b",), "it died, too"


def grown(s: Stage, peer: Peer, pages: int) -> ev.Value:
    """A value of that size; the peer may have to grow first."""
    value = peer.value(pages)
    if value is None:
        s.all_read()
        value = peer.value(pages)
    assert value is not None
    return value


@pytest.mark.parametrize("spills", [False, True])
def test_what_is_kept_makes_way_the_oldest_first(pair: Pair, spills: bool) -> None:
    s, driver, worker = pair(linger=60.0, capacity=9 * PAGE, spills=spills)
    old, new = (finished(s, driver, worker, grown(s, worker, 2), name=n) for n in ("old", "new"))
    s.leave(driver)
    unseen_maker = s.driver(60.0)
    unseen = s.all_hear(cell(s, unseen_maker, "unseen", 2))
    s.leave(unseen_maker)
    s.finish(worker, (NONE, grown(s, worker, 2)), 1.0)
    after = s.driver(60.0)
    s.all_hear(after.put(grown(s, after, 3)))
    state = {r.name: (r.there, r.dropped, r.kept) for r in records(s)}
    assert state == {
        "old": ((), True, False), "new": (("a",), False, False), "unseen": (("a",), False, True)
    }  # fmt: skip
    assert not s.session.state.moves, "nothing had to go to disk"
    s.all_hear(after.put(grown(s, after, 2)))
    assert records(s)[1].dropped
    assert after.value(4) is None, "there is no room, and it asks for some"
    s.all_read()
    assert records(s)[2].there == ("a",), "nobody has seen that yet"
    assert collect(s, after, old).results[1] == 0
    assert collect(s, after, unseen).results[1] == unseen + 1
    assert new


def test_the_oldest_output_goes_first_and_that_is_said(stage: Make) -> None:
    s = stage()
    s.session.jobs.most_logged = 250
    driver, worker = s.driver(60.0), s.worker()
    tasks = [finished(s, driver, worker, text="x" * 99 + "\n") for _ in range(3)]
    for task in tasks:
        driver.post(ev.Collect(1, task, origin=3))
    s.turn()
    first, *others = [data for _, data, _ in shown(driver)]
    assert first == b"[100 B shown, not kept]\n"
    assert others == [b"x" * 99 + b"\n"] * 2
    assert [record.lines for record in records(s)] == [1, 1, 1]


def each(s: Stage, driver: Peer, size: int, submitted: int, first: int = 0) -> list[int]:
    """Some of a cell that runs once per item, or more of that one; the ids of its tasks."""
    function = s.function(driver)
    tasks: list[int] = []
    for _ in range(submitted):
        spec = ev.TaskSpec(job="cell 7", binds=("a",), size=size, group=first)
        tasks.append(driver.submit(function, (), (), 2, origin=7, spec=spec)[0])
        first = first or tasks[0]
    s.all_read()
    return tasks


def test_who_collects_it_before_all_is_submitted_gets_the_rest_at_once(drivers: Drivers) -> None:
    s, (driver, other, late) = drivers(3, linger=60.0, workers=1)
    s.worker()
    (first,) = each(s, driver, 4, 1)
    assert collect(s, other, first).results == (first, first + 1)
    (second,) = each(s, driver, 4, 1, first)
    assert collect(s, late, first).results == (first, first + 1, second, second + 1)
    (third,) = each(s, driver, 4, 1, first)
    assert not of(do.JobComplete, other.heard)
    (fourth,) = each(s, driver, 4, 1, first)
    rest = (third, third + 1, fourth, fourth + 1)
    assert of(do.JobComplete, late.heard) == [do.JobComplete(first, 4, rest)]
    all_others = second, second + 1, *rest
    assert of(do.JobComplete, other.heard) == [do.JobComplete(first, 4, all_others)]
    assert not of(do.JobComplete, driver.heard)
    s.leave(driver)
    assert all(id in s.session.state.catalog for id in rest), "they hold it, too"


def test_one_of_several_tasks_is_one_job(pair: Pair) -> None:
    s, driver, worker = pair(linger=60.0, workers=1)
    tasks = each(s, driver, 3, 3)
    assert of(do.Began, driver.heard) == [do.Began(tasks[0], worker.worker)]
    for number, task in enumerate(tasks):
        (record,) = records(s)
        assert (record.id, record.ended, record.size, record.state) == (
            tasks[0], number, 3, "running"
        )  # fmt: skip
        worker.post(ev.Output(task, "stdout", b"%d" % number))
        s.finish(worker, (BOOM if number == 1 else NONE, NONE), 1.0)
    (record,) = records(s)
    assert (record.state, record.ended) == ("failed", 3)
    assert [m.task for m in of(ev.Output, driver.heard)] == tasks


def test_what_its_maker_did_not_come_to_submit_is_not_waited_for(stage: Make) -> None:
    s = stage(workers=1)
    leaves, stops, worker = s.driver(60.0), s.driver(60.0), s.worker()
    each(s, leaves, 5, 1)
    worker.finish((NONE, NONE), 1.0)
    task, _ = each(s, stops, 5, 2)
    s.leave(leaves)
    s.say(stops, ev.Cancel((task,)))
    s.finish(worker, (ev.error_value("cancelled", "it heard"),) * 2, 1.0)
    done, cancelled = records(s)
    assert (done.state, done.ended, done.size, done.kept) == ("done", 1, 1, True)
    assert (cancelled.state, cancelled.ended, cancelled.size) == ("stopped", 2, 2)


def test_of_another_drivers_job_nobody_can_be_part(drivers: Drivers) -> None:
    s, (mine, other) = drivers(2, linger=60.0, workers=1)
    s.worker()
    (first,) = each(s, mine, 3, 1)
    (task,) = each(s, other, 3, 1, first)
    (record,) = records(s)
    assert (record.id, record.size, record.ended) == (first, 3, 0)
    assert other.values[task].header.startswith(b"!cancelled")


def test_what_comes_after_its_job_was_stopped_does_not_run(stage: Make) -> None:
    """Somebody else stops it while its maker is still submitting."""
    s = stage(workers=1)
    maker, other, _ = s.driver(60.0), s.driver(60.0), s.worker()
    (first,) = each(s, maker, 5, 1)
    other.post(ev.Cancel((first,)))
    s.all_read()
    (late,) = each(s, maker, 5, 1, first)
    assert maker.values[late].header.startswith(b"!cancelled")
    assert late not in s.session.state.scheduler.tasks
    (record,) = records(s)
    assert (record.id, record.size, record.is_over) == (first, 1, False)


def test_a_call_of_an_actor_is_one_too(drivers: Drivers) -> None:
    s, (driver,) = drivers(linger=60.0)
    actor = s.hears(driver.create(s.function(driver), name="side"))
    while s.starting:
        s.worker()
    s.all_read()
    worker = runner(s, actor)
    worker.finish((NONE,), 0.0)
    tasks = [
        driver.submit(0, (), (), 1, actor=actor, method="run", spec=ev.TaskSpec(job=f"cell {n}"))[0]
        for n in range(2)
    ]
    s.all_read()
    assert [record.state for record in records(s)] == ["running", "queued"]
    s.leave(driver)
    assert worker.runs[0].task == tasks[0]
    s.finish(worker, (NONE,), 1.0)
    assert [(r.state, r.kept) for r in records(s)] == [("done", True), ("running", True)]


def answered(peer: Peer) -> list[int]:
    return [answer.request for answer in of(do.Answer, [*peer.heard, *peer.inbox])]


def test_an_interrupt_stops_what_the_cell_began_and_no_background_cell(drivers: Drivers) -> None:
    s, (driver, other) = drivers(2, linger=60.0, workers=3)
    workers = [s.worker() for _ in range(3)]
    function = s.function(driver)
    (plain,) = driver.submit(function, (), (), origin=7)
    (earlier,) = driver.submit(function, (), (), origin=6)
    background = s.all_hear(cell(s, driver, origin=7))
    (queued,) = driver.submit(function, (), (), origin=7)
    (foreign,) = other.submit(s.function(other), (), (), origin=7)
    driver.post(ev.Interrupt(1, 7))
    s.all_read()
    stopped = [m.task for peer in workers for m in of(do.Stop, peer.heard)]
    assert stopped == [plain]
    left = s.session.state.scheduler.tasks.keys()
    assert left >= {plain, earlier, background, foreign}
    assert queued not in left
    assert not answered(driver)
    s.finish(runner(s, plain), (ev.error_value("cancelled", "it heard"),), 1.0)
    assert answered(driver) == [1]


def test_an_interrupt_stops_the_job_that_is_waited_for_and_force_kills(pair: Pair) -> None:
    s, driver, worker = pair(linger=60.0, workers=1)
    task = s.all_hear(cell(s, driver, origin=7))
    s.say(driver, ev.Interrupt(1, 7, (task, 99)))
    out = s.say(driver, ev.Interrupt(2, 7, (task,), force=True))
    assert do.Kill(worker.worker) in out
    assert not answered(driver)
    s.crash(worker)
    assert answered(driver) == [1, 2]
    assert records(s)[0].state == "stopped"


@pytest.mark.parametrize("what", ["of a worker", "of an actor", "without a result"])
def test_what_only_says_that_it_is_a_job(pair: Pair, what: str) -> None:
    s, driver, worker = pair(linger=60.0)
    sender = worker if what == "of a worker" else driver
    sender.submit(
        s.function(driver), (), (), 0 if what == "without a result" else 1,
        spec=ev.TaskSpec(job="cell 7"), actor=99 if what == "of an actor" else 0,
    )  # fmt: skip
    s.all_read()
    assert not records(s)


def test_an_id_that_its_maker_uses_again(drivers: Drivers) -> None:
    s, (driver,) = drivers()
    for _ in range(2):
        driver.post(ev.Submit(driver.number << 32 | 99, 1, b"", spec=ev.TaskSpec(job="cell 7")))
        s.say(driver, ev.Drop((driver.number << 32 | 99,)))
    assert [(record.number, record.state) for record in records(s)] == [(2, "failed")]
