"""Actors whose driver leaves, or whose worker can't be forked, before they are made.

What becomes of others: `test_actor_machine`.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.core.conftest import Stage
from tests.unit.core.peers import Peer
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import WorkerExited
from workbench.core.pool import RETRY_SECONDS
from workbench.core.tasks import ActorState

Make = Callable[..., Stage]


def create(s: Stage, driver: Peer) -> int:
    cls, actor = s.function(driver), driver.put(ev.Value(b"described"))
    driver.post(ev.Create(ev.Submit(actor, cls, b"", (), (), 0, "Actor", actor=actor), 0, 1))
    return actor


def call(driver: Peer, actor: int) -> int:
    (result,) = driver.submit(0, (), (), actor=actor)
    return result


def test_it_goes_with_its_last_call(stage: Make) -> None:
    s = stage(workers=1)
    driver, _ = s.driver(), s.driver()
    call(driver, create(s, driver))
    s.turn()
    assert s.session.state.scheduler.actors
    s.leave(driver)
    assert not s.session.state.scheduler.actors
    assert not s.session.state.scheduler.tasks


def test_it_is_made_for_another_who_holds_it(stage: Make) -> None:
    s = stage(workers=1)
    maker, other = s.driver(), s.driver()
    s.worker()
    actor = create(s, maker)
    s.turn()
    other.borrow((actor,))
    result = call(other, actor)
    s.turn()
    s.leave(maker)
    home = s.connect(s.starting.pop())
    sent = [message.task for message in home.inbox if isinstance(message, do.Run)]
    s.all_read()
    assert sent[:1] == [actor]
    assert result in s.session.state.scheduler.tasks


def test_an_actor_whose_worker_could_not_be_forked_gets_another(stage: Make) -> None:
    s = stage(workers=1)
    s.worker()
    actor = create(s, s.driver())
    s.turn()
    for _ in range(3):
        s.post(0, WorkerExited(s.starting.pop(), 0, unforked="Too many open files"))
        s.turn()
        s.turn(RETRY_SECONDS)
    assert len(s.starting) == 1
    assert s.session.state.scheduler.actors[actor].state is ActorState.STARTING
