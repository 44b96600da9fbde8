"""Messages of clients about lines: see `core.lines`. `events` exports them too."""

from __future__ import annotations

from workbench.core.message_types import Event, Id, Natural, Number, Value


class Attached(Event, tag=47):
    """The sender has got its end of a line. Not ``good``: it hasn't, so there is no line."""

    line: Natural
    good: bool = True


class Settled(Event, tag=48):
    """A call that the sender made by a line is over, and this is its result."""

    task: Id
    value: Value


class SettledCalls(Event, tag=54):
    """Calls that the sender made by a line are over, with their results, in the order of the calls.
    The server hasn't heard of them before. ``origin``: see `Submit`."""

    line: Natural
    tasks: tuple[Id, ...]
    values: tuple[Value, ...]
    origin: Number = 0


class Unheard(Event, tag=51):
    """``nbytes`` of results came by the line and are dropped: the server won't hear of them."""

    line: Natural
    nbytes: Natural


class LineClosed(Event, tag=49):
    """The answer to LineEnded: the caller has read all results that came by the line. ``unbegun``
    is the first of its calls that, according to LineEnded, never began; 0 if there is none."""

    line: Natural
    unbegun: Natural = 0


class Returned(Event, tag=52):
    """The answer to TakeBack: no more calls come by the line, and those that came have ended. Not
    ``is_over``: some still run, may read the objects ``kept``, and another Returned will follow."""

    line: Natural
    is_over: bool = True
    kept: tuple[Id, ...] = ()


class Relay(Event, tag=50):
    """A packet for the line's caller that must arrive after what the worker has told the server."""

    line: Natural
    data: bytes


LineMessage = Attached | Settled | SettledCalls | Unheard | LineClosed | Returned | Relay
