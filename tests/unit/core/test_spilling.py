"""What moves to disk and back, when, and in which order: one story each, no disk."""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Make, Stage
from tests.unit.core.peers import Peer, of
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.budget import PATIENCE as TRIM_PATIENCE
from workbench.core.loop_events import Copied, Tick
from workbench.core.snapshot_builder import take_snapshot
from workbench.core.spilling import COLLECT_EVERY, MOMENT, MOST_MOMENTS, PATIENCE, RESPITE
from workbench.system.sizes import PAGE

CAPACITY = 20 * PAGE


def begin(stage: Make) -> tuple[Stage, Peer]:
    s = stage(capacity=CAPACITY, spills=True)
    return s, s.driver()


def put(s: Stage, peer: Peer, pages: int, name: str = "") -> int:
    """An object of that size; the peer may have to grow first."""
    value = peer.value(pages)
    while value is None:
        copies = s.turn()
        finish(s, copies)
        s.all_read()
        value = peer.value(pages)
    return peer.put(value, name)


def copies(out: list[do.Anything]) -> list[do.Copy]:
    return of(do.Copy, out)


def asks_for(s: Stage, pages: int) -> Peer:
    """Another driver, which asks for so much memory."""
    other = s.driver()
    other.open_arena(CAPACITY // PAGE, granted=pages)
    return other


def finish(
    s: Stage, out: list[do.Anything], error: str = "", passing: bool = False
) -> list[do.Anything]:
    """The disk does what came out of a turn."""
    for copy in copies(out):
        s.post(0, Copied(copy.object, 0 if error else 7, error, passing))
    return s.turn()


def where(s: Stage) -> dict[int, str]:
    return {record.id: record.where for record in take_snapshot(s.session.state).objects}


def ask(s: Stage, peer: Peer, id: int) -> list[do.Anything]:
    peer.post(ev.Ask(99, "spill", id))
    return s.turn()


def to_disk(s: Stage, peer: Peer, id: int) -> None:
    """It is moved there, and everybody knows."""
    finish(s, ask(s, peer, id))
    s.all_read()


def on_its_way_back(stage: Make) -> tuple[Stage, Peer, do.Copy]:
    """An object that was on disk, and that its driver looks at."""
    s, driver = begin(stage)
    id = put(s, driver, 4)
    to_disk(s, driver, id)
    driver.view(id)
    (copy,) = copies(s.turn())
    assert (copy.object, copy.disk, copy.length) == (id, False, 4 * PAGE)
    return s, driver, copy


def answers(peer: Peer) -> list[str]:
    return [answer.text for answer in of(do.Answer, peer.inbox)]


def test_above_the_high_mark_the_least_recently_used_go_until_the_low_one(stage: Make) -> None:
    s, driver = begin(stage)
    ids = [put(s, driver, 3) for _ in range(6)]
    assert not copies(s.turn()), "18 of 20 pages are not above nine tenths"
    driver.view(ids[0])  # used: now the others are older
    driver.unview(ids[0])
    s.turn()
    put(s, driver, 1)
    out = s.turn()
    assert [copy.object for copy in copies(out)] == ids[1:2], "19 down to 16"
    finish(s, out)
    s.all_read()
    assert where(s)[ids[1]] == "disk"
    snapshot = take_snapshot(s.session.state)
    assert (snapshot.live, snapshot.spilled) == (16 * PAGE, 3 * PAGE)
    assert driver.values[ids[1]].digest == 7


def test_what_was_just_put_stays_until_somebody_needs_the_room(stage: Make) -> None:
    s, driver = begin(stage)
    id = put(s, driver, 19)
    assert not copies(s.turn()), "it fills the store, and nobody minds"
    assert [copy.object for copy in copies(s.say(driver, ev.Grow(1, 2 * PAGE)))] == [id]


def test_what_is_shown_pinned_or_in_use_stays(stage: Make) -> None:
    s, driver = begin(stage)
    worker = s.worker()
    shown, pinned, used, free = (put(s, driver, 4) for _ in range(4))
    function = s.function(driver)
    driver.view(shown)
    driver.post(ev.Pin(pinned, "cell 3"))
    s.all_hear(driver.submit(function, (used,), ()))
    assert worker.runs
    put(s, driver, 3)
    assert [copy.object for copy in copies(s.turn())] == [free]
    for id, why in [(shown, "arrays show it"), (pinned, "unpin it"), (used, "being read")]:
        ask(s, driver, id)
        assert why in answers(driver)[-1]


def test_a_function_that_workers_keep_stays(stage: Make) -> None:
    s, driver = begin(stage)
    worker = s.worker()
    function = put(s, driver, 2)
    s.all_hear(driver.submit(function, (), ()))
    s.finish(worker, (ev.Value(b"N"),), 1.0)
    assert not copies(s.say(driver, ev.Grow(1, CAPACITY)))
    ask(s, driver, function)
    assert "workers have it as a function" in answers(driver)[-1]


def test_memory_that_somebody_waits_for_goes_to_the_machine(stage: Make) -> None:
    s, driver = begin(stage)
    ids = [put(s, driver, 6) for _ in range(3)]
    other = asks_for(s, 6)
    out = s.turn()
    assert [copy.object for copy in copies(out)] == ids[:1]
    finish(s, out)
    assert other.inbox.popleft() == do.CollectGarbage()
    assert not other.inbox, "the driver may still map the old place"
    driver.read_all()
    out = s.turn()
    assert do.Punch(driver.segment, ((0, 6 * PAGE),)) in out
    assert list(driver.inbox) == [do.Release(((0, 6 * PAGE),), cold=True)]
    assert list(other.inbox) == [do.Grown(1, 6 * PAGE)]


def test_who_waits_for_memory_keeps_its_own_warm(stage: Make) -> None:
    s, driver = begin(stage)
    for _ in range(3):
        put(s, driver, 6)
    driver.post(ev.Grow(1, 6 * PAGE))
    finish(s, s.turn())
    driver.read_all()
    out = s.turn()
    assert not of(do.Punch, out), "it will be written again at once"
    assert list(driver.inbox) == [do.Release(((0, 6 * PAGE),)), do.Grown(1, 0)]
    arena = s.session.state.budget.arena_of(driver.number)
    assert arena is not None
    assert arena.granted == 18 * PAGE


def test_what_is_used_comes_back_if_there_is_room(stage: Make) -> None:
    s, driver, back = on_its_way_back(stage)
    finish(s, [back])
    s.all_read()
    assert where(s)[back.object] == "memory"
    assert s.session.state.budget.spilled == 4 * PAGE, "the view shows the file still"
    driver.unview(back.object)
    s.all_read()
    assert (s.session.state.budget.spilled, s.session.state.budget.live) == (0, 4 * PAGE)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_it_stays_on_disk_if_a_person_says_so_or_it_is_damaged(
    stage: Make, is_damaged: bool
) -> None:
    s, driver, back = on_its_way_back(stage)
    if not is_damaged:
        ask(s, driver, back.object)
        assert answers(driver)[-1] == ""
    s.post(0, Copied(back.object, digest=7 + is_damaged))
    s.all_read()
    assert where(s)[back.object] == "disk"
    assert s.session.state.budget.live == 0


def test_it_does_not_come_back_at_the_cost_of_others_but_for_a_pin(stage: Make) -> None:
    s, driver = begin(stage)
    id = put(s, driver, 4)
    finish(s, ask(s, driver, id))
    others = s.all_hear([put(s, driver, 5) for _ in range(3)])
    driver.view(id)
    assert not copies(s.turn())
    driver.unview(id)
    s.say(driver, ev.Pin(id, "here"))
    driver.read_all()  # it keeps some pages warm that are needed now
    (back,) = copies(s.turn())
    assert (back.object, back.disk) == (id, False)
    out = finish(s, [back])
    assert [copy.object for copy in copies(out)] == others[:1], "19 of 20 pages are too many"
    finish(s, out)
    s.all_read()
    assert [where(s)[other] for other in (id, *others)] == ["memory", "disk", "memory", "memory"]


def test_a_pin_that_comes_while_it_moves_to_disk(stage: Make) -> None:
    s, driver = begin(stage)
    id = put(s, driver, 4)
    out = ask(s, driver, id)
    driver.post(ev.Pin(id, "here"))
    finish(s, out)
    assert answers(driver) == ["it was pinned meanwhile"]
    assert where(s)[id] == "memory"


@pytest.mark.parametrize("moments", [3, 100])
def test_who_needs_room_waits_for_a_descriptor(stage: Make, moments: int) -> None:
    s, driver = begin(stage)
    for _ in range(3):
        put(s, driver, 6)
    other = asks_for(s, 6)
    out, waited = s.turn(), 0
    while waited < moments:
        assert copies(out)
        finish(s, out, error="Too many open files", passing=True)
        if any(isinstance(message, do.Grown) for message in other.inbox):
            break
        assert s.session.deadline() == pytest.approx(s.now + MOMENT)
        waited += 1
        out = s.turn(MOMENT)
    assert waited == min(moments, MOST_MOMENTS - 1)
    if waited == moments:
        finish(s, out)
        s.all_read()
    (answer,) = of(do.Grown, (*other.inbox, *other.heard))
    assert answer.granted == (6 * PAGE if waited == moments else 0)
    assert waited == moments or "Too many open files" in answer.text


def test_a_disk_that_fails_is_left_alone_for_a_while_and_named(stage: Make) -> None:
    why = "No space left on device"
    s, driver = begin(stage)
    ids = [put(s, driver, 6) for _ in range(3)]
    out = ask(s, driver, ids[0])
    finish(s, out, error=why)
    assert answers(driver) == [why]
    other = asks_for(s, 6)
    s.turn()
    (refusal,) = of(do.Grown, other.inbox)
    assert refusal.granted == 0
    assert why in refusal.text
    assert where(s)[ids[0]] == "memory"
    s.turn(RESPITE)
    assert copies(s.say(other, ev.Grow(2, 6 * PAGE))), "tried again"


def test_a_process_that_was_stopped_keeps_nobody_waiting_for_long(stage: Make) -> None:
    s, driver = begin(stage)
    ids = [put(s, driver, 3) for _ in range(6)]
    other = asks_for(s, 5)
    finish(s, s.turn())  # the driver is told, and never says that it has heard
    assert s.session.deadline() == PATIENCE
    s.post(0, Tick())
    assert not copies(s.turn(PATIENCE)), "it would hear as little of the next move"
    assert "a process that doesn't answer" in of(do.Grown, other.inbox)[-1].text
    s.all_read()  # it goes on
    s.say(other, ev.Grow(2, 8 * PAGE))
    driver.read_all()
    assert [copy.object for copy in copies(s.turn())] == ids[1:2]


def test_who_does_not_trim_is_waited_for_once(stage: Make) -> None:
    """A stopped process keeps warm memory: others are served from what is left, at once."""
    s, driver = begin(stage)
    keeper, other = s.driver(), s.driver()
    s.hears(keeper.open_arena(CAPACITY // PAGE, granted=8))
    keeper.inbox.clear()
    first = put(s, driver, 3)
    put(s, driver, 3)
    other.open_arena(CAPACITY // PAGE)
    s.say(other, ev.Grow(1, 8 * PAGE, spill=False))
    assert list(keeper.inbox) == [do.Trim(2 * PAGE)]
    assert not other.inbox
    s.post(0, Tick())
    s.turn(TRIM_PATIENCE)
    assert other.inbox.popleft().granted == 0
    s.say(other, ev.Grow(2, 8 * PAGE, spill=False))
    assert other.inbox.popleft().granted == 0, "nobody is waited for"
    (copy,) = copies(s.say(other, ev.Grow(9, 8 * PAGE)))
    assert copy.object == first, "it is made room for elsewhere"
    finish(s, [copy])
    driver.read_all()
    s.turn()
    assert other.inbox.popleft() == do.Grown(9, 8 * PAGE)
    s.say(other, ev.Grow(10, 15 * PAGE))
    (answer,) = other.inbox
    assert "Process 1002 has 32.8 kB of free memory" in answer.text
    assert len(keeper.inbox) == 1
    keeper.post(ev.Trimmed(2 * PAGE, answer=True))  # it goes on
    other.post(ev.Grow(11, 6 * PAGE))
    s.turn()
    assert len(keeper.inbox) == 2, "and is asked as before"


def test_wishes_that_make_no_sense_are_answered(stage: Make) -> None:
    s, driver = begin(stage)
    small = driver.put(ev.Value(b"small"))
    (pending,) = s.hears(driver.submit(s.function(driver), (), ()))
    for id, why in [(small, "too small"), (pending, "a task will make it"), (12345, "freed")]:
        ask(s, driver, id)
        assert why in answers(driver)[-1]
    s = stage(capacity=CAPACITY)
    driver = s.driver()
    id = put(s, driver, 1)
    ask(s, driver, id)
    assert "without a `spill_dir`" in answers(driver)[-1]


def test_when_the_store_fills_up_all_but_admins_are_asked_to_collect_garbage(stage: Make) -> None:
    """Now and then."""
    s = stage(workers=1, capacity=CAPACITY)
    driver, worker, _ = s.driver(), s.worker(), s.admin()

    def asked(after: float = 0.0) -> set[int]:
        """Whoever is, when one more object is put."""
        s.now += after
        put(s, driver, 1)
        sent = of(do.Send, s.turn())
        s.all_read()
        return {each.to for each in sent if type(each.message) is do.CollectGarbage}

    for _ in range(14):
        assert not asked()
    assert asked() == {driver.number, worker.number}
    assert not asked()
    assert not asked(COLLECT_EVERY / 2)
    assert asked(COLLECT_EVERY / 2) == {driver.number, worker.number}
