"""Frozen snapshot of a session, which all displays of it read.

No behaviour except sums, and JSON. A field is None if the session's engine can't tell it; the local
engine tells all of them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from workbench.core.events import About, CellNote
from workbench.core.loop_events import DriverExited

A_RESULT = "a task's result"
"""The type of an object whose type isn't known."""

INCARNATION = "~"
"""Separates, in a session's unique name, its name from the part that makes it unique."""

ACTOR_PREFIX = "actor:"
"""Prefix of actors' names among the names of objects."""

KEPT_PREFIX = "kept:"
"""Prefix of the names under which notebooks' variables are kept."""

HISTORY_SECONDS = 120.0
"""Seconds of a session's history that are kept, sent and drawn."""


def result_of(state: str) -> str:
    """Return the type that lists show for a task's result that has not been described."""
    return {"failed": "a task's error", "stopped": "a stopped task's result"}.get(state, A_RESULT)


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of the snapshot's parts."""


class ObjectRecord(Record):
    """One object.

    Parameters
    ----------
    id : int
        Its number.
    state : str
        ``pending``, ``ready``, ``freed``, or ``failed`` or ``stopped`` as its task.
    names : tuple of str
        Names it is bound to.
    size : int
        In bytes; 0 also if ``where`` is not known.
    where : str
        ``inline``, ``memory``, ``disk`` or ``pending``; "" if it isn't known.
    about : About or None
        What its maker said of the value; None if an engine tells ``type`` and ``site`` instead.
    holders : tuple of int
        Clients with a handle to it.
    viewers : tuple of int or None
        Clients with a view of it; None if it isn't known.
    tasks : int
        How many have it as an argument.
    parents : int
        How many objects contain a ref to it.
    escapes : tuple of str
        The places where refs to it were pickled outside the store.
    load_seconds : float
        Duration of its first reading; 0 until there was one.
    pinned : str
        The place where a person asked for it to be kept; "" if nobody did.
    age : float or None
        Seconds since its put or submit.
    job : str
        The background cell that it is kept for, because nobody has collected that.
    segment, offset : int
        Where its bytes are; 0 if they are in no segment.
    in_use : bool
        True if a worker was sent it for a task, or caches it as a function.
    type : str or None
        From engines without ``about``: its type; None if they don't tell it.
    site : str
        From those engines, too: where in a person's code it was made.
    key : str
        From those engines, too: their own key for it.
    """

    id: int
    state: str
    names: tuple[str, ...]
    size: int
    where: str
    about: About | None
    holders: tuple[int, ...]
    viewers: tuple[int, ...] | None
    tasks: int
    parents: int
    escapes: tuple[str, ...] = ()
    load_seconds: float = 0.0
    pinned: str = ""
    age: float | None = 0.0
    job: str = ""
    segment: int = 0
    offset: int = 0
    in_use: bool = False
    type: str | None = ""
    site: str = ""
    key: str = ""

    def at(self, age: float | None) -> ObjectRecord:
        """Return a copy with another age."""
        return msgspec.structs.replace(self, age=age)

    @property
    def strength(self) -> str | None:
        """``resident``: can't move to disk; ``alive``: can; ``freed``: only views keep its
        bytes."""
        if self.state == "freed":
            return "freed"
        if self.viewers is None:
            return None
        return "resident" if self.viewers or self.pinned or self.in_use else "alive"


class SegmentRecord(Record):
    """One segment. ``owner``: the client that writes it; 0 if the server does, or its writer left.

    Sizes in bytes: ``granted`` is the memory that may have been touched, ``live`` that of the
    objects in it, which all lie below ``end``. ``disk``: it is a file.
    """

    id: int
    owner: int
    granted: int
    live: int
    end: int
    disk: bool = False


