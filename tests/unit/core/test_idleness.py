"""A session that nobody uses gives back what it keeps ready; and the machine's memory is shared."""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Drivers, Make, Pair, Stage
from tests.unit.core.peers import NONE, Peer, grants, of, runs, told
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.budget import PATIENCE
from workbench.core.lifetime import LEFT
from workbench.core.loop_events import Measured, MeasuredProcess, Tick
from workbench.core.memory_monitor import TOO_LITTLE
from workbench.core.session import Session
from workbench.system.sizes import PAGE

IDLE = 600.0
HEADROOM = 1 << 20


def hung_up(out: list[do.Anything]) -> list[int]:
    return [each.client for each in of(do.Hangup, out)]


def passes(s: Stage, seconds: float) -> list[do.Anything]:
    s.post(0, Tick())
    return s.turn(seconds)


def measured(s: Stage, pages: int) -> list[do.Anything]:
    """So much of the machine's memory is left."""
    s.post(0, Measured(pages * PAGE, 1000 * PAGE, ()))
    return s.turn()


def test_workers_that_nobody_uses_end_and_come_back_for_a_task(stage: Make) -> None:
    s = stage(workers=2, idle=IDLE)
    driver, one, two = s.driver(), s.worker(), s.worker()
    function = s.function(driver, seconds=0.1)
    assert s.session.deadline() == IDLE
    assert not hung_up(passes(s, IDLE - 1))
    driver.post(ev.Ask(1))  # who looks doesn't use
    s.turn()
    assert set(hung_up(passes(s, 1))) == {one.number, two.number}
    for worker in (one, two):
        assert not of(do.Fork, s.crash(worker, 0)), "nobody has anything to do for it"
    assert not s.session.state.scheduler.workers
    assert s.session.deadline() is None
    assert not passes(s, 10 * IDLE), "once is enough"

    driver.submit(function, (), ())
    assert len(of(do.Fork, s.turn())) == 2
    three = s.all_hear(s.worker())
    assert three.runs
    s.worker()
    assert not hung_up(passes(s, 2 * IDLE)), "a task runs"
    s.finish(three, (NONE,), 0.1)
    assert not hung_up(passes(s, IDLE - 1))
    driver.put(NONE)
    assert not hung_up(passes(s, IDLE - 1)), "it was used"
    assert len(hung_up(passes(s, IDLE))) == 2


def test_workers_of_a_session_that_waits_for_a_notebook_end_soon(stage: Make) -> None:
    s = stage(workers=2, idle=IDLE)
    driver, one, two = s.driver(linger=10 * IDLE), s.worker(), s.worker()
    assert not hung_up(passes(s, 2 * LEFT))
    s.leave(driver)
    assert not hung_up(passes(s, LEFT / 4)), "a kernel that restarts finds them"
    driver = s.driver(linger=10 * IDLE)
    assert not hung_up(passes(s, 2 * LEFT)), "it has come back"
    s.leave(driver)
    assert set(hung_up(passes(s, LEFT))) == {one.number, two.number}


def test_workers_end_at_once_when_a_person_has_ended_the_last_notebook(stage: Make) -> None:
    """The next notebook on a small machine needs their memory."""
    s = stage(workers=2, idle=IDLE)
    driver, one, two = s.driver(linger=10 * IDLE), s.worker(), s.worker()
    s.say(driver, ev.Bye(lingers=True, final=True))
    out = s.leave(driver)
    assert set(hung_up(out + passes(s, 0))) == {one.number, two.number}


def kept_for_a_moment(drivers: Drivers, final: bool = True) -> Stage:
    """A session with an object whose last notebook was shut down, or crashed. If it may have to
    make way, it looks at once how much memory is left."""
    s, (driver,) = drivers(linger=60.0, capacity=1 << 30, headroom=HEADROOM)
    s.hears(driver.put(ev.Value(bytes(1000)), "kept"))
    if final:
        s.say(driver, ev.Bye(lingers=True, final=True))
    asked = do.Measure() in s.leave(driver) + s.turn(0)
    assert asked is final
    return s


def left(s: Stage, nbytes: int) -> list[do.Anything]:
    s.post(0, Measured(HEADROOM + nbytes, 1 << 31, ()))
    return s.turn()


def test_a_session_kept_for_a_moment_makes_way_where_memory_is_short(drivers: Drivers) -> None:
    s = kept_for_a_moment(drivers)
    needed = s.session.state.budget.granted
    assert needed >= 1000, "the more it has, the sooner"
    assert do.Exit() not in left(s, needed + TOO_LITTLE)
    assert do.Measure() in passes(s, 1.0), "it looks again"
    assert do.Exit() in left(s, needed + TOO_LITTLE - 1)


