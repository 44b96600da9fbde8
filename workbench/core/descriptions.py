"""Records that describe one object: a summary, and why it is still here.

They consist of records of `core.snapshot`; no behaviour.
"""

from __future__ import annotations

from workbench.core.events import Place
from workbench.core.snapshot import (
    ActorRecord,
    ClientRecord,
    ObjectRecord,
    Record,
    WorkerRecord,
)


class TaskRecord(Record, frozen=True):
    """Task that makes an object. ``state``: waiting (for arguments), queued or running.

    ``worker`` is the number of the worker that has it, 0 if none has. ``actor`` is the name of the
    actor whose call it is, '' if it is no actor's.
    """

    name: str
    state: str
    worker: int = 0
    actor: str = ""


class PinRecord(Record, frozen=True):
    """One reason why an object is here: ``name``, ``ref``, ``task``, ``contained``, ``view``,
    ``escaped``, ``user`` or ``job``.

    ``client`` is the process that holds it, 0 if none does. ``detail`` is the name, the task's or
    job's name, what the containing object is, or a place in a person's code; ``object`` is the task
    or the containing object. ``places`` are where the process found references. ``complete``: the
    process searched everything; otherwise it searched ``seen`` objects. ``answered``: it has said
    that it is done.
    """

    reason: str
    client: int = 0
    detail: str = ""
    object: int = 0
    places: tuple[Place, ...] = ()
    complete: bool = True
    seen: int = 0
    answered: bool = True


class Account(Record, frozen=True):
    """Why one object is still here, with the answers of all holders. ``unknown``: what its engine
    can't tell, each in a few words."""

    object: ObjectRecord
    pins: tuple[PinRecord, ...]
    clients: tuple[ClientRecord, ...]
    workers: tuple[WorkerRecord, ...] = ()
    actors: tuple[ActorRecord, ...] = ()
    unknown: tuple[str, ...] = ()


class ValueHolder(Record, frozen=True):
    """One thing that keeps a value which isn't stored: its place, and the bytes that it would free.

    ``goes``: the value goes with it, for nothing else keeps it. ``part``: it keeps only a part of
    the value, so many bytes; 0: the value itself.
    """

    place: Place
    frees: int
    goes: bool
    part: int = 0


class ValueAccount(Record, frozen=True):
    """Why a value is in the memory of its process: ``nbytes`` of it, ``shared`` parts included.

    ``together``: bytes that all ``holders`` would free. ``complete``: the search looked at
    everything, else at ``seen`` objects.
    """

    what: str
    nbytes: int
    shared: int
    holders: tuple[ValueHolder, ...]
    together: int
    complete: bool = True
    seen: int = 0


class ObjectDescription(Record, frozen=True):
    """Summary of one object. ``task`` will make it; ``actor`` is the one whose handles refer to it.

    ``clients``, ``workers`` and ``actors`` are those that hold, view or make it.
    """

    object: ObjectRecord
    clients: tuple[ClientRecord, ...] = ()
    task: TaskRecord | None = None
    actor: ActorRecord | None = None
    workers: tuple[WorkerRecord, ...] = ()
    actors: tuple[ActorRecord, ...] = ()
