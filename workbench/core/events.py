"""The messages that clients send. Plain data; no behaviour. What they say of tasks and of lines is
in `task_events` and `line_events`, and is had from here too; other events are in `loop_events`.

`wire` encodes these very structs, so each message is defined once. That is why `core` may use
msgspec, whose structs are the cheapest records Python has (0.07 µs to make one, measured).
"""

from __future__ import annotations

from workbench.core.line_events import *  # noqa: F403
from workbench.core.line_events import LineMessage
from workbench.core.message_types import *  # noqa: F403
from workbench.core.message_types import (
    About,
    Bytes,
    Event,
    Id,
    Natural,
    Number,
    Place,
    Prefix,
    Search,
    Seconds,
    Value,
)
from workbench.core.message_types import error_value as error_value
from workbench.core.task_events import *  # noqa: F403
from workbench.core.task_events import TaskMessage

# -- a client, and the session -------------------------------------------------------------


class Hello(Event, tag=1):
    """First message of every client. ``prefix`` is the high half of every id it will make.

    ``worker``: the number that the pool gave a worker process, 0 in a driver. ``linger``: seconds
    that the session shall outlive its last driver, at least. ``admin``: a shell command that asks,
    or ends the session. It makes no objects, and keeps no session up.
    """

    pid: Natural
    prefix: Prefix
    worker: Natural = 0
    linger: Seconds = 0.0
    label: str = ""
    admin: bool = False


class Bye(Event, tag=2):
    """The client leaves on purpose: no linger on its account, unless it ``lingers``.

    ``shows``: arrays in its process still show objects. It says nothing more, is told nothing more,
    and its views count until its connection ends. ``final``: its kernel was shut down by a person.
    """

    lingers: bool = False
    shows: bool = False
    final: bool = False


class Keep(Event, tag=36):
    """The session shall outlive its last driver by so many seconds, whatever it was before."""

    linger: Seconds


class EndSession(Event, tag=40):
    """End the session, now and for everybody. Its drivers are told ``reason``, a sentence."""

    reason: str


# -- objects -------------------------------------------------------------------------------


class Sealed(Event, tag=4):
    """A new object, complete and immutable from now on. Implies one handle in the sender."""

    object: Id
    value: Value
    about: About
    name: str = ""


class Want(Event, tag=5):
    """Send Ready for each of these as soon as there is something to know."""

    objects: tuple[Id, ...]


class Hold(Event, tag=6):
    """The first handle to each of these appeared in the sender."""

    objects: tuple[Id, ...]


class Drop(Event, tag=7):
    """The sender gives back one hold on each (one entry per hold it was given)."""

    objects: tuple[Id, ...]


class View(Event, tag=8):
    """A zero-copy view of the object now lives in the sender: of its bytes in that segment."""

    object: Id
    segment: Id


class Unview(Event, tag=9):
    """One view of each of these (object, segment) died in the sender, one entry per View it sent.
    With segment 0 it answers Forget."""

    views: tuple[tuple[Id, Id], ...]


class Noted(Event, tag=34):
    """The answer to Moved: what the sender maps from now on is in the new place."""

    object: Id


class Loaded(Event, tag=24):
    """How long the sender's first reading of each object took."""

    objects: tuple[Id, ...]
    seconds: tuple[Seconds, ...]


class Free(Event, tag=10):
    """Drop every pin that keeps these alive, whoever holds it."""

    objects: tuple[Id, ...]


class Find(Event, tag=11):
    """Which object has this name? Answered by Found, which carries a hold."""

    request: Number
    name: str


class Bind(Event, tag=12):
    """Give an object a name; with ``object`` 0, take the name away."""

    name: str
    object: Id


class Escape(Event, tag=23):
    """A ref to the object was pickled outside the store at ``site``; whoever has it may come."""

    object: Id
    site: str


class Pin(Event, tag=32):
    """A person wants the object kept, at ``site``; without ``on``: no longer."""

    object: Id
    site: str
    on: bool = True


class Register(Event, tag=58):
    """All workers shall use this custom serializer; an empty payload takes it back. Forwarded to
    them. ``serializer`` is the sender's own number for it, ``payload`` is opaque.
    """

    serializer: Id
    payload: bytes


# -- memory --------------------------------------------------------------------------------


class Opened(Event, tag=3):
    """The client made a segment; its descriptors (writable, read-only) travel beside this.

    ``disk``: a file for one object, which is larger than the store, and is all it writes there.
    """

    segment: Id
    size: Bytes
    disk: bool = False


class Reshare(Event, tag=44):
    """The descriptor of a segment got lost on its way here: send Shared once more, then Answer.

    That has a text if nothing of the segment is the sender's to see any more.
    """

    request: Number
    segment: Id


class Grow(Event, tag=13):
    """The sender's arena wants to touch ``nbytes`` more of its segment; with ``spill`` even if
    other objects have to move to disk."""

    request: Number
    nbytes: Bytes
    spill: bool = True


class Trimmed(Event, tag=14):
    """The sender gave ``nbytes`` of its arena's grant back to the machine."""

    nbytes: Bytes
    answer: bool = False


# -- questions -----------------------------------------------------------------------------


class Ask(Event, tag=21):
    """Answered by Answer once all that was sent before is done.

    ``what``: sync; inline: may the sender send another allowance of objects in messages (a text
    says no)? overview: the session with a few of its objects; names: those that begin with
    ``name``; describe: ``object`` at a glance; why: what keeps ``object``, or the one called
    ``name``, with what its holders find out (``deep``: however long that takes); jobs: all
    background cells that are remembered; log: what the job ``object`` has shown; spill: move
    ``object`` to disk, answered when it is there or can't be; or withdraw: where the task that
    makes ``object`` is (waiting, sent, or over), and one that waits is dropped.
    What an answer may have doesn't depend on how many objects there are.
    """

    request: Number
    what: str = "sync"
    object: Id = 0
    name: str = ""
    deep: bool = False


class Explained(Event, tag=33):
    """The answer to Explain: ``places`` in this process at which the object is held.

    ``complete``: of the ``seen`` objects of the process none was left out.
    """

    inquiry: Number
    places: tuple[Place, ...]
    complete: bool = True
    seen: Natural = 0


class Subscribe(Event, tag=39):
    """Send Changed, once, when anything has changed since the last one of that number; the first
    time at once, with everything. Without ``on``: no more.

    ``once``: what is there now, in as many answers as it takes, each asked for by the same message,
    and no changes. With ``search`` each has but those that come first of the objects it is about.
    """

    request: Number
    on: bool = True
    once: bool = False
    search: Search | None = None


Message = (
    Hello | Bye | Opened | Sealed | Want | Hold | Drop | View | Unview | Free | Find | Bind | Grow
    | Trimmed | Ask | Register | Escape | Loaded | Pin | Explained | Noted | Keep | Subscribe
    | EndSession | Reshare | TaskMessage | LineMessage
)  # fmt: skip
"""What a client may send."""
