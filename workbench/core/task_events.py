"""Messages of clients about tasks, generators, actors, background cells and lines. Import them from
`events`, which exports them too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec

from workbench.core.message_types import (
    About,
    Event,
    Id,
    Natural,
    Number,
    Returns,
    Seconds,
    TaskSpec,
    Value,
)


class Submit(Event, tag=15):
    """Run ``function`` (an object) on a worker, or ``method`` on the actor of that id.

    The task's id is its first result's id; result ``i`` is ``task + i``. ``args`` is an opaque
    payload; ``deps`` are the objects to resolve for it, in order; ``contains`` the refs nested in
    it, which are only kept alive. ``origin`` is the sender's number for the cell under which output
    appears. ``line``: that it went by. ``parent``: the task that called it, 0 if none; ``root``:
    its nearest ancestor not called by a line.
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


class CallForm(Event):
    """Fields shared by Submits that differ only in task and arguments. Those of `SubmitCalls` have
    one result, no options, and no refs inside their arguments."""

    function: Id
    deps: tuple[Id, ...] = ()
    name: str = ""
    origin: Number = 0
    retries: Natural = 0
    actor: Id = 0
    method: str = ""
    parent: Id = 0
    root: Id = 0

    def submit(
        self,
        task: int,
        args: bytes,
        line: int = 0,
        contains: tuple[int, ...] = (),
        returns: int = 1,
        spec: TaskSpec | None = None,
    ) -> Submit:
        """Return one Submit of this form. ``line``: that it went by."""
        return Submit(
            task, self.function, args, self.deps, contains, returns, self.name, self.origin,
            self.retries, self.actor, self.method, spec, line, self.parent, self.root,
        )  # fmt: skip


class SubmitCalls(Event, tag=57):
    """Several Submits of one form, in order."""

    tasks: tuple[Id, ...]
    args: tuple[bytes, ...]
    form: CallForm

    def submits(self) -> Iterator[Submit]:
        return map(self.form.submit, self.tasks, self.args)


class Done(Event, tag=16):
    """The task ended; one value per result. ``seconds`` is how long the function ran.

    ``abouts`` has one entry per value too, or none at all: the costs of inline results aren't sent.
    ``again``: it failed with an exception after which it may be retried. ``threads``: threads that
    it started go on, and may print.
    """

    task: Id
    values: tuple[Value, ...]
    seconds: Seconds
    abouts: tuple[About | None, ...] = ()
    again: bool = False
    threads: bool = False


PROGRESS = "progress"
"""Kind of Output that says how many of a cell's calls are known, and are done. Not kept."""


class Output(Event, tag=17):
    """Output of a task; for its ``kind`` see `engine.records.CellListener`. Forwarded to the owner,
    with the number of the ``worker`` that it comes from."""

    task: Id
    kind: str
    data: bytes
    origin: Number = 0
    worker: Natural = 0


class GaveBack(Event, tag=18):
    """Tasks that this worker was sent and won't start; ``asked``: it answers a Recall."""

    tasks: tuple[Id, ...]
    asked: bool = False


class Blocked(Event, tag=19):
    """This worker's ``task`` lends its slot until ``enough`` of these objects are there (0: all, or
    one that failed), or until Unblocked.

    A task may wait in several places; the sender numbers them. With fewer objects than ``enough``,
    or none, only Unblocked ends it. ``item``: the object is a generator, and the task waits for its
    item of that number, or for its end.
    """

    task: Id
    wait: Natural = 0
    objects: tuple[Id, ...] = ()
    enough: Natural = 0
    item: Natural = 0


class Unblocked(Event, tag=20):
    """The wait of that number is over."""

    wait: Natural = 0


class Yielded(Event, tag=29):
    """The next item of a generator: an object made by the worker, for the generator's reader."""

    task: Id
    object: Id
    value: Value
    about: About | None = None


class Took(Event, tag=30):
    """The reader of a generator has taken ``taken`` items by now; forwarded to its worker."""

    task: Id
    taken: Natural


class Cancel(Event, tag=28):
    """Stop the tasks that make these objects; ``force``: even if that ends their workers.

    ``recursive``: also all tasks that they have submitted. Not ``begun``: only those that weren't
    sent to a worker.
    """

    objects: tuple[Id, ...]
    force: bool = False
    recursive: bool = True
    begun: bool = True


class Interrupt(Event, tag=38):
    """A person interrupted the cell ``origin``: stop what it has submitted, and these ``jobs``.

    Other jobs of the cell go on: they are background cells. ``force``: as in Cancel. Answered by
    Answer when all stopped tasks are over.
    """

    request: Number
    origin: Number
    jobs: tuple[Id, ...] = ()
    force: bool = False


class Refresh(Event, tag=31):
    """Source files may have changed. Forwarded to all workers: each checks before its next task."""


class Collect(Event, tag=37):
    """Send the past and future output of this job, with ``origin``; answered by Collected.

    With a ``name``: only the value that it assigned to this name, and no output.
    """

    request: Number
    job: Id
    origin: Number = 0
    name: str = ""


class Create(Event, tag=25):
    """Make an actor: ``creation`` runs first, in a worker of its own, which keeps the instance.

    The actor's id is that of an object which the sender sealed before and which its handles refer
    to. The actor ends when nothing keeps this object and no call is left. ``creation`` has the same
    id, and no results. ``restarts`` is how often the actor is made again when its worker dies, -1:
    always; ``concurrency``: how many of its calls run at a time; ``in_order``: those of one caller
    begin in the order of submission. The object gets the ``name``; if another has it, the actor
    isn't made. If ``detached``, the name keeps the actor alive. With a name, it is answered by
    Found: the object that has the name now. ``groups``: concurrency groups, with how many calls of
    each run at a time.
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
    """Kill the actor's process; ``restart``: the actor is made again if it has restarts left."""

    actor: Id
    restart: bool = False


class Leave(Event, tag=27):
    """The sender is an actor's worker, and its actor has called ``exit_actor()``."""


# -- lines: see `core.lines` ------------------------------------------------------------------


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


TaskMessage = (
    Submit | SubmitCalls | Done | Output | GaveBack | Blocked | Unblocked | Yielded | Took | Cancel
    | Interrupt | Refresh | Collect | Create | KillActor | Leave
    | Attached | Settled | SettledCalls | Unheard | LineClosed | Returned | Relay
)  # fmt: skip
