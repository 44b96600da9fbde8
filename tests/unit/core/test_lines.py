"""Calls by a line and through the server, and what becomes of both when the worker dies."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.unit.core.conftest import Make, Stage
from tests.unit.core.peers import NONE, Peer
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import WorkerExited


class Scene:
    """A driver, and an actor that it has a line to."""

    def __init__(self, stage: Stage, restarts: int = 1) -> None:
        self.stage = stage
        self.driver = stage.driver()
        stage.worker()
        cls = self.driver.put(ev.Value(b"a class"))
        self.actor = self.driver.put(ev.Value(b"described"))
        creation = ev.Submit(self.actor, cls, b"", (), (), 0, "A", 0, 0, self.actor, "__init__")
        self.driver.post(ev.Create(creation, restarts=restarts))
        stage.turn()
        self.worker = self.made()
        first = self.call()
        out = stage.turn()
        assert not [i for i in out if isinstance(i, do.Connect)]
        self.worker.post(ev.Done(first, (NONE,), 0.1))
        (connect,) = [i for i in stage.turn() if isinstance(i, do.Connect)]
        self.line = connect.line
        assert self.sent(self.worker, ev.Attached(self.line)) == []
        assert do.Offer(self.line, self.actor) in self.driver.inbox
        self.driver.post(ev.Attached(self.line))
        stage.turn()
        assert do.Grant(self.line, first) in self.driver.inbox

    def made(self) -> Peer:
        worker = self.stage.worker()
        worker.post(ev.Done(self.actor, (NONE,), 0.1))
        self.stage.turn()
        return worker

    def call(self, line: int = 0, retries: int = 0) -> int:
        task = self.driver.id()
        self.driver.holds[task] += 1
        submit = ev.Submit(task, 0, b"", name="m", retries=retries, actor=self.actor, method="m")
        self.driver.post(replace(submit, line=line))
        return task

    def sent(self, worker: Peer, event: ev.Event | None = None) -> list[int]:
        """The calls that the worker has been sent."""
        if event is not None:
            worker.inbox.clear()
            worker.post(event)
            self.stage.turn()
        return [m.task for m in worker.inbox if isinstance(m, do.Run) and m.method == "m"]

    def dies(self, worker: Peer, running: int, shown: bytes = b"") -> None:
        unsent = ((running, "stdout", shown),) if shown else ()
        self.stage.post(0, WorkerExited(worker.worker, -9, running=running, unsent=unsent))
        self.stage.turn()

    def value(self, task: int) -> ev.Value | None:
        found = [m for m in self.driver.inbox if isinstance(m, do.Ready) and m.object == task]
        return found[-1].value if found else None


@pytest.fixture
def scene(stage: Make) -> Scene:
    return Scene(stage())


def test_what_may_have_begun_is_not_run_again(scene: Scene) -> None:
    ran, behind = scene.call(scene.line), scene.call(scene.line)
    scene.stage.turn()
    scene.dies(scene.worker, ran)
    worker = scene.made()
    scene.driver.post(ev.LineClosed(scene.line))
    scene.stage.turn()
    failed = scene.value(ran)
    assert failed is not None
    assert failed.failed
    assert scene.sent(worker) == [behind]


def test_it_is_not_said_to_have_run_where_nobody_knows(scene: Scene) -> None:
    ran, behind = scene.call(scene.line), scene.call(scene.line)
    scene.stage.turn()
    scene.dies(scene.worker, running=0)
    scene.driver.post(ev.LineClosed(scene.line))
    scene.stage.turn()
    for task in (ran, behind):
        failed = scene.value(task)
        assert failed is not None
        assert b", perhaps while it ran `m`" in failed.header


def test_each_call_is_told_how_far_it_came(stage: Make) -> None:
    scene = Scene(stage(), restarts=0)
    over, ran, behind = (scene.call(scene.line) for _ in range(3))
    scene.stage.turn()
    scene.dies(scene.worker, ran)
    scene.driver.post(ev.LineClosed(scene.line, behind))
    scene.stage.turn()
    failed = [scene.value(task) for task in (over, ran, behind)]
    ended, died, unbegun = (value.header for value in failed if value is not None)
    assert b"`m` had ended, but what it returned was not handed over yet." in ended
    assert b"while it ran `m`." in died
    assert b"`m` had not begun." in unbegun
    assert b"had" not in died.partition(b"while it ran")[2]


def test_what_a_call_shows_right_before_the_worker_dies_is_shown(scene: Scene) -> None:
    """Also if nobody here had heard of the call."""
    scene.dies(scene.worker, scene.driver.id() + 1, b"last words")
    task = scene.call(scene.line)
    scene.driver.post(ev.LineClosed(scene.line))
    scene.stage.turn()
    shown = [m for m in scene.driver.inbox if isinstance(m, ev.Output)]
    assert [(m.task, m.data) for m in shown] == [(task, b"last words")]


def test_a_dead_callers_call_is_not_run_again(scene: Scene) -> None:
    """It went to the worker, which then began a call by a line that nobody here has heard of."""
    other = scene.stage.driver()
    other.borrow((scene.actor,))
    through = other.id()
    other.holds[through] += 1
    other.post(ev.Submit(through, 0, b"", name="m", actor=scene.actor, method="m"))
    scene.stage.turn()
    ran = scene.call(scene.line)
    scene.stage.turn()
    scene.stage.leave(scene.driver)
    assert do.Detach(scene.line) in scene.worker.inbox
    scene.dies(scene.worker, other.id())
    assert ran not in scene.sent(scene.made())


@pytest.mark.parametrize("first", [True, False])
def test_a_report_that_comes_too_late_is_answered(scene: Scene, first: bool) -> None:
    """The worker has forgotten the call: its caller has said all, heard here before or not."""
    task = scene.call(scene.line)
    scene.stage.turn()
    if first:
        scene.driver.post(ev.Settled(task, NONE))
        scene.stage.turn()
    scene.worker.post(ev.Done(task, (), 0.0))
    scene.stage.turn()
    if not first:
        scene.driver.post(ev.Settled(task, NONE))
        scene.stage.turn()
    (worker,) = [w for w in scene.stage.session.state.scheduler.by_client.values() if w.actor]
    assert not worker.reported
    assert not scene.stage.session.state.scheduler.tasks


@pytest.mark.parametrize(
    "event",
    [
        ev.LineClosed(1), ev.LineClosed(2), ev.Attached(1), ev.Settled(1, NONE),
        ev.Unheard(2, 1), ev.Unheard(1, 1 << 40),
    ],
)  # fmt: skip
def test_who_says_what_cannot_be_is_hung_up_on(scene: Scene, event: ev.Event) -> None:
    scene.driver.post(event)
    out = scene.stage.turn()
    assert any(isinstance(i, do.Hangup) for i in out)
