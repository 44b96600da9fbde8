"""The decisions worth a name, one story each. What must hold always is the machine's business. And
what isn't usual isn't treated as if it were, however much it looks like it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.unit.core.conftest import Drivers, Make, Pair, Stage
from tests.unit.core.peers import ABOUT, BOOM, NONE, of, runs, told
from workbench.core import events as ev
from workbench.core import fast_path
from workbench.core import instructions as do
from workbench.core.catalog import MOST_SITES
from workbench.core.durations import APART, BATCH_SECONDS, Durations
from workbench.core.loop_events import Left, WorkerExited
from workbench.core.pool import KILLS, MOST_STARTUP_FAILURES, PAUSES, RETRY_SECONDS, SPARE_SECONDS
from workbench.core.scheduler import BATCH_TASKS
from workbench.core.snapshot_builder import take_snapshot
from workbench.core.tasks import ONE
from workbench.system.sizes import PAGE


@pytest.mark.parametrize(
    ("seconds", "sent"),
    [
        ([BATCH_SECONDS / 8] * 50, 8),
        ([0.0] * 2 * BATCH_TASKS, BATCH_TASKS),
        ([0.0, None, 0.0], 1),  # one that nobody knows isn't queued behind others
        ([None, 0.0], 1),  # nor anything behind it
    ],
)
def test_short_tasks_are_sent_ahead(pair: Pair, seconds: list[float | None], sent: int) -> None:
    s, driver, worker = pair()
    functions = {each: s.function(driver, each) for each in set(seconds)}
    tasks = s.hears([driver.submit(functions[each], (), ())[0] for each in seconds])
    assert runs(worker) == tasks[:sent]


def test_what_was_sent_too_early_is_recalled_for_whoever_has_time(pair: Pair) -> None:
    s, driver, busy = pair(workers=2)
    f = s.function(driver, seconds=BATCH_SECONDS / 8)
    tasks = s.all_hear([driver.submit(f, (), ())[0] for _ in range(8)])
    late = s.worker()
    assert list(busy.inbox) == [do.Recall(4)]
    busy.read()
    s.turn()
    assert runs(late)[0] == tasks[4]
    assert sorted([*runs(late), *runs(busy)]) == tasks[4:]


def test_a_worker_that_waits_lends_its_slot(pair: Pair) -> None:
    s, driver, worker = pair(workers=1)
    f = s.function(driver)
    s.all_hear(driver.submit(f, (), ()))
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


def test_tasks_that_need_little_have_a_worker_each(pair: Pair) -> None:
    s, driver, _ = pair(workers=1)
    for _ in range(5):
        driver.submit(s.function(driver), (), (), spec=ev.TaskSpec(cpus=ONE // 4))
    assert len(of(do.Fork, s.turn())) == 3


@pytest.mark.parametrize("how", ["given back", "crash"])
def test_what_is_cancelled_is_not_sent_again(pair: Pair, how: str) -> None:
    s, driver, worker = pair()
    f = s.function(driver, seconds=0.0)
    tasks = s.hears([driver.submit(f, (), (), retries=1)[0] for _ in range(3)])
    assert runs(worker) == tasks
    driver.post(ev.Cancel((tasks[1],), False, True))
    if how == "crash":  # before it heard of it
        s.turn()
        s.crash(worker)
        worker = s.worker()
        assert runs(worker) == [tasks[0], tasks[2]]
    else:
        s.say(worker, ev.GaveBack((tasks[1],)))
        assert runs(worker) == tasks
    assert told(driver)[tasks[1]] == b"!cancelled"


def test_a_crash_is_the_running_tasks_and_that_of_those_before_it(pair: Pair) -> None:
    """Those before it have run too, and their results were lost; those behind it haven't begun."""
    s, driver, worker = pair()
    f = s.function(driver, seconds=0.0)
    tasks = s.hears([driver.submit(f, (), (), retries=r, name="fragile")[0] for r in (1, 0, 0, 0)])
    s.post(0, WorkerExited(worker.worker, -9, "", tasks[2]))
    s.leave(worker)
    assert runs(s.worker()) == [tasks[0], tasks[3]]
    assert told(driver) == {tasks[1]: b"!crashed", tasks[2]: b"!crashed"}
    texts = {m.object: m.value.header for m in driver.inbox if isinstance(m, do.Ready)}
    assert b"SIGKILL" in texts[tasks[2]]
    assert b"while it ran `fragile`" in texts[tasks[2]]


