"""What callers are told of calls by a line whose worker dies, and what none may say of its line.

What becomes of calls: `test_line_machine`.
"""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Make, Stage
from tests.unit.core.peers import NONE, of
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import WorkerExited


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
