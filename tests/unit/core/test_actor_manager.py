"""Actors whose driver leaves before they are made; what one takes of the processors; two of one
name.

What becomes of others: `test_line_machine`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.conftest import Drivers, Make, Pair, Stage
from tests.unit.core.peers import BOOM, NONE, Peer, of
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import WorkerExited
from workbench.core.snapshot_builder import pins_of, take_snapshot
from workbench.core.tasks import AHEAD, ActorState


def create(s: Stage, driver: Peer, cpus: int = 0, **options: Any) -> int:
    """Have an actor made; returns its handle's object."""
    return s.hears(driver.create(s.function(driver), cpus, **options))


def home(s: Stage) -> Peer:
    """The worker in which the actor is made, when it is."""
    worker = s.all_hear(s.worker())
    s.finish(worker, (NONE,), 0.0)
    return worker


def call(driver: Peer, actor: int) -> int:
    (result,) = driver.submit(0, (), (), actor=actor)
    return result


def test_it_goes_with_its_last_call(drivers: Drivers) -> None:
    s, (driver, _) = drivers(2, workers=1)
    s.hears(call(driver, create(s, driver)))
    assert s.session.state.scheduler.actors
    s.leave(driver)
    assert not s.session.state.scheduler.actors
    assert not s.session.state.scheduler.tasks


def test_it_is_made_for_another_who_holds_it(stage: Make) -> None:
    s = stage(workers=1)
    maker, other, _ = s.driver(), s.driver(), s.worker()
    actor = create(s, maker)
    other.borrow((actor,))
    result = s.hears(call(other, actor))
    s.leave(maker)
    assert [run.task for run in home(s).runs] == [result]


def test_what_it_was_made_of_is_needed_as_long_as_it_may_be_made_again(pair: Pair) -> None:
    s, driver, _ = pair(workers=1)
    argument, other = driver.put(ev.Value(b"x")), driver.put(ev.Value(b"y"))
    actor = create(s, driver, restarts=1, deps=(argument,))
    home(s)
    state = s.session.state
    tasks = {
        id: [pin.object for pin in pins_of(state, state.catalog[id]) if pin.reason == "task"]
        for id in (argument, other)
    }
    assert tasks == {argument: [actor], other: []}


def test_actors_wait_for_processors_that_other_actors_have(drivers: Drivers) -> None:
    s, (driver,) = drivers(workers=2)
    first, _, third = (create(s, driver, 1000) for _ in range(3))
    assert len(s.starting) == 2 + 2  # the pool's, and two actors'
    fourth = create(s, driver)  # it asks for none
    actors = s.session.state.scheduler.actors
    assert actors[fourth].worker is not None
    assert actors[third].worker is None
    create(s, driver, 2000)
    s.say(driver, ev.KillActor(first))
    while s.starting:
        s.worker()
    died = actors[first].worker
    assert died is not None
    s.post(0, WorkerExited(died.number, -9))
    s.turn()
    assert actors[third].worker is not None
    assert len(s.starting) == 1  # the one behind it needs both


def test_tasks_have_what_actors_leave_and_one_runs_in_any_case(drivers: Drivers) -> None:
    s, (driver,) = drivers(workers=2)
    workers = [s.worker(), s.worker()]
    for running, cpus in ((2, 0), (1, 1000), (1, 1000)):
        if cpus:
            create(s, driver, cpus)
        for _ in range(3):
            driver.submit(s.function(driver), (), ())
        s.all_read()
        assert sum(bool(worker.runs) for worker in workers) == running
        while any(worker.runs for worker in workers):
            s.finish(next(worker for worker in workers if worker.runs), (NONE,), 1.0)


def test_of_two_with_one_name_one_is_made_and_both_hear_which(drivers: Drivers) -> None:
    s, (one, other) = drivers(2, workers=1)
    first, second = (create(s, d, name="actor:it", request=7) for d in (one, other))
    assert of(do.Found, one.inbox) == of(do.Found, other.inbox) == [do.Found(7, first)]
    actors = s.session.state.scheduler.actors
    assert actors[second].state is ActorState.DEAD
    assert actors[first].state is ActorState.STARTING