@pytest.mark.parametrize("retries", [0, 1])
def test_what_a_dead_worker_had_not_sent_is_shown_before_its_end(pair: Pair, retries: int) -> None:
    s, driver, worker = pair(workers=1)
    task = s.hears(driver.submit(s.function(driver), (), (), retries=retries, origin=7))[0]
    unsent = ((task, "stdout", b"so far\n"), (task + 1, "stdout", b"of no task\n"))
    s.post(0, WorkerExited(worker.worker, -9, "", task, unsent=unsent))
    sent = [i.message for i in of(do.Send, s.turn()) if i.to == driver.number]
    assert sent[0] == ev.Output(task, "stdout", b"so far\n", 7, 1)
    assert len(sent) == 1 + (not retries)  # and that it failed


def newborn_ends(s: Stage, status: int, unforked: str = "") -> None:
    """Before it has spoken, or without having been born."""
    s.post(0, WorkerExited(s.starting.pop(), status, "no thread", unforked=unforked))


NO_FILES = "Too many open files"


@pytest.mark.parametrize(
    ("status", "unforked", "tries", "at_once"),
    [
        (1, "", MOST_STARTUP_FAILURES, True),
        # Somebody kills, or has no process left to give; and Python isn't broken.
        (-9, "", MOST_STARTUP_FAILURES * KILLS, True),
        (-9, "the process that forks workers ended", MOST_STARTUP_FAILURES * KILLS, False),
        (0, NO_FILES, MOST_STARTUP_FAILURES * KILLS, False),
    ],
)
def test_workers_that_die_before_they_speak_are_not_made_for_ever(
    drivers: Drivers, status: int, unforked: str, tries: int, at_once: bool
) -> None:
    s, (driver,) = drivers(workers=1)
    f = s.function(driver)
    before = driver.submit(f, (), ())[0]
    after = driver.submit(f, (before,), ())[0]
    for left in range(tries - 1, -1, -1):
        newborn_ends(s, status, unforked)
        s.turn()
        assert s.session.state.pool.last_words.endswith(
            f": {unforked}." if unforked else "no thread"
        )
        assert len(s.starting) == (at_once and left > 0)
        s.turn(RETRY_SECONDS)
    assert not s.starting
    later = s.hears(driver.submit(f, (), ()))[0]  # is reason to try once more
    newborn_ends(s, 1)
    s.turn()
    assert not s.starting
    assert told(driver) == {before: b"!crashed", after: b"!crashed", later: b"!crashed"}


@pytest.mark.parametrize(("status", "unforked"), [(1, ""), (0, NO_FILES), (-9, "")])
def test_a_broken_pool_tries_again_now_and_then(stage: Make, status: int, unforked: str) -> None:
    s = stage(workers=2)
    s.driver()  # else the session ends
    while not s.session.state.pool.broken:
        while s.starting:
            newborn_ends(s, status, unforked)
        s.turn(RETRY_SECONDS)
    tries = []
    while len(tries) < 8:
        assert not s.starting
        when = s.session.deadline()
        assert when is not None
        assert when > s.now, "it asks for no time that has passed"
        tries.append(when - s.now)
        s.turn(when - s.now)
        newborn_ends(s, status, unforked)
        assert not s.starting, "one at a time"
        s.turn()
    first, longest = PAUSES
    assert tries == [pytest.approx(min(first * 2**n, longest)) for n in range(8)]
    s.turn(longest)
    s.worker()
    s.turn()
    assert len(s.starting) == 1  # it is whole again
    assert s.session.state.pool.startup_failures == 0