class WorkerRecord(Record):
    """One worker. ``tasks``: names of the tasks that were sent to it, the running one first.

    ``actor`` is the id of its actor, 0 in the pool. ``memory``: bytes of its process, if its engine
    says so; of the local engine's workers `MemoryRecord` has them. ``cpus``: the session's
    processors that its task or actor uses now, 0 while a task waits. ``host`` is the machine of its
    process, "" for this one.
    """

    number: int
    pid: int
    state: str
    tasks: tuple[str, ...]
    actor: int = 0
    memory: int | None = None
    cpus: float = 0.0
    host: str = ""


class ActorRecord(Record):
    """One actor that is still known. ``restarts``: how many are left, -1: any number; None: it
    isn't known.

    ``calls``: how many were submitted and aren't done, whether sent or not, without its creation.
    ``state`` is "" if it isn't known.
    """

    id: int
    cls: str
    names: tuple[str, ...]
    state: str
    worker: int
    calls: int
    restarts: int | None


class JobRecord(Record):
    """One background cell. ``state``: queued, running, done, failed or stopped.

    ``number`` counts the session's jobs; ``id`` is its first task. ``seconds``: how long it has
    run. ``lines`` and ``displays``: how many it has shown, at least (``shown_in_part``) or exactly.
    ``binds``: the variables for its results after the first; ``there``: those whose results are
    kept because no client has them; ``dropped``: such results were freed because memory was needed.
    ``kept``: all clients that saw its output left before its end, so output and results wait to be
    collected. Of its ``size`` tasks ``ended`` are over, of which ``failed`` failed or were stopped;
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
    failed: int = 0
    there: tuple[str, ...] = ()
    dropped: bool = False
    shown_in_part: bool = False

    @property
    def is_over(self) -> bool:
        """True if it is done, failed or stopped."""
        return self.state not in ("queued", "running")


class ClientRecord(Record):
    """One connected process: a driver, worker or admin. Records of pins refer to ``client``; ids of
    objects it made begin with ``prefix``, 0 if unknown. ``host``: see `WorkerRecord`."""

    client: int
    pid: int
    role: str
    label: str
    prefix: int = 0
    host: str = ""


class DeathRecord(Record):
    """A driver that ended unexpectedly ``age`` seconds ago, how its process ``ended``, and its last
    ``note``, ``note_age`` seconds before; ``why``: a clause, if the session killed it."""

    driver: ClientRecord
    ended: DriverExited
    note: CellNote
    note_age: float
    age: float = 0.0
    why: str = ""


class Sample(Record):
    """Fill levels of the store ``age`` seconds before the snapshot, and how many objects had been
    made, freed and moved to disk by then since the session began."""

    age: float
    live: int
    spilled: int | None
    puts: int
    frees: int
    spills: int | None


class MemoryRecord(Record):
    """Memory of the machine or, if that has less left, of the container. Bytes.

    ``processes``: private memory of each process of the session, by pid; ``container``: the figures
    are the container's.
    """

    total: int
    available: int
    processes: tuple[tuple[int, int], ...] = ()
    container: bool = False


class Snapshot(Record):
    """A whole session at one moment. Sizes in bytes.

    Parameters
    ----------
    session : str
        Its unique name.
    capacity : int or None
        What the store may hold.
    live : int or None
        Bytes of objects in memory.
    granted : int or None
        Bytes that arenas may have touched.
    queued : int or None
        Tasks that no worker has.
    running : int or None
        Workers that have tasks.
    objects : tuple of ObjectRecord
        All, in the order of creation; in an overview some of those that have a name.
    workers : tuple of WorkerRecord
        The pool's and the actors'.
    clients : tuple of ClientRecord
        Who is connected.
    actors : tuple of ActorRecord
        Actors that are still known.
    spilled : int or None
        Bytes of objects on disk.
    trouble : str
        The disk's last error.
    jobs : tuple of JobRecord
        Background cells.
    linger : float
        Seconds the session outlives its last driver.
    count : int
        How many objects there are, without Workbench's own.
    segments : tuple of SegmentRecord or None
        Where objects lie.
    history : tuple of Sample or None
        Samples of the last two minutes, the oldest first.
    memory : MemoryRecord or None
        The machine's. The asking process adds it, and ``taken``: the core knows neither clock nor
        machine.
    taken : float
        The time, in seconds since 1970.
    engine : str
        What runs it: ``local``, ``ray`` or ``dask``.
    available : int or None
        How much of the capacity is left, as other engines say it themselves.
    scope : str
        Which part of the session this covers, if not all of it.
    names : int
        How many names objects have, without actors' names.
    slots : int or None
        How many workers there can be, if they start on demand.
    deaths : tuple of DeathRecord
        The latest of each notebook and script that ended unexpectedly.
    """

    session: str
    capacity: int | None
    live: int | None
    granted: int | None
    queued: int | None
    running: int | None
    objects: tuple[ObjectRecord, ...]
    workers: tuple[WorkerRecord, ...]
    clients: tuple[ClientRecord, ...]
    actors: tuple[ActorRecord, ...] = ()
    spilled: int | None = 0
    trouble: str = ""
    jobs: tuple[JobRecord, ...] = ()
    linger: float = 0.0
    count: int = 0
    segments: tuple[SegmentRecord, ...] | None = ()
    history: tuple[Sample, ...] | None = ()
    memory: MemoryRecord | None = None
    taken: float = 0.0
    engine: str = "local"
    available: int | None = None
    scope: str = ""
    names: int = 0
    slots: int | None = None
    deaths: tuple[DeathRecord, ...] = ()

    @property
    def is_observed(self) -> bool:
        """True if it shows a Ray or Dask cluster, not a Workbench session on one."""
        return self.engine != "local" and INCARNATION not in self.session

    @property
    def warm_free(self) -> int | None:
        """Bytes of free memory kept warm for reuse."""
        return None if self.granted is None or self.live is None else self.granted - self.live

    @property
    def left(self) -> int | None:
        """Bytes of the capacity that are free for new objects, without the warm ones."""
        if self.capacity is None or self.granted is None:
            return self.available
        return max(self.capacity - max(self.granted, self.live or 0), 0)

    @property
    def inline(self) -> int | None:
        """Bytes of objects that are in no segment."""
        if self.live is None or self.segments is None:
            return None
        return self.live - sum(segment.live for segment in self.segments if not segment.disk)

    def replace(self, **fields: Any) -> Snapshot:
        """Return a copy with other fields: for code that follows the session's changes.

        Parameters
        ----------
        **fields
            Some of this class's parameters.

        Returns
        -------
        Snapshot
        """
        return msgspec.structs.replace(self, **fields)

    def to_json(self) -> str:
        """Return the snapshot as text, which `from_json` reads.

        Returns
        -------
        str
        """
        return msgspec.json.encode({"format": FORMAT, "snapshot": self}).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Snapshot:
        """Return the snapshot that `to_json` wrote.

        Parameters
        ----------
        text : str or bytes
            That.

        Returns
        -------
        Snapshot

        Raises
        ------
        ValueError
            If it is something else, or was written by a version whose snapshots differ.
        """
        try:
            saved = msgspec.json.decode(text, type=_Saved)
            if saved.format == FORMAT:
                return msgspec.json.decode(saved.snapshot, type=cls)
        except msgspec.DecodeError as error:
            raise ValueError(f"This is not a snapshot that `to_json` wrote: {error}.") from None
        raise ValueError(
            f"This snapshot has format {saved.format}, and this version of Workbench reads "
            f"{FORMAT}: read it with the version that wrote it."
        )


class Change(Record):
    """Changes of a session since the last such message; or one part of the whole session.

    ``session`` has all except objects, and only the new part of the ``history``. ``objects`` are
    new or changed; ``gone`` are ids. ``left``: how many objects are yet to come. Of a search: how
    many ``others`` match, and their bytes, ``others_size``.
    """

    session: Snapshot
    objects: tuple[ObjectRecord, ...]
    gone: tuple[int, ...] = ()
    left: int = 0
    others: int = 0
    others_size: int = 0


FORMAT = 1
"""Format of saved snapshots. Add one when an older version would misread them."""


class _Saved(msgspec.Struct):
    format: int
    snapshot: msgspec.Raw
