"""Objects that are lent with a worker: whom they may be given to, how their room comes back. Calls
by a line whose worker dies: what their callers are told, and what none may say of its line; what
becomes of calls: `test_line_machine`."""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import FUNCTION, Make, Pair, Stage
from tests.unit.core.peers import NONE, Peer, of
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.leases import STREAK
from workbench.core.loop_events import Copied, Left, WorkerExited
from workbench.core.pool import SPARE_SECONDS
from workbench.core.spilling import PATIENCE
from workbench.system.sizes import PAGE

PAGES = 8
"""Of the lent object: most of the capacity."""

SILENT = "a worker that may read it doesn't answer"


def used(s: Stage, driver: Peer, worker: Peer, function: int, id: int) -> int:
    """Have the worker lent, with the object, and the driver have its end; returns the line."""
    for _ in range(STREAK + 1):
        s.all_hear(driver.submit(function, (id,), ()))
        worker.finish((NONE,), 0.0)
        out = s.turn()
    (connect,) = of(do.Connect, out)
    for peer in (worker, driver):
        peer.post(ev.Attached(connect.line))
        s.all_read()
    return connect.line


def begin(pair: Pair, workers: int = 1, spills: bool = False) -> tuple[Stage, Peer, Peer, int, int]:
    s, driver, worker = pair(workers=workers, capacity=12 * PAGE, spills=spills)
    function = driver.put(FUNCTION)
    value = driver.value(PAGES)
    while value is None:
        s.all_read()
        value = driver.value(PAGES)
    return s, driver, worker, function, driver.put(value)


def granted(peer: Peer) -> do.Grown:
    (answer,) = of(do.Grown, peer.heard)
    return answer


def test_one_that_comes_for_the_first_time_makes_no_lease(pair: Pair) -> None:
    s, driver, worker = pair(workers=1)
    function = driver.put(FUNCTION)
    for _ in range(3 * STREAK):
        s.all_hear(driver.submit(function, (driver.put(ev.Value(b"one more")),), ()))
        worker.finish((NONE,), 0.0)
        assert not of(do.Connect, s.turn())


def test_what_holds_refs_is_not_lent(pair: Pair) -> None:
    s, driver, worker, function, id = begin(pair)
    used(s, driver, worker, function, driver.put(ev.Value(b"[ref]", contains=(id,))))
    assert not of(do.Lent, worker.heard)


def test_a_lease_that_its_driver_has_not_got_yet_is_not_unused(pair: Pair) -> None:
    s, driver, worker, function, id = begin(pair, workers=2)
    workers = [worker, s.worker()]
    lines = []
    for _ in range(5 * STREAK):  # the driver's end takes its time
        s.all_hear(driver.submit(function, (id,), ()))
        next(each for each in workers if each.runs).finish((NONE,), 0.0)
        lines += of(do.Connect, s.turn())
    assert len(lines) == 1
    assert not any(of(do.TakeBack, each.heard) for each in workers)


@pytest.mark.parametrize("says", ["it is done", "a task reads it", "nothing"])
def test_room_that_comes_back_with_a_lease_is_waited_for(pair: Pair, says: str) -> None:
    """For a while, should its worker be stopped. What a long task reads doesn't come back."""
    s, driver, worker, function, id = begin(pair)
    line = used(s, driver, worker, function, id)
    driver.drop(id)
    other = s.driver()
    assert other.value(PAGES) is None  # it asks for memory
    s.all_read()
    assert of(do.TakeBack, worker.heard) == [do.TakeBack(line)]
    assert not of(do.Grown, other.heard)
    assert s.session.deadline() == s.now + PATIENCE
    if says == "nothing":
        s.turn(after=PATIENCE)
    else:
        over = says == "it is done"
        worker.post(ev.Returned(line, over, () if over else (id,)))
    s.all_read()
    assert bool(granted(other).text) == (says != "it is done")


def test_a_worker_that_was_lent_is_not_surplus_at_once(pair: Pair) -> None:
    """It may have results that it is asked for only now."""
    s, driver, worker, function, id = begin(pair)
    other = s.driver()
    other.borrow((function,))
    s.all_hear(other.submit(function, (), ()))
    worker.block((), 1)
    s.hears(other.submit(function, (), ()))
    extra = s.all_hear(s.worker())
    extra.finish((NONE,), 0.0)
    line = used(s, driver, extra, function, id)
    worker.unblock()
    s.turn(after=SPARE_SECONDS)
    driver.drop(id)
    s.all_read()
    assert of(do.TakeBack, extra.heard) == [do.TakeBack(line)]
    assert not of(do.Hangup, s.say(extra, ev.Returned(line)))
    (hangup,) = of(do.Hangup, s.turn(after=SPARE_SECONDS))
    assert hangup.client == extra.number


def read_by(s: Stage, *peers: Peer) -> list[do.Anything]:
    """These take in what they were told, and nobody else does; what is to be done."""
    out = s.turn()
    while any(peer.inbox for peer in peers):
        for peer in peers:
            peer.read_all()
        out += s.turn()
    return out


