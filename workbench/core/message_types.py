"""What messages are made of: the base of all, an object's value, what a put cost, what a task asks
for, kinds of numbers.

`events` exports them too, since whoever makes or reads a message needs both.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

ID_BITS = 32
"""An id is the maker's prefix, then this many bits of the maker's own counter."""

Natural = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Number = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""The sender's own, which comes back to it."""

Id = Natural
Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 56)]
"""No machine has more; sums of a session's fit 64 bits."""

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Returns = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
"""Results of one task: each is an object from the start."""

Prefix = Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]
Digest = Annotated[int, msgspec.Meta(ge=0)]  # of 64 bits
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
"""What a field may be at all; the decoder refuses the rest, so nobody behind it has to ask."""


class Event(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Base of all events. Tags are the wire format: never reuse a number."""


class Value(Event):
    """Where an object's bytes are, and all a reader needs to build the object.

    ``header`` is opaque here: the serialization room's. With ``segment == 0`` it is the whole
    object (inline); otherwise the buffers lie at ``offset`` in that segment, ``length`` bytes.
    ``contains`` lists the refs found inside: they live as long as this object does.
    ``failed`` means that reading it raises: the object is an exception, or the core's own
    refusal, whose header is ``!code\\ntext`` (see :func:`error_value`). ``digest`` is not 0 if the
    bytes are on disk: whoever maps them first checks them against it (`memory.spill`).
    """

    header: bytes
    segment: Id = 0
    offset: Bytes = 0
    length: Bytes = 0
    contains: tuple[Id, ...] = ()
    failed: bool = False
    digest: Digest = 0


def error_value(code: str, text: str) -> Value:
    """The value of an object that will never be there. ``code`` names the error type; behind
    ``actor`` stands the id of the one that died."""
    return Value(f"!{code}\n{text}".encode(), failed=True)


class Place(Event):
    """One thing in a process that keeps an object, and the code that lets go of it.

    ``kind`` is ``ref``, or ``view``: an array that shows the object's bytes. ``path`` is what a
    person calls it, in lines if it is several things; ``keeper`` says what sort of thing it is or
    is part of, ``where`` in which function or module, ``by`` what keeps that: `report.why` has
    words for each. ``cut`` is code to paste there; empty if there is none. ``count``: so many
    references in one.
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

    ``site`` is where it stands in a person's code. ``repeats``: so often its process had serialized
    the very same bytes before. ``cold``: it was copied into pages that nobody had touched, which
    the kernel has to clear first.
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
    """Which objects come first: of those of which a name or the type matches ``pattern`` (as file
    names do, ``*`` stands for anything), the first ``most`` by ``order``: size, age, name or type.
    """

    pattern: str = ""
    order: Annotated[str, msgspec.Meta(pattern=r"^(size|age|name|type)\Z")] = "size"
    most: Natural = 60


class TaskSpec(Event):
    """What a task asks for beyond the usual.

    ``cpus`` are thousandths of a processor that it needs while it runs; an actor's creation, that
    it takes from tasks as long as it lives. ``timeout``: how long it may run, 0: as long as it
    likes. ``retry_on`` is opaque: after which exceptions its worker asks for another try.
    ``ahead`` is 0 unless the task is a stream: then by how many items it may be ahead of its
    reader, and its one result says how many there were. ``job``: it is a background cell, which
    people know by this name; ``binds`` are the variables that its results but the first are meant
    for. A cell that is ``size`` tasks is one job: ``group`` is the id of its first one, 0 in that
    itself. Of the tasks of one ``executor`` no more than ``max_workers`` run at a time, if that
    isn't 0. ``env`` are variables of the environment that it sets, ``namespace`` is that of the
    driver from which it comes. ``refs``: what it yields are objects of its own, and its one result
    is the list of their refs. A call of an actor may belong to a ``concurrency_group``. A worker
    that has run ``max_calls`` of its function's tasks ends, unless that is 0.
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
