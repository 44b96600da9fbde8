"""The messages that clients send. Plain data; no behaviour. Other events are in `loop_events`.

`wire` encodes these very structs, so each message is defined once. That is why `core` may use
msgspec, whose structs are the cheapest records Python has (0.07 µs to make one, measured).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from workbench.core.line_events import Attached as Attached
from workbench.core.line_events import LineClosed as LineClosed
from workbench.core.line_events import Relay as Relay
from workbench.core.line_events import Returned as Returned
from workbench.core.line_events import Settled as Settled
from workbench.core.line_events import SettledCalls as SettledCalls
from workbench.core.line_events import Unheard as Unheard
from workbench.core.message_types import ID_BITS as ID_BITS
from workbench.core.message_types import USUAL as USUAL
from workbench.core.message_types import About as About
from workbench.core.message_types import Bytes, Id, Natural, Number, Prefix, Returns, Seconds
from workbench.core.message_types import Event as Event
from workbench.core.message_types import Place as Place
from workbench.core.message_types import Search as Search
from workbench.core.message_types import TaskSpec as TaskSpec
from workbench.core.message_types import Value as Value
from workbench.core.message_types import error_value as error_value

# -- a client's own life -------------------------------------------------------------------


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


class Opened(Event, tag=3):
    """The client made a segment; its descriptors (writable, read-only) travel beside this.

    ``disk``: a file for one object, which is larger than the store, and is all it writes there.
    """

    segment: Id
    size: Bytes
    disk: bool = False


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


# -- memory --------------------------------------------------------------------------------


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


# -- tasks ---------------------------------------------------------------------------------


class Submit(Event, tag=15):
    """Run ``function`` (an object) on a worker, or ``method`` on the actor of that id.

    The task's id is its first result's id; result ``i`` is ``task + i``. ``args`` is an opaque
    payload; ``deps`` are the objects to resolve for it, in order; ``contains`` the refs nested
    in the payload, left alone but kept alive. ``origin`` is the sender's own number for where
    output shall appear. ``line``: by which it has gone, see `core.lines`. ``parent``: of which it
    is part, if the server may not know; ``root``: and of that, if a worker's line brought it.
    """

    task: Id
    function: Id
    args: bytes
    deps: tuple[Id, ...] = ()
    contains: tuple[Id, ...] = ()
    returns: Returns = 1
    name: str = ""
    origin: Number = 0
    retries: Natural = 0
    actor: Id = 0
    method: str = ""
    spec: TaskSpec | None = None
    line: Natural = 0
    parent: Id = 0
    root: Id = 0


class Done(Event, tag=16):
    """The task ended; one value per result. ``seconds`` is how long the function ran.

    ``abouts`` has one entry per value too, or none at all: what inline results cost isn't told.
    ``again``: it failed in a way after which it may be tried again. ``threads``: some that it
    started go on, and may show something.
    """

    task: Id
    values: tuple[Value, ...]
    seconds: Seconds
    abouts: tuple[About | None, ...] = ()
    again: bool = False
    threads: bool = False


PROGRESS = "progress"
"""The kind of output that says how many of a cell's calls are done, and are known. Not kept."""


class Output(Event, tag=17):
    """Something a task shows; for its ``kind`` see `engines.base.OutputSink`. Forwarded to the
    owner, who learns from which ``worker`` it comes."""

    task: Id
    kind: str
    data: bytes
    origin: Number = 0
    worker: Natural = 0


class GaveBack(Event, tag=18):
    """Tasks this worker had been sent and will not start; ``asked`` answers a Recall."""

    tasks: tuple[Id, ...]
    asked: bool = False


class Blocked(Event, tag=19):
    """This worker's ``task`` waits: its slot is somebody else's until ``enough`` of these objects
    are there (0: all, or one that failed), and in any case until Unblocked.

    A task may wait in several places; the sender numbers them. With no objects, or fewer than
    ``enough``, only Unblocked ends it. ``item``: the object is a generator, and what it waits for
    is its item of that number, or the end.
    """

    task: Id
    wait: Natural = 0
    objects: tuple[Id, ...] = ()
    enough: Natural = 0
    item: Natural = 0


class Unblocked(Event, tag=20):
    """It doesn't wait there any more."""

    wait: Natural = 0


class Ask(Event, tag=21):
    """Answered by Answer once all that was sent before is done.

    ``what``: sync; inline: may the sender send another allowance of objects in messages (a text
    says no)? overview: the session with a few of its objects; names: those that begin with
    ``name``; describe: ``object`` at a glance; why: what keeps ``object``, or the one called
    ``name``, with what its holders find out (``deep``: however long that takes); jobs: all
    background cells that are remembered; log: what the job ``object`` has shown; spill: move
    ``object`` to disk, answered when it is there or can't be; task: where the task that makes
    ``object`` is: waiting, sent, or over; withdraw: the same, and one that waits is dropped; or
    actor: the name of the actor whose call it is, if it is one.
    What an answer may have doesn't depend on how many objects there are.
    """

    request: Number
    what: str = "sync"
    object: Id = 0
    name: str = ""
    deep: bool = False