def test_a_whole_pool_that_could_fork_nobody_for_an_actor_waits_for_nothing(pair: Pair) -> None:
    s, driver, worker = pair(workers=1)
    s.hears(driver.create(s.function(driver)))
    while s.starting:
        newborn_ends(s, 0, NO_FILES)
        s.turn()
        s.turn(RETRY_SECONDS)
    assert s.session.state.pool.broken
    s.turn(PAUSES[0])
    when = s.session.deadline()
    assert when is None or when > s.now
    assert worker.number in s.session.state.clients


def test_a_task_given_back_twice_is_run_once(pair: Pair) -> None:
    s, driver, worker = pair()
    task = s.hears(driver.submit(s.function(driver), (), ()))[0]
    s.say(worker, ev.GaveBack((task, task)))
    assert runs(worker) == [task, task], "sent, given back, and sent again"


def test_what_is_made_by_no_task_can_be_withdrawn_too(pair: Pair) -> None:
    s, driver, _ = pair()
    sent, value = driver.submit(s.function(driver), (), ())[0], driver.put(ev.Value(b"1"))
    s.turn()
    for id in (sent, value):
        driver.post(ev.Ask(1, "withdraw", id))
    s.turn()
    answers = [each.text for each in driver.inbox if isinstance(each, do.Answer)]
    assert answers == ["sent", "over"]


@pytest.mark.parametrize("recursive", [True, False])
def test_what_a_task_has_submitted_is_cancelled_with_it(pair: Pair, recursive: bool) -> None:
    s, driver, worker = pair(workers=1)
    function = s.function(driver)
    (parent,) = s.all_hear(driver.submit(function, (), ()))
    (child,) = worker.submit(function, (), ())
    (other,) = driver.submit(function, (), ())
    out = s.say(driver, ev.Cancel((parent,), recursive=recursive))
    assert do.Send(worker.number, do.Stop(parent)) in out
    left = s.session.state.scheduler.tasks.keys()
    assert left == {parent, other} | (set() if recursive else {child})


def test_any_result_stands_for_its_task(pair: Pair) -> None:
    s, driver, _ = pair(workers=1)
    function = s.function(driver)
    (running,) = driver.submit(function, (), ())
    first, _, last = s.hears(driver.submit(function, (), (), returns=3))
    s.say(driver, ev.Cancel((running, last), begun=False))
    assert s.session.state.scheduler.tasks.keys() == {running}
    assert do.Stop not in map(type, s.say(driver, ev.Cancel((first, last))))


def test_ten_thousand_tasks_that_wait_for_each_other_fail_together(pair: Pair) -> None:
    s, driver, worker = pair()
    f = s.function(driver)
    chain = [driver.submit(f, (), ())[0]]
    for _ in range(10_000):
        chain.append(driver.submit(f, (chain[-1],), ())[0])
    s.all_read()
    worker.finish((ev.Value(b"boom", failed=True),), 1.0)
    s.turn()
    assert told(driver) == dict.fromkeys(chain, b"boom")


def test_ten_thousand_objects_inside_each_other_are_freed_together(drivers: Drivers) -> None:
    s, (driver,) = drivers()
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


def test_places_at_which_refs_escape_are_counted_up_to_a_point(drivers: Drivers) -> None:
    s, (driver,) = drivers()
    id = driver.put(NONE)
    for n in [*range(2 * MOST_SITES), 0]:
        driver.post(ev.Escape(id, f"line {n}"))
    s.turn()
    entry = s.session.state.catalog.get(id)
    assert entry is not None
    assert entry.escapes == tuple(f"line {n}" for n in range(MOST_SITES))


