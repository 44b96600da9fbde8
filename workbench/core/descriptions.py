"""What is told of one object: what it is at a glance, and why it is still here.

Made of the records of `core.snapshot`, and as those without behaviour.
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
    """The task that is to make an object. ``state``: waiting (for arguments), queued or running.

    ``worker`` is the number of the one that has it, 0 if none has. ``actor``: what that is called
    whose call it is, '' if it is none's.
    """

    name: str
    state: str
    worker: int = 0
    actor: str = ""


class PinRecord(Record, frozen=True):
    """One reason why an object is here: ``name``, ``ref``, ``task``, ``contained``, ``view``,
    ``escaped``, ``user`` or ``job``.

    ``client`` is the process that holds it, 0 if it is none. ``detail`` is the name, the task's or
    job's name, what the containing object is, or a place in a person's code; ``object`` is the
    task or the containing object. ``places`` are where the process found it; ``complete``: it
    looked everywhere, else only at ``seen`` objects, none if it didn't answer.
    """

    reason: str
    client: int = 0
    detail: str = ""
    object: int = 0
    places: tuple[Place, ...] = ()
    complete: bool = True
    seen: int = 0


class Account(Record, frozen=True):
    """Why one object is still here, from everybody who holds it. ``unknown``: what its engine can't
    tell of that, each in a few words."""

    object: ObjectRecord
    pins: tuple[PinRecord, ...]
    clients: tuple[ClientRecord, ...]
    workers: tuple[WorkerRecord, ...] = ()
    actors: tuple[ActorRecord, ...] = ()
    unknown: tuple[str, ...] = ()


class ObjectDescription(Record, frozen=True):
    """One object at a glance. ``task`` is to make it; ``actor`` is the one whose handles it is.

    ``clients``, ``workers`` and ``actors`` are those that hold, show or make it.
    """

    object: ObjectRecord
    clients: tuple[ClientRecord, ...] = ()
    task: TaskRecord | None = None
    actor: ActorRecord | None = None
    workers: tuple[WorkerRecord, ...] = ()
    actors: tuple[ActorRecord, ...] = ()
