"""Tasks with time limits, tasks of executors, streams; what is tried again, withdrawn, ended."""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Make, Stage
from tests.unit.core.peers import BOOM, NONE, Peer, of, runs, told
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import Measured, Tick
from workbench.core.time_limits import PATIENCE

CANCELLED = ev.error_value("cancelled", "it heard")


def passes(s: Stage, seconds: float) -> list[do.Anything]:
    s.post(0, Tick())
    return s.turn(seconds)


# -- time limits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("hears", [True, False])
def test_who_runs_for_longer_than_it_may_is_told_and_then_ended(stage: Make, hears: bool) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    f = s.function(driver)
    (first,) = driver.submit(f, (), (), spec=ev.TaskSpec(timeout=1.0))
    (second,) = driver.submit(f, (), (), spec=ev.TaskSpec(timeout=1.0))
    s.all_read()
    assert s.session.deadline() == s.now + 1.0
    passes(s, 0.5)
    assert not of(do.Stop, worker.inbox)
    passes(s, 0.5)
    assert of(do.Stop, worker.inbox) == [do.Stop(first)]
    assert do.Kill(worker.worker) not in passes(s, PATIENCE / 2)
    if hears:
        worker.read_all()
        worker.finish((CANCELLED,), 1.0)
        s.turn()
    else:
        assert do.Kill(worker.worker) in passes(s, PATIENCE / 2)
        s.crash(worker)
        worker = s.worker()
    assert told(driver) == {first: b"!timeout"}
    assert runs(worker) == [second], "its time begins with it"
    s.all_read()
    assert s.session.deadline() == s.now + 1.0


# -- executors ------------------------------------------------------------------------------------


def test_of_an_executor_so_many_run_at_a_time(stage: Make) -> None:
    s = stage(workers=3)
    driver = s.driver()
    workers = [s.worker() for _ in range(3)]
    f, limited = s.function(driver), ev.TaskSpec(executor=1, max_workers=1)
    (late,) = driver.submit(f, (), ())
    tasks = [driver.submit(f, (), (), spec=limited)[0] for _ in range(2)]
    tasks += driver.submit(f, (late,), (), spec=limited)
    (other,) = driver.submit(f, (), (), spec=ev.TaskSpec(executor=2, max_workers=1))
    s.all_read()

    def running() -> dict[int, Peer]:
        return {peer.runs[0].task: peer for peer in workers if peer.runs}

    assert running().keys() == {late, tasks[0], other}
    running()[late].finish((NONE,), 1.0)
    s.all_read()
    assert running().keys() == {tasks[0], other}
    for before, after in zip(tasks, [*tasks[1:], None], strict=True):
        running()[before].finish((NONE,), 1.0)
        s.all_read()
        assert running().keys() == {other} | ({after} if after else set())


# -- streams --------------------------------------------------------------------------------------


def items(driver: Peer) -> list[bytes]:
    return [item.value.header for item in of(do.Item, [*driver.heard, *driver.inbox])]


def test_a_stream_goes_on_where_it_was_when_its_worker_died(stage: Make) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    spec = ev.TaskSpec(ahead=2)
    (stream,) = driver.submit(s.function(driver), (), (), spec=spec, retries=1)
    s.all_read()
    for header in (b"0", b"1"):
        worker.post(ev.Yielded(stream, worker.id(), ev.Value(header)))
    driver.post(ev.Took(stream, 1))
    s.turn()
    assert of(ev.Took, worker.inbox) == [ev.Took(stream, 1)]
    s.crash(worker)
    worker = s.worker()
    (run,) = of(do.Run, worker.inbox)
    assert (run.task, run.made, run.taken) == (stream, 2, 1)
    s.all_read()
    worker.post(ev.Yielded(stream, worker.id(), ev.Value(b"2")))
    s.turn()
    assert items(driver) == [b"0", b"1", b"2"]
    worker.finish((NONE,), 1.0)
    s.turn()
    assert do.Ready(stream, NONE) in driver.inbox


def test_a_stream_that_nobody_reads_any_more_is_stopped(stage: Make) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    (stream,) = driver.submit(s.function(driver), (), (), spec=ev.TaskSpec(ahead=2))
    s.all_read()
    driver.drop(stream)
    s.turn()
    assert of(do.Stop, worker.inbox) == [do.Stop(stream)]
    worker.finish((CANCELLED,), 1.0)
    s.turn()
    assert not s.session.state.scheduler.tasks


# -- what becomes of them -------------------------------------------------------------------------


@pytest.mark.parametrize("retries", [0, 1])
def test_one_that_asks_to_be_tried_again_is_as_often_as_it_may(stage: Make, retries: int) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    (task,) = driver.submit(s.function(driver), (), (), retries=retries)
    for _ in range(1 + retries):
        s.all_read()
        assert [run.task for run in worker.runs] == [task]
        worker.runs.clear()
        worker.post(ev.Done(task, (BOOM,), 1.0, again=True))
    s.all_read()
    assert not worker.runs
    assert driver.values[task] == BOOM


def test_only_what_was_not_sent_is_withdrawn(stage: Make) -> None:
    s = stage(workers=1)
    driver, worker = s.driver(), s.worker()
    f = s.function(driver)
    over, sent, waiting = (driver.submit(f, (), ())[0] for _ in range(3))
    s.all_read()
    worker.finish((NONE,), 1.0)
    s.all_read()
    driver.inbox.clear()
    for request, task in enumerate((over, sent, waiting), 1):
        driver.post(ev.Ask(request, "withdraw", task))
    s.turn()
    answers = [answer.text for answer in of(do.Answer, driver.inbox)]
    assert answers == ["over", "sent", "waiting"]
    assert told(driver) == {waiting: b"!cancelled"}
    assert s.session.state.scheduler.tasks.keys() == {sent}


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
