"""The frozen picture of a session that everything which shows it reads. No behaviour but sums."""

from __future__ import annotations

import msgspec

from workbench.core.events import About


class Record(msgspec.Struct, frozen=True, array_like=True):
    """Base of the snapshot's parts."""


class ObjectRecord(Record):
    """One object. ``size`` in bytes; ``where``: inline, memory or pending; pins by reason.

    ``escapes`` are the places where refs to it were pickled outside the store;
    ``load_seconds`` is what its first reading took, 0 until there was one.
    """

    id: int
    state: str
    names: tuple[str, ...]
    size: int
    where: str
    about: About | None
    holders: tuple[int, ...]
    viewers: tuple[int, ...]
    tasks: int
    parents: int
    escapes: tuple[str, ...] = ()
    load_seconds: float = 0.0


class WorkerRecord(Record):
    """One worker. ``tasks``: names of what was sent to it, the running one first.

    ``actor`` is the id of the one it belongs to, 0 in the pool.
    """

    number: int
    pid: int
    state: str
    tasks: tuple[str, ...]
    actor: int = 0


class ActorRecord(Record):
    """One actor that is not forgotten. ``restarts``: how many are left, -1: any number.

    ``calls`` were submitted and aren't done, whether they were sent or not.
    """

    id: int
    cls: str
    names: tuple[str, ...]
    state: str
    worker: int
    calls: int
    restarts: int


class ClientRecord(Record):
    """One connected process. ``client`` is what pins' holders refer to."""

    client: int
    pid: int
    role: str
    label: str


class Snapshot(Record):
    """A whole session at one moment. Sizes in bytes."""

    session: str
    capacity: int
    live: int
    granted: int
    queued: int
    running: int
    objects: tuple[ObjectRecord, ...]
    workers: tuple[WorkerRecord, ...]
    clients: tuple[ClientRecord, ...]
    actors: tuple[ActorRecord, ...] = ()

    @property
    def warm_free(self) -> int:
        """Memory kept warm for reuse."""
        return self.granted - self.live
