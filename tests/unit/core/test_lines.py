"""Calls by a line and through the server, and what becomes of both when the worker dies."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.unit.core.conftest import Stage
from tests.unit.core.peers import Peer
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import WorkerExited

NONE = ev.Value(b"N")


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
def scene(stage: Callable[..., Stage]) -> Scene:
    return Scene(stage())


def test_the_driver_decides_what_became_of_its_calls(scene: Scene) -> None:
    """And until then its later calls wait, those through the server, too."""
    heard, ran, behind = (scene.call(scene.line, retries=1) for _ in range(3))
    through = scene.call(retries=1)
    scene.stage.turn()
    assert scene.sent(scene.worker)[-1:] == [through]
    scene.dies(scene.worker, ran)
    assert do.LineEnded(scene.line) in scene.driver.inbox
    later = scene.call()
    worker = scene.made()
    assert scene.sent(worker) == []
    scene.driver.post(ev.Settled(heard, NONE))
    scene.driver.post(ev.LineClosed(scene.line))
    scene.stage.turn()
    assert scene.sent(worker) == [ran, behind, through, later]


def test_what_was_not_sent_waits_for_what_went_by_the_line(scene: Scene) -> None:
    """Though it was queued while the worker lived: it was about to be killed."""
    ran, behind = (scene.call(scene.line, retries=1) for _ in range(2))
    scene.driver.post(ev.KillActor(scene.actor, True))
    through = scene.call()
    scene.stage.turn()
    assert scene.sent(scene.worker) == []
    scene.dies(scene.worker, ran)
    worker = scene.made()
    assert scene.sent(worker) == []
    scene.driver.post(ev.LineClosed(scene.line, behind))
    scene.stage.turn()
    assert scene.sent(worker) == [ran, behind, through]


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


def test_each_call_is_told_how_far_it_came(stage: Callable[..., Stage]) -> None:
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


def test_a_killed_actors_call_has_the_end_that_its_caller_heard(scene: Scene) -> None:
    task, other = scene.call(scene.line), scene.call(scene.line)
    scene.stage.turn()
    scene.driver.post(ev.KillActor(scene.actor))
    scene.stage.turn()
    assert scene.value(task) is None
    scene.dies(scene.worker, other)
    scene.driver.post(ev.Settled(task, NONE))
    scene.driver.post(ev.LineClosed(scene.line))
    scene.stage.turn()
    failed = scene.value(other)
    assert scene.value(task) == NONE
    assert failed is not None
    assert failed.failed


def test_a_line_is_granted_when_nothing_else_is_under_way(scene: Scene) -> None:
    first = scene.call()
    scene.stage.turn()
    scene.driver.inbox.clear()
    scene.call()  # in the same batch as the end of the first
    scene.worker.post(ev.Done(first, (NONE,), 0.1))
    scene.stage.turn()
    assert not any(isinstance(m, do.Grant) for m in scene.driver.inbox)


def test_a_call_known_before_its_end_is_told_by_the_worker(scene: Scene) -> None:
    task = scene.call(scene.line)
    scene.stage.turn()
    assert do.Report(scene.line, task) in scene.worker.inbox
    scene.stage.leave(scene.driver)
    assert do.Detach(scene.line) in scene.worker.inbox
    assert scene.stage.session.state.scheduler.tasks
    scene.worker.post(ev.Done(task, (NONE,), 0.1))
    scene.stage.turn()
    assert not scene.stage.session.state.scheduler.tasks


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


def test_a_result_that_both_ends_tell_counts_once(scene: Scene) -> None:
    budget, number = scene.stage.session.state.budget, scene.worker.number
    for _ in range(3):
        task, before = scene.call(scene.line), budget._inline_left.get(number, 0)
        scene.stage.turn()
        scene.driver.post(ev.Settled(task, ev.Value(bytes(1000))))
        scene.stage.turn()
        scene.worker.post(ev.Done(task, (ev.Value(bytes(1000)),), 0.1))
        scene.stage.turn()
        assert budget._inline_left[number] == before - 1000
    scene.driver.post(ev.Unheard(scene.line, 500))
    scene.stage.turn()
    assert budget._inline_left[number] == before - 1500


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


def test_a_caller_hears_of_the_end_of_a_call_whose_result_it_dropped(scene: Scene) -> None:
    task = scene.call(scene.line)
    scene.stage.turn()
    scene.driver.drop(task)
    scene.stage.turn()
    scene.worker.post(ev.Done(task, (NONE,), 0.1))
    scene.stage.turn()
    assert scene.value(task) is not None


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
