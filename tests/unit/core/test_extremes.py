"""Each field of each message, at the ends of what its type allows: the session stays sound."""

from __future__ import annotations

import typing
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.unit.core.invariants import check
from tests.unit.core.peers import ABOUT
from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.events import ID_BITS
from workbench.core.loop_events import Left, Tick, WorkerExited
from workbench.core.session import Session
from workbench.wire.codec import decode_from_client, encode

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