class Register(Event, tag=22):
    """All workers shall use this custom serializer; an empty payload takes it back.

    ``serializer`` is the sender's own number for it, ``payload`` is opaque.
    """

    serializer: Id
    payload: bytes


class Escape(Event, tag=23):
    """A ref to the object was pickled outside the store at ``site``; whoever has it may come."""

    object: Id
    site: str


class Loaded(Event, tag=24):
    """How long the sender's first reading of each object took."""

    objects: tuple[Id, ...]
    seconds: tuple[Seconds, ...]


class Create(Event, tag=25):
    """Make an actor: ``creation`` runs first, in a worker of its own, which keeps what it makes.

    The actor's id is an object of the sender's, sealed before: its handles' object. When nothing
    keeps that any more, and no call of it is left, the actor ends. ``creation`` has that id too,
    and no results. ``restarts`` is how often the actor is made again when its worker dies, -1:
    always; ``concurrency`` how many of its calls run at a time; ``in_order``: those of one caller
    begin in the order of their submission. ``name`` is given to the object, unless another has it:
    then there is no actor; if ``detached``, the name keeps it alive. Answered by Found, if it has
    one: with whoever has it now. ``groups`` are those of its calls that have limits of their own,
    each with how many run at a time.
    """

    creation: Submit
    restarts: Annotated[int, msgspec.Meta(ge=-1, le=(1 << 63) - 1)] = 0
    concurrency: Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)] = 1
    name: str = ""
    request: Number = 0
    in_order: bool = True
    detached: bool = False
    groups: tuple[tuple[str, Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]], ...] = ()


class KillActor(Event, tag=26):
    """End the actor now; ``restart``: unless it may be made again."""

    actor: Id
    restart: bool = False


class Leave(Event, tag=27):
    """The sender, an actor's worker, ends because its actor said so."""


class Cancel(Event, tag=28):
    """Whoever makes this object shall stop; ``force``: even if that ends its worker.

    ``recursive``: and so for all that it has submitted.
    """

    object: Id
    force: bool = False
    recursive: bool = True


class Yielded(Event, tag=29):
    """The next item of a stream: an object of the worker's own, for the stream's reader."""

    task: Id
    object: Id
    value: Value
    about: About | None = None


class Took(Event, tag=30):
    """The reader of a stream has taken ``taken`` items by now; forwarded to who makes them."""

    task: Id
    taken: Natural


class Refresh(Event, tag=31):
    """Source files may have changed: forwarded to all workers, who look before their next task."""


class Pin(Event, tag=32):
    """A person wants the object kept, at ``site``; without ``on``: no longer."""

    object: Id
    site: str
    on: bool = True


class Explained(Event, tag=33):
    """The answer to Explain: ``places`` in this process at which the object is held.

    ``complete``: of the ``seen`` objects of the process none was left out.
    """

    inquiry: Number
    places: tuple[Place, ...]
    complete: bool = True
    seen: Natural = 0


class Noted(Event, tag=34):
    """The answer to Moved: what the sender maps from now on is in the new place."""

    object: Id


class Keep(Event, tag=36):
    """The session shall outlive its last driver by so many seconds, whatever it was before."""

    linger: Seconds


class Collect(Event, tag=37):
    """Send what this job has shown, and will show, with ``origin``; answered by Collected.

    With a ``name``: only what it assigned to that, and nothing of what it shows.
    """

    request: Number
    job: Id
    origin: Number = 0
    name: str = ""


class Interrupt(Event, tag=38):
    """A person interrupted the cell ``origin``: stop what it has submitted, and these ``jobs``.

    Its other jobs go on: they are background cells. ``force``: as in Cancel. Answered by Answer
    when all that was stopped is over.
    """

    request: Number
    origin: Number
    jobs: tuple[Id, ...] = ()
    force: bool = False


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


class EndSession(Event, tag=40):
    """End the session, now and for everybody. Its drivers are told ``reason``, a sentence."""

    reason: str


class Reshare(Event, tag=44):
    """The descriptor of a segment got lost on its way here: send Shared once more, then Answer.

    That has a text if nothing of the segment is the sender's to see any more.
    """

    request: Number
    segment: Id


Message = (
    Hello | Bye | Opened | Sealed | Want | Hold | Drop | View | Unview | Free | Find | Bind
    | Grow | Trimmed | Submit | Done | Output | GaveBack | Blocked | Unblocked | Ask
    | Register | Escape | Loaded | Create | KillActor | Leave | Cancel | Yielded | Took | Refresh
    | Pin | Explained | Noted | Keep | Collect | Interrupt | Subscribe | EndSession
    | Reshare | Attached | SettledCalls | Settled | Unheard | LineClosed | Returned | Relay
)  # fmt: skip
"""What a client may send."""