def test_who_comes_back_finds_it_all_the_same(drivers: Drivers) -> None:
    s = kept_for_a_moment(drivers, final=False)
    assert do.Exit() not in left(s, 0)
    s = kept_for_a_moment(drivers)
    s.driver(linger=60.0)
    assert do.Exit() not in left(s, 0)


def test_a_session_that_begins_is_in_use() -> None:
    session = Session("test", 2, 1 << 20, idle=IDLE)
    out = session.handle([(0, Tick())], 10 * IDLE)  # of any clock
    assert len(of(do.Fork, out)) == 2


def test_a_task_for_a_worker_that_is_just_leaving_gets_another(pair: Pair) -> None:
    s, driver, worker = pair(workers=1, idle=IDLE)
    function = s.function(driver, seconds=0.1)
    assert hung_up(passes(s, IDLE)) == [worker.number]
    driver.submit(function, (), ())
    assert len(of(do.Fork, s.turn())) == 1
    s.crash(worker, 0)
    another = s.all_hear(s.worker())
    assert another.runs


def test_a_worker_on_which_threads_go_on_stays(pair: Pair) -> None:
    s, driver, worker = pair(workers=1, idle=IDLE)
    task = s.all_hear(driver.submit(s.function(driver), (), (), origin=5))[0]
    worker.runs.popleft()
    s.say(worker, ev.Done(task, (NONE,), 0.1, threads=True))
    driver.inbox.clear()
    s.say(worker, ev.Output(task, "stdout", b"late"))
    assert list(driver.inbox) == [ev.Output(task, "stdout", b"late", 5, worker.worker)]
    assert not hung_up(passes(s, IDLE))


def test_an_actor_stays(pair: Pair) -> None:
    s, driver, worker = pair(workers=1, idle=IDLE)
    s.hears(driver.create(s.function(driver)))
    actor = s.all_hear(s.worker())
    s.finish(actor, (NONE,), 0.1)
    assert hung_up(passes(s, IDLE)) == [worker.number]


def test_free_memory_goes_back_to_the_machine_when_nobody_uses_it(drivers: Drivers) -> None:
    s, (driver, other) = drivers(2, capacity=10 * PAGE, idle=IDLE)
    for peer in (driver, other):
        peer.open_arena(20, granted=4)
    s.turn()
    for peer in (driver, other):
        peer.inbox.clear()
    passes(s, IDLE)
    assert list(driver.inbox) == list(other.inbox) == [do.Trim(4 * PAGE)]
    s.say(driver, ev.Trimmed(4 * PAGE, answer=True))
    assert s.session.state.budget.granted == 4 * PAGE
    passes(s, IDLE)
    s.say(driver, ev.Grow(2, 8 * PAGE))
    assert list(other.inbox) == [do.Trim(4 * PAGE)], "asked once; it may be stopped"
    assert not grants(driver)[-1][1], "and nobody waits for it"
    other.post(ev.Trimmed(4 * PAGE, answer=True))
    driver.post(ev.Grow(3, 8 * PAGE))
    s.turn()
    assert grants(driver)[-1] == (3, 8 * PAGE)


def test_nobody_gets_what_the_machine_does_not_have(drivers: Drivers) -> None:
    s, (driver,) = drivers(capacity=100 * PAGE, headroom=10 * PAGE)
    driver.open_arena(200, granted=5)
    assert of(do.Measure, s.turn())
    assert not driver.inbox, "it isn't known what is left"
    measured(s, 20)
    assert grants(driver) == [(1, 5 * PAGE)]
    s.say(driver, ev.Grow(2, 5 * PAGE), ev.Grow(3, 1 * PAGE))
    measured(s, 17)  # somebody else has taken some
    measured(s, 11)
    assert grants(driver)[1:] == [(2, 5 * PAGE), (3, PAGE)]
    s.say(driver, ev.Grow(4, 5 * PAGE))
    measured(s, 11)
    answer = of(do.Grown, driver.inbox)[-1]
    assert answer.granted == 0
    assert "The machine has too little memory left" in answer.text


def test_who_is_ended_hears_what_others_have(pair: Pair) -> None:
    """It may have taken little: then other notebooks are the reason."""
    s, driver, worker = pair(headroom=1)
    s.hears(driver.submit(s.function(driver), (), (), name="heavy"))
    s.post(0, Measured(0, 450_000_000, (has(worker, 50_000_000),)))
    assert do.Kill(worker.worker) in s.turn()
    reason = s.session.state.scheduler.workers[worker.worker].kill_reason
    assert "(0 B of 450 MB were left; in use: `heavy` 50 MB, " in reason
    assert " 50 MB, the store 10 B, notebooks and other programs 400 MB)" in reason


