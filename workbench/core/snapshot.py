"""The frozen picture of a session that everything which shows it reads. No behaviour but sums."""

from __future__ import annotations

import msgspec

from workbench.core.events import About


class Record(msgspec.Struct, frozen=True, array_like=True):
    """Base of the snapshot's parts."""


class ObjectRecord(Record):
    """One object. ``size`` in bytes; ``where``: inline, memory, disk or pending; pins by reason.

    ``escapes`` are the places where refs to it were pickled outside the store, ``pinned`` the one
    where a person asked for it to be kept; ``age`` is in seconds, since its put or submit;
    ``load_seconds`` is what its first reading took, 0 until there was one. ``job`` is the
    background cell that made it, or will, and that nobody has collected.
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
    pinned: str = ""
    age: float = 0.0
    job: str = ""


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


class JobRecord(Record):
    """One background cell. ``state``: queued, running, done, failed or cancelled.

    ``number`` counts the session's; ``id`` is its task. ``seconds``: how long it has run.
    ``lines`` printed and ``displays`` are how much it has shown; ``binds`` the variables that its
    results but the first are meant for. ``kept``: whoever saw its output is gone, so that and its
    results wait for somebody to collect them. Of its ``size`` tasks so many have ``ended``;
    ``worker`` is the last that was sent one, 0 if none was.
    """

    id: int
    number: int
    name: str
    state: str
    seconds: float
    lines: int
    displays: int
    binds: tuple[str, ...]
    kept: bool
    ended: int = 0
    size: int = 1
    worker: int = 0

    @property
    def is_over(self) -> bool:
        """Whether it has ended, one way or another."""
        return self.state not in ("queued", "running")


class ClientRecord(Record):
    """One connected process: a driver, worker or visitor. Pins' holders refer to ``client``."""

    client: int
    pid: int
    role: str
    label: str


class TaskRecord(Record):
    """The task that is to make an object. ``state``: waiting (for arguments), queued or running.

    ``pid`` is the worker's that has it, 0 if none has.
    """

    name: str
    state: str
    pid: int = 0


class PinRecord(Record):
    """One reason why an object is here: ``name``, ``ref``, ``task``, ``contained``, ``view``,
    ``escaped``, ``user`` or ``job``.

    ``client`` is the process that holds it, 0 if it is none. ``detail`` is the name, the task's or
    job's name, what the containing object is, or a place in a person's code; ``object`` is the
    task or the containing object. ``places`` are where the process found it: (path, ref or view);
    ``complete``: it looked everywhere.
    """

    reason: str
    client: int = 0
    detail: str = ""
    object: int = 0
    places: tuple[tuple[str, str], ...] = ()
    complete: bool = True


class Account(Record):
    """Why one object is still here, from everybody who holds it."""

    object: ObjectRecord
    pins: tuple[PinRecord, ...]
    clients: tuple[ClientRecord, ...]


class Description(Record):
    """One object at a glance. ``task`` is to make it; ``actor`` is the one whose handles it is.

    ``clients`` are those that hold or show it.
    """

    object: ObjectRecord
    clients: tuple[ClientRecord, ...] = ()
    task: TaskRecord | None = None
    actor: ActorRecord | None = None


class Snapshot(Record):
    """A whole session at one moment. Sizes in bytes.

    ``live``: what objects have in memory, ``spilled``: on disk; ``trouble`` is why the disk failed
    last. ``linger``: how many seconds the session outlives its last driver. ``count``: how many
    objects there are; an overview lists but some that have a name.
    """

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
    spilled: int = 0
    trouble: str = ""
    jobs: tuple[JobRecord, ...] = ()
    linger: float = 0.0
    count: int = 0

    @property
    def warm_free(self) -> int:
        """Memory kept warm for reuse."""
        return self.granted - self.live