def test_who_has_left_and_still_shows_an_object_keeps_its_bytes(drivers: Drivers) -> None:
    s, (owner, reader) = drivers(2, capacity=10 * PAGE)
    segment = s.hears(owner.open_arena(20, granted=4))
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
    assert not of(do.Release, owner.inbox), "it is shown"
    s.say(reader, Left())
    assert do.Release(((0, PAGE),)) in owner.inbox


def test_the_last_driver_ends_its_session_though_it_shows_objects(stage: Make) -> None:
    s = stage()
    driver = s.driver(linger=60.0)
    assert do.Exit() in s.say(driver, ev.Bye(shows=True))
    s = stage()
    driver = s.driver(linger=60.0)
    assert do.Exit() not in s.say(driver, ev.Bye(lingers=True, shows=True))
    assert s.session.deadline() == 60.0


def days(s: Stage, seed: int) -> list[do.Anything]:
    """Two drivers and two workers do what bursts have, and some of what they haven't."""
    chance, said = random.Random(seed), list[do.Anything]()
    drivers, workers = (s.driver(), s.driver()), (s.worker(), s.worker())
    functions = {driver: s.function(driver, seconds=0.0001) for driver in drivers}
    for _ in range(300):
        driver, worker = chance.choice(drivers), chance.choice(workers)
        match chance.randrange(9):
            case 0:
                driver.submit_calls(functions[driver], chance.randrange(1, 40))
            case 1:
                deps = tuple(chance.sample(driver.held, min(len(driver.held), 1)))
                driver.submit(functions[driver], deps, (), retries=1)
            case 2 if driver.held:
                ids = [id for id in driver.held if id != functions[driver]]
                for id in chance.sample(ids, min(len(ids), 20)):
                    driver.drop(id)
            case 3 if worker.runs:
                worker.submit(worker.runs[0].function, (), ())
            case 4 if worker.runs:
                worker.finish((BOOM,), 0.00001)
            case 5 if worker.runs:
                id = worker.runs.popleft().task
                worker.post(ev.Done(id, (ev.Value(b"P" * 100),), 0.0001, (ABOUT,)))
            case _:
                for _ in range(min(len(worker.runs), chance.randrange(20))):
                    worker.finish((NONE,), 0.1 if chance.random() < 0.02 else 0.00001)
        said += s.turn(0.001)
        for peer in s.peers.values():
            while peer.inbox and chance.random() < 0.95:
                peer.read()
    return said


@pytest.mark.parametrize("seed", range(4))
def test_the_outcome_is_the_same(stage: Make, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The same events once more, with all taken as if it were unusual."""
    asked = list[bool]()

    def counted(is_usual: Callable[..., bool]) -> Callable[..., bool]:
        return lambda *args: asked.append(usual := is_usual(*args)) or usual

    names = "takes_submit", "takes_calls", "takes_done"
    for name in names:
        monkeypatch.setattr(fast_path, name, counted(getattr(fast_path, name)))
    usual = days(stage(workers=2), seed)
    assert sum(asked) > 200
    for name in names:
        monkeypatch.setattr(fast_path, name, lambda *_: False)
    assert days(stage(workers=2), seed) == usual


F = 1
LONG = 10.0


@pytest.mark.parametrize(
    ("runs", "is_short"),
    [
        # A run now and then waited for a processor.
        *[(([usual] * APART + [LONG]) * 10, True) for usual in (0.0, 1e-6, 5e-5, 1e-4)],
        # It has become long.
        *[([usual, LONG, LONG], False) for usual in (0.0, 1e-6, 1e-4, BATCH_SECONDS)],
        # It is long now and then.
        ([1e-4, 1.0, 1e-4, 1.0], False),
        # It is long at first, and then short.
        ([0.1], False),
        ([0.1, *[1e-5] * 20], True),
    ],
)
def test_which_functions_are_short(runs: list[float], is_short: bool) -> None:
    durations = Durations()
    for seconds in runs:
        durations.record_run(F, seconds)
    assert durations.is_short(F) == is_short
    durations.forget(F)
    assert not durations.is_short(F)
