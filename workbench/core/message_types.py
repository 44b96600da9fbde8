"""Parts of messages: their base class, an object's value, what a put cost, what a task asks for,
kinds of numbers.

`events` exports them too, since code that makes or reads a message needs both.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

ID_BITS = 32
"""Low bits of an id, which hold the maker's counter; the maker's prefix is above them."""

Natural = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Number = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A number of the sender's choice, which answers repeat."""

Id = Natural
Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 56)]
"""No machine has more; sums over a session fit 64 bits."""

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Returns = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
"""Number of a task's results: each is an object from the start."""

Prefix = Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]
Digest = Annotated[int, msgspec.Meta(ge=0)]  # of 64 bits
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
"""The decoder refuses numbers outside of these ranges, so that no other code has to check."""


class Event(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Base of all events. Tags are the wire format: never reuse a number."""


class Value(Event):
    """Where an object's bytes are, and all that a reader needs to build the object.

    ``header`` is opaque here; `serialization` makes it. With ``segment == 0`` it is the whole
    object (inline); otherwise the buffers are ``length`` bytes at ``offset`` in that
    segment. ``contains`` lists the refs found inside: they live as long as this object does.
    ``failed`` means that reading it raises: the object is an exception, or the core's own refusal,
    whose header is ``!code\\ntext`` (see :func:`error_value`). ``digest`` is not 0 if the bytes are
    on disk: a process checks them against it before it maps them (`memory.spill`).
    """

    header: bytes
    segment: Id = 0
    offset: Bytes = 0
    length: Bytes = 0
    contains: tuple[Id, ...] = ()
    failed: bool = False
    digest: Digest = 0


def error_value(code: str, text: str) -> Value:
    """Return the value of an object that will never be there. ``code`` names the type of error;
    ``actor`` is followed by the id of the actor that died."""
    return Value(f"!{code}\n{text}".encode(), failed=True)


def freed_value(id: int, argument: bool = False, *, code: str = "freed") -> Value:
    """Return the value that a ref has, or a task with that ``argument``, once its object was freed;
    ``code`` "unknown": nothing held the object any more."""
    what = ", an argument of the task," if argument else ""
    happened = "was freed" if code == "freed" else "is not in the store any more"
    text = f"ObjectRef({id:016x}){what} refers to an object that {happened}. Put it again."
    return error_value(code, text)


class Place(Event):
    """One thing in a process that keeps an object, and code that drops it.

    ``kind`` is ``ref``, or ``view``: an array that shows the object's bytes. ``path`` is an
    expression for it, in lines if it is several things; ``keeper`` is what sort of thing it is or
    is part of, ``where`` its function or module, ``by`` what keeps that: `report.why` has words for
    each. ``cut`` is code to paste there; empty if there is none. ``count``: number of references in
    this place.
    """

    kind: str
    path: str
    keeper: str = "variable"
    where: str = ""
    cut: str = ""
    count: Natural = 1
    by: str = ""


class About(Event):
    """What a put cost and what it stored. Sizes in bytes, times in seconds.

    ``site`` is the put's place in a person's code. ``repeats``: how often its process had
    serialized the same bytes before. ``cold``: it was copied into untouched pages, which the kernel
    has to clear first.
    """

    type: str
    inband: Bytes
    outband: Bytes
    buffers: Count
    pickle_seconds: Seconds
    copy_seconds: Seconds
    site: str = ""
    repeats: Natural = 0
    cold: bool = False


class Search(Event):
    """Search for objects: those with a name or type that matches ``pattern`` (as for file names,
    ``*`` stands for anything), the first ``most`` of them by ``order``: size, age, name or type.
    """

    pattern: str = ""
    order: Annotated[str, msgspec.Meta(pattern=r"^(size|age|name|type)\Z")] = "size"
    most: Natural = 60


class TaskSpec(Event):
    """Options of a task.

    ``cpus``: thousandths of a processor that it needs while it runs; of an actor's creation, that
    the actor takes from tasks as long as it lives. ``timeout``: how long it may run, 0: no limit.
    ``retry_on`` is opaque: after which exceptions its worker asks for another try. ``ahead`` is 0
    unless the task is a generator: then by how many items it may be ahead of its reader, and its
    one result is their number. ``job``: name of the background cell that it is; ``binds``: the
    variables for its results after the first. A cell of ``size`` tasks is one job: ``group`` is the
    id of its first task, 0 in that task. At most ``max_workers`` tasks of one ``executor`` run at a
    time, unless that is 0. ``env``: environment variables that it sets; ``namespace``: that of its
    driver. ``refs``: each item it yields is an object, and its one result is the list of their
    refs. A call of an actor may belong to a ``concurrency_group``. A worker ends after
    ``max_calls`` tasks of this function, unless that is 0.
    """

    cpus: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 1000
    timeout: Seconds = 0.0
    retry_on: bytes = b""
    ahead: Natural = 0
    job: str = ""
    binds: tuple[str, ...] = ()
    size: Natural = 1
    group: Id = 0
    executor: Id = 0
    max_workers: Natural = 0
    env: tuple[tuple[str, str], ...] = ()
    namespace: str = ""
    refs: bool = False
    concurrency_group: str = ""
    max_calls: Natural = 0


USUAL = TaskSpec()