def test_a_name_keeps_an_actor_only_if_it_is_detached(drivers: Drivers) -> None:
    s, (maker, other) = drivers(2, workers=1)
    kept = create(s, maker, name="actor:kept", detached=True)
    short = create(s, maker, name="actor:short")
    actors = s.session.state.scheduler.actors
    s.say(other, ev.Find(1, "actor:short"))
    assert do.Found(1, short) in other.inbox
    other.holds[short] += 1
    s.leave(maker)
    assert set(actors) == {kept, short}  # somebody who found it has it
    other.drop(short)
    s.turn()
    assert set(actors) == {kept}
    again = create(s, other, name="actor:short", request=2)
    assert do.Found(2, again) in other.inbox
    s.say(other, ev.KillActor(again), ev.Find(3, "actor:short"))
    assert do.Found(3, 0) in other.inbox


def test_after_a_kill_nothing_is_sent_to_the_old_worker(pair: Pair) -> None:
    s, driver, _ = pair(workers=1)
    actor = create(s, driver, restarts=1)
    old = home(s)
    driver.post(ev.KillActor(actor, restart=True))
    result = s.all_hear(call(driver, actor))
    assert not old.runs
    s.crash(old)
    assert [run.task for run in home(s).runs] == [result]


def test_that_it_is_being_made_is_none_of_its_calls(pair: Pair) -> None:
    """What is lost with a session is said once."""
    s, driver, _ = pair(workers=1)
    actor = create(s, driver)

    def told() -> tuple[str, int]:
        (record,) = take_snapshot(s.session.state).actors
        return record.state, record.calls

    assert told() == ("being made", 0)
    s.hears(call(driver, actor))
    assert told() == ("being made", 1)
    home(s)
    assert told() == ("alive", 1)


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("its argument fails", b"boom"),
        ("it can't be made", b"boom"),
        ("it leaves", b"left by exit_actor()"),
    ],
)
def test_who_calls_one_that_has_ended_hears_why(pair: Pair, end: str, says: bytes) -> None:
    s, driver, maker = pair(workers=1)
    (argument,) = driver.submit(s.function(driver), (), ())
    actor = create(s, driver, deps=(argument,))
    result = s.all_hear(call(driver, actor))
    s.finish(maker, (BOOM if end == "its argument fails" else NONE,), 0.0)
    if end == "it can't be made":
        s.all_hear(s.worker())
        next(peer for peer in s.peers.values() if peer.runs).finish((BOOM,), 0.0)
    elif end == "it leaves":
        home(s).post(ev.Leave())
    s.all_read()
    assert says in driver.values[result].header
    assert s.session.state.scheduler.actors[actor].state is ActorState.DEAD


def test_calls_in_no_order_are_not_held_up_by_the_argument_of_another(pair: Pair) -> None:
    s, driver, _ = pair(workers=1)
    actor = create(s, driver, in_order=False)
    worker = home(s)
    (late,) = driver.submit(s.function(driver), (), ())
    driver.submit(0, (late,), (), actor=actor)
    soon = s.all_hear(call(driver, actor))
    assert [run.task for run in worker.runs] == [soon]


def test_a_full_concurrency_group_holds_up_no_other(pair: Pair) -> None:
    s, driver, _ = pair(workers=1)
    actor = create(s, driver, restarts=1, groups=(("io", 2),))

    def calls(group: str, count: int) -> list[int]:
        spec = ev.TaskSpec(concurrency_group=group)
        return [driver.submit(0, (), (), actor=actor, spec=spec)[0] for _ in range(count)]

    many, few, unknown = calls("io", 200), calls("", 3), calls("?", 1)
    first = home(s)
    sent = [run.task for run in first.runs]
    assert [task for task in sent if task in many] == many[: 2 + AHEAD]
    assert [task for task in sent if task not in many] == few + unknown
    s.say(driver, ev.KillActor(actor, restart=True))
    s.crash(first)
    again = [run.task for run in home(s).runs]  # but for those that had begun
    assert unknown[0] in again
    assert sum(task in many for task in again) == 2 + AHEAD
