"""The messages that clients send. Plain data; no behaviour. Those about tasks and lines are defined
in `task_events` and exported here too; other events are in `loop_events`.

`wire` encodes these very structs, so each message is defined once. That is why `core` uses msgspec,
whose structs are the cheapest records in Python (0.07 µs to make one, measured).
"""

from __future__ import annotations

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
from workbench.core.message_types import freed_value as freed_value
from workbench.core.task_events import *  # noqa: F403
from workbench.core.task_events import Cancel, Create, Interrupt, KillActor, Refresh, TaskMessage

# -- a client, and the session -------------------------------------------------------------


class Hello(Event, tag=1):
    """First message of every client. ``prefix`` is the high half of every id that it makes.

    ``worker``: the number that the pool gave a worker process, 0 in a driver. ``linger``: minimum
    seconds that the session outlives its last driver. ``admin``: a shell command that inspects or
    ends the session. It makes no objects, and doesn't keep the session alive.
    """

    pid: Natural
    prefix: Prefix
    worker: Natural = 0
    linger: Seconds = 0.0
    label: str = ""
    admin: bool = False


class Bye(Event, tag=2):
    """The client leaves on purpose, or is about to: the session doesn't linger for it, unless it
    ``lingers``. Without it, the client's end is unexpected.

    ``shows``: arrays in its process still show objects. It sends and gets no more messages except
    Unview, and its views count until its connection ends. ``final``: a person shut its kernel down.
    """

    lingers: bool = False
    shows: bool = False
    final: bool = False


class Keep(Event, tag=36):
    """Set how many seconds the session outlives its last driver."""

    linger: Seconds


class CellNote(Event, tag=59):
    """Which ``cell`` a driver runs, or has run (0: none), should its process die: with the ``line``
    and the bytes of private ``memory`` while it runs, 0 if not known."""

    cell: Natural = 0
    runs: bool = False
    line: Natural = 0
    memory: Natural = 0


class EndSession(Event, tag=40):
    """End the session now, for all clients. Drivers are told ``reason``, a sentence."""

    reason: str


# -- objects -------------------------------------------------------------------------------


class Sealed(Event, tag=4):
    """A new object, complete and immutable from now on. Implies one handle in the sender."""

    object: Id
    value: Value
    about: About
    name: str = ""


class Want(Event, tag=5):
    """Send Ready for each of these objects as soon as it is ready, failed, freed or unknown."""

    objects: tuple[Id, ...]


class Hold(Event, tag=6):
    """The first handle to each of these objects appeared in the sender."""

    objects: tuple[Id, ...]


class Drop(Event, tag=7):
    """The sender releases one hold on each object (one entry per hold it was given)."""

    objects: tuple[Id, ...]


class View(Event, tag=8):
    """A zero-copy view of the object's bytes in that segment now lives in the sender."""

    object: Id
    segment: Id


class Unview(Event, tag=9):
    """One view of each of these (object, segment) died in the sender, one entry per View it sent.
    With segment 0 it answers Forget."""

    views: tuple[tuple[Id, Id], ...]


class Noted(Event, tag=34):
    """The answer to Moved: the sender maps only the new place from now on."""

    object: Id


class Loaded(Event, tag=24):
    """Seconds that the sender's first reading of each object took."""

    objects: tuple[Id, ...]
    seconds: tuple[Seconds, ...]


class Free(Event, tag=10):
    """Free these objects now, whatever pins them."""

    objects: tuple[Id, ...]


class Find(Event, tag=11):
    """Ask which object has this name. Answered by Found, which carries a hold."""

    request: Number
    name: str


class Bind(Event, tag=12):
    """Give an object a name; with ``object`` 0, remove the name."""

    name: str
    object: Id


class Escape(Event, tag=23):
    """A ref to the object was pickled outside the store at ``site``; it may be loaded later."""

    object: Id
    site: str


class Pin(Event, tag=32):
    """Keep the object in memory, as a person asked at ``site``; without ``on``: no longer."""

    object: Id
    site: str
    on: bool = True


class Register(Event, tag=58):
    """Have all workers use this custom serializer; an empty payload removes it. Forwarded to them.
    ``serializer`` is an id that the sender chose, ``payload`` is opaque.
    """

    serializer: Id
    payload: bytes


# -- memory --------------------------------------------------------------------------------


class Opened(Event, tag=3):
    """The client made a segment; its descriptors (writable, read-only) travel with this message.

    ``disk``: it is a file for one object that is larger than the store.
    """

    segment: Id
    size: Bytes
    disk: bool = False


class Reshare(Event, tag=44):
    """Send Shared once more, then Answer: the segment's descriptor got lost on its way here.

    The Answer has a text if the sender has no use of the segment any more.
    """

    request: Number
    segment: Id


class Grow(Event, tag=13):
    """Ask to touch ``nbytes`` more of the sender's arena; with ``spill`` even if other objects have
    to move to disk."""

    request: Number
    nbytes: Bytes
    spill: bool = True


class Trimmed(Event, tag=14):
    """The sender gave ``nbytes`` of its grant back to the machine. ``answer``: it answers Trim."""

    nbytes: Bytes
    answer: bool = False


# -- questions -----------------------------------------------------------------------------


class Ask(Event, tag=21):
    """A question. Answered by Answer, after all that the sender sent before has been handled.

    ``what``: sync; inline: may the sender send another allowance of objects in messages (a text
    says no)? overview: the session with a few of its objects; names: those that begin with
    ``name``; describe: a summary of ``object``; why: what keeps ``object``, or the one called
    ``name``, with what its holders find (``deep``: however long that takes); jobs: all remembered
    background cells; log: what the job ``object`` has shown; spill: move ``object`` to disk,
    answered when that is done or can't be; withdraw: where the task that makes ``object`` is
    (waiting, sent or over), and drop it if it waits. The size of an answer doesn't depend on how
    many objects there are.
    """

    request: Number
    what: str = "sync"
    object: Id = 0
    name: str = ""
    deep: bool = False


class Explained(Event, tag=33):
    """The answer to Explain: ``places`` in this process that hold the object.

    ``complete``: the process searched all its objects, ``seen`` in number. Without ``done``: it is
    still searching.
    """

    inquiry: Number
    places: tuple[Place, ...]
    complete: bool = True
    seen: Natural = 0
    done: bool = True


class Subscribe(Event, tag=39):
    """Send Changed, once, when anything has changed since the last one for this request; the first
    time at once, with everything. Without ``on``: end the subscription.

    ``once``: send what is there now, and no changes; the same message asks for each further part.
    With ``search`` each part has only those of its objects that come first.
    """

    request: Number
    on: bool = True
    once: bool = False
    search: Search | None = None


Message = (
    Hello | Bye | Opened | Sealed | Want | Hold | Drop | View | Unview | Free | Find | Bind | Grow
    | Trimmed | Ask | Register | Escape | Loaded | Pin | Explained | Noted | Keep | CellNote
    | Subscribe | EndSession | Reshare | TaskMessage
)  # fmt: skip
"""All messages that a client may send."""

MUST_NOT_OVERTAKE = frozenset((
    Bind, Free, Register, Refresh, Escape, Pin, Cancel, KillActor, Interrupt, Keep, Create,
    EndSession,
))  # fmt: skip
"""Messages that later calls and tasks must not overtake, by a line or a lease either: they change
what these may use, a name, a serializer, an actor. The client and the server both use this table.
"""
