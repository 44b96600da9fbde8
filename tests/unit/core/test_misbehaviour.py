"""Peers that break one rule each are hung up on, and everyone else goes on; with each field of each
message at the ends of what its type allows the session stays sound."""

from __future__ import annotations

import typing
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.unit.core.conftest import Drivers, Make
from tests.unit.core.invariants import check
from tests.unit.core.peers import ABOUT, NONE, of, runs, told
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.events import ID_BITS
from workbench.core.loop_events import Left, Tick, WorkerExited
from workbench.core.session import Session
from workbench.system.sizes import PAGE
from workbench.wire.codec import decode_from_client, encode

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


DRIVER, OTHER, WORKER = 1, 2, 3
VALUE = ev.Value(b"N")


def own(client: int, n: int = 1) -> int:
    return (client << ID_BITS) + n


TASK = ev.Submit(own(DRIVER, 9), own(DRIVER, 1), b"", name="f")

USUAL: dict[type, Any] = {
    ev.Hello: ev.Hello(1, 9),
    ev.Opened: ev.Opened(own(DRIVER, 5), 4096),
    ev.Sealed: ev.Sealed(own(DRIVER, 6), VALUE, ABOUT),
    ev.View: ev.View(own(DRIVER), 0),
    ev.Find: ev.Find(1, "a"),
    ev.Bind: ev.Bind("a", own(DRIVER)),
    ev.Grow: ev.Grow(1, 4096),
    ev.Trimmed: ev.Trimmed(4096),
    ev.Reshare: ev.Reshare(1, own(DRIVER)),
    ev.Submit: TASK,
    ev.SubmitCalls: ev.SubmitCalls(
        (own(DRIVER, 9), own(DRIVER, 10)), (b"", b"x"), ev.CallForm(own(DRIVER, 1), (), "f")
    ),
    ev.Done: ev.Done(own(DRIVER, 2), (VALUE,), 0.0, (ABOUT,)),
    ev.Output: ev.Output(own(DRIVER, 2), "stdout", b"x"),
    ev.Ask: ev.Ask(1),
    ev.Register: ev.Register(own(DRIVER, 7), b"x"),
    ev.Escape: ev.Escape(own(DRIVER), "x.py:1"),
    ev.Create: ev.Create(replace(TASK, task=own(DRIVER), actor=own(DRIVER), returns=0)),
    ev.KillActor: ev.KillActor(own(DRIVER)),
    ev.Cancel: ev.Cancel((own(DRIVER, 2),)),
    ev.Yielded: ev.Yielded(own(DRIVER, 2), own(WORKER, 3), VALUE, ABOUT),
    ev.Took: ev.Took(own(DRIVER, 2), 1),
    ev.Pin: ev.Pin(own(DRIVER), "x.py:1"),
    ev.Explained: ev.Explained(1, (ev.Place("ref", "x"),)),
    ev.Noted: ev.Noted(own(DRIVER)),
    ev.Keep: ev.Keep(1.0),
    ev.CellNote: ev.CellNote(1, True),
    ev.Collect: ev.Collect(1, own(DRIVER, 2)),
    ev.Interrupt: ev.Interrupt(1, 1),
    ev.Subscribe: ev.Subscribe(1, search=ev.Search()),
    ev.EndSession: ev.EndSession("because"),
    ev.Want: ev.Want((own(DRIVER),)),
    ev.Hold: ev.Hold((own(DRIVER),)),
    ev.Drop: ev.Drop((own(DRIVER),)),
    ev.Free: ev.Free((own(DRIVER),)),
    ev.Unview: ev.Unview(((own(DRIVER), 0),)),
    ev.Blocked: ev.Blocked(own(DRIVER, 2), 1, (own(DRIVER, 2), own(DRIVER)), 1),
    ev.Unblocked: ev.Unblocked(1),
    ev.GaveBack: ev.GaveBack((own(DRIVER, 2),)),
    ev.Attached: ev.Attached(1),
    ev.Settled: ev.Settled(own(DRIVER, 2), VALUE),
    ev.SettledCalls: ev.SettledCalls(1, (own(DRIVER, 2),), (VALUE,)),
    ev.Returned: ev.Returned(1),
    ev.Unheard: ev.Unheard(1, 1),
    ev.LineClosed: ev.LineClosed(1),
    ev.Relay: ev.Relay(1, b"x"),
    ev.Loaded: ev.Loaded((own(DRIVER),), (0.1,)),
}


def extremes(kind: Any, usual: Any) -> typing.Iterator[Any]:
    """What a field of that type may be at its ends; of several parts, each in turn."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated and arguments[0] is not str:
        for meta in arguments[1:]:
            for bound, step in ((meta.ge, 0), (meta.gt, 1), (meta.le, 0), (meta.lt, -1)):
                if bound is not None:
                    yield bound + step
    elif origin is typing.Annotated:
        return
    elif origin is tuple and arguments[-1] is ...:
        yield ()
        for part in extremes(arguments[0], usual[0] if usual else None):
            yield (part,)
            yield (part, part)
    elif origin is tuple:
        for place, each in enumerate(arguments):
            for part in extremes(each, usual[place] if usual else None):
                if usual:
                    yield (*usual[:place], part, *usual[place + 1 :])
    elif arguments:
        for each in arguments:
            yield from extremes(each, usual)
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield from ends(usual if isinstance(usual, kind) else USUAL.get(kind))
    elif kind in (int, float):
        raise AssertionError("a number without bounds")
    elif kind is str:
        yield from ("", "x" * 100_000)
    elif kind is bytes:
        yield from (b"", b"!cancelled\n", b"\xff" * 100_000)


def ends(message: Any) -> typing.Iterator[Any]:
    if message is None:
        return
    hints = typing.get_type_hints(type(message), include_extras=True)
    for name in message.__struct_fields__:
        for value in extremes(hints[name], getattr(message, name)):
            yield replace(message, **{name: value})


def session_with_something_in_it() -> Session:
    session = Session("test", 1, 1 << 20)
    session.handle([(0, Tick())], 0.0)
    hellos = [ev.Hello(1, DRIVER), ev.Hello(2, OTHER), ev.Hello(3, WORKER, worker=1)]
    session.handle(list(zip((DRIVER, OTHER, WORKER), hellos, strict=True)), 0.0)
    session.handle(
        [
            (DRIVER, ev.Sealed(own(DRIVER), VALUE, ABOUT, "a")),
            (DRIVER, replace(TASK, task=own(DRIVER, 2), function=own(DRIVER))),
        ],
        0.0,
    )
    return session


@pytest.mark.parametrize("kind", typing.get_args(ev.Message), ids=lambda kind: kind.__name__)
def test_the_ends_of_each_field(kind: Any) -> None:
    usual = USUAL.get(kind)
    assert usual is not None or not kind.__struct_fields__ or kind in (ev.Bye,)
    for message in ends(usual):
        (message,) = decode_from_client(encode([message]))  # within what its type allows
        for client in (DRIVER, WORKER):
            session = session_with_something_in_it()
            batch: list[Any] = [(client, message)]
            for now in range(1, 5):
                out = session.handle(batch, float(now))
                check(session.state)
                encode([each.message for each in out if isinstance(each, do.Send)])
                batch = [(each.client, Left()) for each in out if isinstance(each, do.Hangup)]
                batch += [(0, WorkerExited(e.worker, -9)) for e in out if isinstance(e, do.Kill)]
