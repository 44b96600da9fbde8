"""Peers that break one rule each: they are hung up on, and everyone else goes on."""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Drivers, Make
from tests.unit.core.peers import ABOUT, NONE, of, runs, told
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.events import ID_BITS
from workbench.core.loop_events import Left, Tick
from workbench.system.sizes import PAGE

MINE, THEIRS = 1 << ID_BITS, 2 << ID_BITS
SEGMENT = MINE + 1
"""An arena of four pages, of which the first holds `MINE` + 2; one more page is granted."""


FORM = ev.CallForm(MINE + 2)


def placed(offset: int, length: int = PAGE, segment: int = SEGMENT) -> ev.Value:
    return ev.Value(b"E", segment, offset, length)


def sealed(id: int, value: ev.Value) -> ev.Sealed:
    return ev.Sealed(id, value, ABOUT)


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(ev.Hello(1, 1), id="hello twice"),
        pytest.param(Tick(), id="the loop's own event"),
        pytest.param(sealed(THEIRS + 9, NONE), id="another's id"),
        pytest.param(sealed(MINE + 2, NONE), id="an object sealed twice"),
        pytest.param(sealed(MINE + 9, placed(0)), id="an extent that is taken"),
        pytest.param(sealed(MINE + 9, placed(PAGE, PAGE + 1)), id="more than was granted"),
        pytest.param(sealed(MINE + 9, placed(4 * PAGE - 1, 2)), id="past the end"),
        pytest.param(sealed(MINE + 9, placed(PAGE, 0)), id="an empty extent"),
        pytest.param(sealed(MINE + 9, placed(0, 1, THEIRS + 1)), id="another's arena"),
        pytest.param(sealed(MINE + 9, placed(0, 1, MINE + 5)), id="no arena"),
        pytest.param(ev.Opened(THEIRS + 9, PAGE), id="another's segment"),
        pytest.param(ev.Submit(THEIRS + 9, MINE + 2, b""), id="another's task"),
        pytest.param(ev.Submit(THEIRS - 1, MINE + 2, b"", returns=2), id="another's result"),
        pytest.param(ev.Submit(MINE + 2, MINE + 2, b""), id="a result that exists"),
        pytest.param(ev.SubmitCalls((MINE + 9, THEIRS), (b"", b""), FORM), id="another's call"),
        pytest.param(ev.SubmitCalls((MINE + 9,) * 2, (b"", b""), FORM), id="a call twice"),
        pytest.param(ev.SubmitCalls((MINE + 9, MINE + 2), (b"", b""), FORM), id="known calls"),
        pytest.param(ev.SubmitCalls((MINE + 9,), (), FORM), id="calls without arguments"),
        pytest.param(ev.Done(MINE + 9, (NONE,), 0.0), id="done with what it was not given"),
        pytest.param(ev.Register(THEIRS + 9, b"how"), id="another's serializer"),
    ],
)
def test_who_breaks_the_rules_is_hung_up_and_forgotten(drivers: Drivers, event: ev.Event) -> None:
    s, (rogue, honest) = drivers(2, capacity=4 * PAGE)
    assert (rogue.number, honest.number) == (MINE >> ID_BITS, THEIRS >> ID_BITS)
    honest.post(ev.Opened(honest.id(), 4 * PAGE))
    honest.post(ev.Grow(1, PAGE))
    honest.put(NONE)
    s.say(rogue, ev.Opened(SEGMENT, 4 * PAGE), ev.Grow(1, 2 * PAGE))
    s.say(rogue, sealed(MINE + 2, placed(0)))
    assert [i.client for i in of(do.Hangup, s.say(rogue, event))] == [rogue.number]
    assert of(do.Discard, s.leave(rogue)) == [do.Discard(SEGMENT)]
    assert len(s.session.state.catalog) == 1
    assert list(s.session.state.budget.arenas) == [THEIRS + 1]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param((NONE,), id="too few"),
        pytest.param((placed(0), placed(0, segment=MINE + 1)), id="another's arena"),
        pytest.param((placed(0), placed(0)), id="one extent twice"),
        pytest.param((ev.Value(b"E", SEGMENT, 0, PAGE, failed=True), NONE), id="failed extent"),
    ],
)
def test_a_bad_worker_does_not_take_its_task(stage: Make, values: tuple[ev.Value, ...]) -> None:
    s = stage()
    worker, driver = s.worker(), s.driver()
    worker.post(ev.Opened(SEGMENT, 4 * PAGE))
    worker.post(ev.Grow(1, 4 * PAGE))
    task = s.hears(driver.submit(s.function(driver), (), (), returns=2, retries=1))[0]
    worker.post(ev.Done(task, values, 0.0))
    assert [i.client for i in of(do.Hangup, s.turn())] == [worker.number]
    s.crash(worker)
    assert not told(driver)
    assert runs(s.worker()) == [task]


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (ev.Want((1,)), "Want before Hello"),
        (ev.Hello(1, prefix=1), "prefix taken"),
        (ev.Hello(1, prefix=9, worker=77), "no such worker"),
    ],
)
def test_a_stranger_is_hung_up(stage: Make, hello: ev.Event, reason: str) -> None:
    s = stage()
    s.driver()
    s.post(5, hello)
    (hangup,) = s.turn()
    assert isinstance(hangup, do.Hangup)
    assert hangup.client == 5
    assert reason in hangup.reason
    s.post(5, Left())
    assert not s.turn()