def test_what_a_stopped_worker_may_read_does_not_move(pair: Pair) -> None:
    """Who wants it moved isn't kept waiting, and hears why."""
    s, driver, worker, function, id = begin(pair, spills=True)
    used(s, driver, worker, function, id)
    driver.post(ev.Ask(7, "spill", id))
    (copy,) = of(do.Copy, read_by(s, driver))
    s.post(0, Copied(copy.object, digest=1))
    s.turn()
    assert s.session.deadline() == s.now + PATIENCE
    s.turn(after=PATIENCE)
    read_by(s, driver)
    assert of(do.Answer, driver.heard) == [do.Answer(7, text=SILENT)]
    other = s.driver()
    assert other.value(PAGES) is None
    assert not of(do.Copy, read_by(s, driver, other))
    assert granted(other).text


def test_room_of_what_a_task_waits_for_does_not_come_with_the_lease(pair: Pair) -> None:
    """Another one has freed it. What that task waits for may be what needs the room."""
    s, driver, worker, function, id = begin(pair, workers=2)
    other, second = s.driver(), s.worker()
    other.borrow((function, id))
    (first,) = s.all_hear(other.submit(function, (), ()))
    busy, free = (worker, second) if worker.runs else (second, worker)
    used(s, driver, free, function, id)
    other.submit(function, (id, first), ())
    other.post(ev.Free((id,)))
    s.all_read()
    assert not of(do.TakeBack, free.heard)
    assert busy.value(PAGES) is None
    s.all_read()
    assert granted(busy).text


@pytest.mark.parametrize("retries", [0, 1])
def test_a_task_that_had_ended_when_its_worker_died_at_another(pair: Pair, retries: int) -> None:
    """What it returned is lost, but it has run."""
    s, driver, worker, function, id = begin(pair)
    line = used(s, driver, worker, function, id)
    other = s.driver()
    other.borrow((function,))
    (running,) = s.all_hear(other.submit(function, (), ()))
    assert of(do.TakeBack, worker.heard) == [do.TakeBack(line)]
    worker.post(ev.Returned(line))
    s.all_read()
    assert [run.task for run in worker.runs] == [running]
    del s.peers[worker.number]
    s.post(0, WorkerExited(worker.worker, -9, running=running))
    worker.post(Left())
    s.turn()
    task = driver.id()  # only now it says what it had sent by the lease, and has no result of
    driver.holds[task] += 1
    driver.post(ev.Submit(task, function, b"", (), (), 1, "f", retries=retries, line=line))
    s.say(driver, ev.LineClosed(line))
    another = s.all_hear(s.worker())
    assert [run.task for run in another.runs] == [task] * retries
    if not retries:
        text = driver.values[task].header
        assert text.startswith(b"!crashed")
        assert b"before it had handed over what `f` returned" in text
        assert b"while it ran" not in text


class Scene:
    """A driver, and an actor that it has a line to."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.driver = stage.driver()
        stage.worker()
        self.actor = self.driver.create(stage.function(self.driver))
        stage.turn()
        self.worker = stage.worker()
        self.worker.post(ev.Done(self.actor, (NONE,), 0.1))
        stage.turn()
        first = self.call()
        assert not of(do.Connect, stage.turn())
        self.worker.post(ev.Done(first, (NONE,), 0.1))
        (connect,) = of(do.Connect, stage.turn())
        self.line = connect.line
        self.worker.post(ev.Attached(self.line))
        stage.turn()
        assert do.Offer(self.line, self.actor) in self.driver.inbox
        self.driver.post(ev.Attached(self.line))
        stage.turn()
        assert do.Grant(self.line, first) in self.driver.inbox

    def call(self, line: int = 0) -> int:
        task = self.driver.id()
        self.driver.holds[task] += 1
        self.driver.post(ev.Submit(task, 0, b"", name="m", actor=self.actor, method="m", line=line))
        return task

    def dies(self, running: int, shown: bytes = b"") -> None:
        unsent = ((running, "stdout", shown),) if shown else ()
        self.stage.post(0, WorkerExited(self.worker.worker, -9, running=running, unsent=unsent))
        self.stage.turn()


@pytest.fixture
def scene(stage: Make) -> Scene:
    return Scene(stage())


def test_each_call_is_told_how_far_it_came(scene: Scene) -> None:
    over, ran, behind = (scene.call(scene.line) for _ in range(3))
    scene.stage.turn()
    scene.dies(ran)
    scene.driver.post(ev.LineClosed(scene.line, behind))
    scene.stage.turn()
    texts = {m.object: m.value.header for m in of(do.Ready, scene.driver.inbox)}
    assert b"`m` had ended, but what it returned was not handed over yet." in texts[over]
    assert b"while it ran `m`." in texts[ran]
    assert b"`m` had not begun." in texts[behind]
    assert b"had" not in texts[ran].partition(b"while it ran")[2]


def test_what_a_call_shows_right_before_the_worker_dies_is_shown(scene: Scene) -> None:
    """Also if nobody here had heard of the call."""
    scene.dies(scene.driver.id() + 1, b"last words")
    task = scene.call(scene.line)
    scene.driver.post(ev.LineClosed(scene.line))
    scene.stage.turn()
    assert [(m.task, m.data) for m in of(ev.Output, scene.driver.inbox)] == [(task, b"last words")]


@pytest.mark.parametrize(
    "event",
    [
        ev.LineClosed(1), ev.LineClosed(2), ev.Attached(1), ev.Settled(1, NONE),
        ev.Unheard(2, 1), ev.Unheard(1, 1 << 40),
    ],
)  # fmt: skip
def test_who_says_what_cannot_be_is_hung_up_on(scene: Scene, event: ev.Event) -> None:
    scene.driver.post(event)
    assert of(do.Hangup, scene.stage.turn())
