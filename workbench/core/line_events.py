"""The messages of clients about lines: see `core.lines`. `events` exports them too."""

from __future__ import annotations

from workbench.core.message_types import Event, Id, Natural, Number, Value


class Attached(Event, tag=47):
    """The sender has its end of a line; without ``good`` it hasn't, and there is no line."""

    line: Natural
    good: bool = True


class Settled(Event, tag=48):
    """A call of the sender's own that went by a line is over, and this is its result."""

    task: Id
    value: Value


class SettledCalls(Event, tag=54):
    """Calls of the sender's own that went by a line are over, and these are their results, in the
    order of the calls. Nothing was said of them before. ``origin``: see `Submit`."""

    line: Natural
    tasks: tuple[Id, ...]
    values: tuple[Value, ...]
    origin: Number = 0


class Unheard(Event, tag=51):
    """So many bytes of results came by the line and are gone: nobody will be told of them."""

    line: Natural
    nbytes: Natural


class LineClosed(Event, tag=49):
    """The answer to LineEnded: of what went by the line, no more will be known. ``unbegun`` is the
    first of its calls that, by what that said, never began; 0 if there is none."""

    line: Natural
    unbegun: Natural = 0


class Returned(Event, tag=52):
    """The sender was asked for the line: nothing more comes by it, and what came has ended. If it
    isn't over, some of that runs, and may read the objects ``kept``: this is said again then."""

    line: Natural
    is_over: bool = True
    kept: tuple[Id, ...] = ()


class Relay(Event, tag=50):
    """What a worker would say on a line, behind what it has said to the server."""

    line: Natural
    data: bytes


LineMessage = Attached | Settled | SettledCalls | Unheard | LineClosed | Returned | Relay