def test_what_others_keep_warm_makes_room_on_the_machine_too(drivers: Drivers) -> None:
    s, (keeper, asker) = drivers(2, capacity=100 * PAGE, headroom=PAGE)
    s.hears(keeper.open_arena(200, granted=30))
    measured(s, 50)
    s.hears(asker.open_arena(200, granted=20))
    measured(s, 6)
    assert keeper.inbox[-1] == do.Trim(15 * PAGE)
    s.say(keeper, ev.Trimmed(15 * PAGE, answer=True))
    assert grants(asker) == [(1, 20 * PAGE)]


def test_where_memory_runs_short_the_youngest_of_those_who_have_most_ends(drivers: Drivers) -> None:
    s, (driver,) = drivers(workers=3, headroom=1000)
    idle, busy = [s.worker() for _ in range(3)], list[Peer]()
    for _ in range(3):
        driver.submit(s.function(driver), (), ())
        s.turn(1.0)
        busy += [worker for worker in idle if runs(worker) and worker not in busy]
    old, young, small = busy
    sizes = has(old, 5000), has(young, 4000), has(small, 1000)
    s.post(0, Measured(1000, 100_000, sizes))
    assert not of(do.Kill, s.turn()), "enough is left"
    s.post(0, Measured(999, 100_000, sizes))
    assert of(do.Kill, s.turn()) == [do.Kill(young.worker)]


@pytest.mark.parametrize("others", [1, 0])
def test_what_memory_ended_is_tried_again_unless_alone(drivers: Drivers, others: int) -> None:
    s, (driver,) = drivers(workers=1 + others, headroom=1000)
    workers = [s.worker() for _ in range(1 + others)]
    f = s.function(driver)
    first, *_ = s.hears([driver.submit(f, (), (), retries=1)[0] for _ in workers])
    victim = next(worker for worker in workers if runs(worker) == [first])
    s.post(0, Measured(0, 100_000, (has(victim, 50_000),)))
    assert of(do.Kill, s.turn()) == [do.Kill(victim.worker)]
    s.crash(victim)
    assert told(driver) == ({} if others else {first: b"!memory"})


def has(peer: Peer, private: int) -> MeasuredProcess:
    """What is measured of a peer's process."""
    return MeasuredProcess(peer.number, 1000 + peer.number, private, private, 0, 1 << 40)


def keeper_of(s: Stage, pages: int) -> tuple[Peer, int]:
    """A driver that keeps so many pages warm, and its segment."""
    keeper = s.driver()
    segment = s.hears(keeper.open_arena(2 * pages, granted=pages))
    keeper.inbox.clear()
    return keeper, segment


def test_inline_objects_past_the_capacity_have_warm_memory_trimmed(stage: Make) -> None:
    s = stage(capacity=64 * PAGE)
    keeper, _ = keeper_of(s, 60)
    asked = 0
    for n in range(1, 200):  # 50 pages in all
        s.hears(keeper.put(ev.Value(bytes(PAGE // 4))))
        while keeper.inbox:
            message = keeper.inbox.popleft()
            assert isinstance(message, do.Trim)
            asked += 1
            s.say(keeper, ev.Trimmed(message.nbytes, answer=True))
        assert s.session.state.budget.granted <= 64 * PAGE, n
    assert asked <= 50, "once for so much growth, not for each object"


def test_who_was_asked_for_inline_objects_and_stays_silent_is_not_asked_again(stage: Make) -> None:
    s = stage(capacity=4 * PAGE)
    keeper, _ = keeper_of(s, 4)
    for _ in range(2):
        s.hears(keeper.put(ev.Value(bytes(PAGE))))
    assert len(keeper.inbox) == 1, "an answer is due"
    passes(s, PATIENCE)
    other = s.driver()
    s.hears(other.open_arena(8, granted=1))
    assert grants(other) == [(1, 0)], "nobody waits for who doesn't answer"
    assert len(keeper.inbox) == 1
    keeper.post(ev.Trimmed(2 * PAGE, answer=True))  # it goes on
    s.hears(keeper.put(ev.Value(bytes(PAGE))))
    assert len(keeper.inbox) == 2


def test_who_has_nothing_to_give_is_asked_once(stage: Make) -> None:
    """Its free memory may be what it is just writing to."""
    s = stage(capacity=4 * PAGE)
    keeper, segment = keeper_of(s, 4)
    s.hears(keeper.put(ev.Value(bytes(PAGE))))
    s.say(keeper, ev.Trimmed(0, answer=True))
    passes(s, 10)
    assert len(of(do.Trim, keeper.inbox)) == 1
    object = s.hears(keeper.put(ev.Value(b"E", segment, 0, PAGE)))
    keeper.drop(object)
    s.turn()
    assert [type(message) for message in keeper.inbox] == [do.Trim, do.Release, do.Trim]
