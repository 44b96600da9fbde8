"""What dies at once dies in parts, and in the end all is as if it had died in one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.patience import THOROUGH
from tests.unit.core.conftest import Drivers, Make, Stage
from tests.unit.core.invariants import check
from tests.unit.core.peers import ABOUT, Peer, of
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import Left
from workbench.system.sizes import PAGE

STEPS = 100
"""That a batch does here."""

MANY = 20 * STEPS
SMALL = ev.Value(b"P" * 10)


@pytest.fixture
def stage(stage: Make) -> Make:
    def make(**options: Any) -> Stage:
        s = stage(**options)
        s.session.state.catalog.backlog.steps = STEPS
        return s

    return make


def put(s: Stage, driver: Peer, count: int) -> list[int]:
    objects = [driver.id() for _ in range(count)]
    for id in objects:
        driver.post(ev.Sealed(id, SMALL, ABOUT))
    s.turn()
    return objects


def turns(s: Stage) -> int:
    """How many batches it takes until nothing is left to do. Each comes at once."""
    count = 1
    s.turn()
    while s.session.state.catalog.backlog.work:
        assert s.session.deadline() == s.now
        before = len(s.session.state.catalog)
        s.turn()
        assert before - len(s.session.state.catalog) <= STEPS
        count += 1
    return count


def test_what_a_container_holds_dies_in_parts(drivers: Drivers) -> None:
    s, (holder, other) = drivers(2)
    objects = put(s, holder, MANY)
    outer = other.put(ev.Value(b"P", contains=tuple(objects)))
    s.say(holder, ev.Drop(tuple(objects)))
    assert len(s.session.state.catalog) == MANY + 1
    other.drop(outer)
    assert turns(s) >= MANY // STEPS
    assert not s.session.state.catalog


def test_what_who_leaves_held_dies_in_parts_and_others_are_served(drivers: Drivers) -> None:
    s, (holder, other) = drivers(2)
    objects = put(s, holder, MANY)
    kept = other.put(SMALL)
    other.borrow((objects[0], objects[-1]))
    s.leave(holder)
    assert s.session.state.catalog.backlog.work
    s.say(other, ev.Want((kept, objects[-1])))
    assert [type(m) for m in other.inbox] == [do.Ready, do.Ready]
    assert s.session.state.catalog.backlog.work
    assert turns(s) >= MANY // STEPS - 2
    assert sorted(s.session.state.catalog) == sorted((kept, objects[0], objects[-1]))
    assert not s.session.state.catalog.leaving


def test_who_waits_for_memory_gets_what_is_about_to_come_back(drivers: Drivers) -> None:
    """Nothing moves to disk, and nobody is refused, for what others are letting go of."""
    count = 3 * STEPS
    s, (holder, other) = drivers(2, capacity=count * PAGE, spills=True)
    segment = s.hears(holder.open_arena(count, granted=count))
    for n in range(count * 9 // 10):
        holder.post(ev.Sealed(holder.id(), ev.Value(b"E", segment, n * PAGE, PAGE), ABOUT))
    s.turn()
    other.open_arena(count, granted=count)
    del s.peers[holder.number]
    holder.post(Left())
    turns(s)
    assert not s.session.state.moves
    answers = of(do.Grown, other.inbox)
    assert [(m.request, m.granted) for m in answers] == [(1, count * PAGE)]


def test_tasks_of_who_left_are_dropped_when_its_holds_are_gone(drivers: Drivers) -> None:
    s, (holder, other) = drivers(2)
    function = s.function(holder)
    holder.submit(function, (), ())
    put(s, holder, MANY)
    s.leave(holder)
    assert s.session.state.scheduler.tasks
    turns(s)
    assert not s.session.state.scheduler.tasks
    assert not s.session.state.catalog
    assert other.number in s.session.state.clients


@pytest.mark.parametrize("seed", range(300 if THOROUGH else 30))
def test_in_parts_or_in_one_it_comes_to_the_same(seed: int) -> None:
    """The same events; one session does two steps a batch, with events between, one all."""
    sessions = [Stage(1, 1 << 20), Stage(1, 1 << 20)]
    sessions[1].session.state.catalog.backlog.steps = 2
    ends = []
    for s in sessions:
        dice = random.Random(seed)
        for _ in range(3):
            s.meet()
        for _ in range(60):
            _act(s, dice)
            if dice.random() < 0.5:
                s.turn()
        turns(s)
        check(s.session.state)
        assert not s.session.state.catalog.leaving
        ends.append(_state(s))
    assert ends[0] == ends[1]


def _act(s: Stage, dice: random.Random) -> None:
    """Something that one of them does, whatever the session has said meanwhile."""
    peers = list(s.peers.values())
    if not peers:
        return
    peer = dice.choice(peers)
    every = sorted({id for each in peers for id in each.held})
    some = tuple(dice.sample(every, min(len(every), dice.randint(1, 6))))
    match dice.choice(["put", "put", "contain", "contain", "drop", "drop", "free", "name", "go"]):
        case "put":
            peer.put(SMALL)
        case "contain" if peer.held:
            inside = tuple(dice.sample(peer.held, min(len(peer.held), dice.randint(1, 6))))
            peer.put(ev.Value(b"P" * 10, contains=inside))
        case "drop" if peer.held:
            for id in dice.sample(peer.held, dice.randint(1, len(peer.held))):
                peer.drop(id)
        case "free" if some:
            peer.post(ev.Free(some))
        case "name" if peer.held:
            peer.post(ev.Bind(f"n{dice.randint(1, 3)}", dice.choice(peer.held)))
        case "go" if len(peers) > 1 and dice.random() < 0.5:
            if dice.random() < 0.5:
                peer.post(ev.Bye(shows=dice.random() < 0.5))
            peer.post(Left())
            del s.peers[peer.number]


def _state(s: Stage) -> dict[int, Any]:
    return {
        id: (e.state, e.holds, e.viewers, e.parents, e.names, e.value)
        for id, e in s.session.state.catalog.items()
    }
