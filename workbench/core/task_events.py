"""The messages of clients about tasks, streams, actors and background cells. `events` exports them
too, and everybody takes them from there.
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
    payload; ``deps`` are the objects to resolve for it, in order; ``contains`` the refs nested
    in the payload, left alone but kept alive. ``origin`` is the sender's own number for where
    output shall appear. ``line``: by which it has gone, see `core.lines`. ``parent``: the task in
    which it was called, 0 if in none; ``root``: that of this one, if a worker's line brought it.
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
    """What Submits have in common that differ in their tasks and arguments alone. Each has one
    result, no options, and no refs inside its arguments."""

    function: Id
    deps: tuple[Id, ...] = ()
    name: str = ""
    origin: Number = 0
    retries: Natural = 0
    actor: Id = 0
    method: str = ""
    parent: Id = 0
    root: Id = 0

    def submit(self, task: int, args: bytes, line: int = 0) -> Submit:
        """One of them.

        Parameters
        ----------
        task : int
            Its task.
        args : bytes
            Its arguments.
        line : int
            By which it has gone.

        Returns
        -------
        Submit
        """
        return Submit(
            task, self.function, args, self.deps, (), 1, self.name, self.origin, self.retries,
            self.actor, self.method, None, line, self.parent, self.root,
        )  # fmt: skip


class SubmitCalls(Event, tag=57):
    """Several Submits of one form, one after the other."""

    tasks: tuple[Id, ...]
    args: tuple[bytes, ...]
    form: CallForm

    def submits(self) -> Iterator[Submit]:
        """Each by itself.

        Returns
        -------
        Iterator[Submit]
            In their order.
        """
        return map(self.form.submit, self.tasks, self.args)


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
    """Something a task shows; for its ``kind`` see `engine.records.CellListener`. Forwarded to the
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


class Cancel(Event, tag=28):
    """Whoever makes this object shall stop; ``force``: even if that ends its worker.

    ``recursive``: and so for all that it has submitted.
    """

    object: Id
    force: bool = False
    recursive: bool = True


class Interrupt(Event, tag=38):
    """A person interrupted the cell ``origin``: stop what it has submitted, and these ``jobs``.

    Its other jobs go on: they are background cells. ``force``: as in Cancel. Answered by Answer
    when all that was stopped is over.
    """

    request: Number
    origin: Number
    jobs: tuple[Id, ...] = ()
    force: bool = False


class Refresh(Event, tag=31):
    """Source files may have changed: forwarded to all workers, who look before their next task."""


class Collect(Event, tag=37):
    """Send what this job has shown, and will show, with ``origin``; answered by Collected.

    With a ``name``: only what it assigned to that, and nothing of what it shows.
    """

    request: Number
    job: Id
    origin: Number = 0
    name: str = ""


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


TaskMessage = (
    Submit | SubmitCalls | Done | Output | GaveBack | Blocked | Unblocked | Yielded | Took | Cancel
    | Interrupt | Refresh | Collect | Create | KillActor | Leave
)  # fmt: skip
