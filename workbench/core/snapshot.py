"""The frozen picture of a session that everything which shows it reads.

No behaviour but sums, and the way to a file and back. None is a fact that the session's engine
can't tell; the local one tells all of them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from workbench.core.events import ID_BITS, About

A_RESULT = "a task's result"
"""The type of an object of which nobody has said it."""

INCARNATION = "~"
"""In a session's unique name: between its name, and what tells it from others that had that."""

ACTOR_PREFIX = "actor:"
"""Before an actor's name, among the names of objects."""

HISTORY_SECONDS = 120.0
"""Of a session's past that are kept, sent and drawn."""


def result_of(state: str) -> str:
    """The type by which lists call a task's result that has not been described."""
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
        That it is bound to.
    size : int
        In bytes; 0 also if ``where`` is not known.
    where : str
        ``inline``, ``memory``, ``disk`` or ``pending``; "" if it isn't known.
    about : About or None
        What its maker said of the value; None if other engines tell ``type`` and ``site`` instead.
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
        What its first reading took; 0 until there was one.
    pinned : str
        The place where a person asked for it to be kept; "" if nobody did.
    age : float or None
        Seconds since its put or submit.
    job : str
        The background cell that made it, or will, and that nobody has collected.
    segment, offset : int
        Where its bytes are; 0 if they are in no segment.
    in_use : bool
        Whether a worker was sent it for a task, or keeps it as a function.
    type : str or None
        From engines without ``about``: its type; None if they don't tell it.
    site : str
        From those, too: where in a person's code it was made.
    key : str
        From those, too: what they know it by.
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
        """The same when it is so old."""
        return msgspec.structs.replace(self, age=age)

    @property
    def strength(self) -> str | None:
        """``resident``: it can't move; ``alive``; or ``freed``: only views keep its bytes."""
        if self.state == "freed":
            return "freed"
        if self.viewers is None:
            return None
        return "resident" if self.viewers or self.pinned or self.in_use else "alive"


class SegmentRecord(Record):
    """One segment. ``owner`` is the client that writes it, 0 if none does: then it is the
    server's, or its writer has left.

    Sizes in bytes: ``granted`` is the memory it may have touched, ``live`` that of the objects in
    it, all of which lie below ``end``. ``disk``: it is a file.
    """

    id: int
    owner: int
    granted: int
    live: int
    end: int
    disk: bool = False

    @property
    def is_servers(self) -> bool:
        """Whether the server made it, for what it moves: its id has no client's prefix."""
        return not self.id >> ID_BITS


class WorkerRecord(Record):
    """One worker. ``tasks``: names of what was sent to it, the running one first.

    ``actor`` is the id of the one it belongs to, 0 in the pool. ``memory`` is what its process has,
    if its engine says so: of the local one's `MemoryRecord` has it. Bytes. ``cpus`` are the
    processors that its task or actor has of the session's now: none while a task waits. ``host`` is
    the machine that it is on, of which ``pid`` is; "" is this one.
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
    """One actor that is not forgotten. ``restarts``: how many are left, -1: any number; None: it
    isn't known.

    ``calls`` were submitted and aren't done, whether they were sent or not; that it is being made
    is none of them. ``state`` is "" if it isn't known.
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

    ``number`` counts the session's; ``id`` is its task. ``seconds``: how long it has run. So many
    ``lines`` and ``displays`` it has shown, if ``shown_in_part`` at least. ``binds`` are the
    variables that its results but the first are meant for, ``there`` those of which results are
    kept for it, because nobody has them; ``dropped``: such results were let go of when memory was
    needed. ``kept``: whoever saw its output went before its end, so that and its results wait for
    somebody to collect them. Of its ``size`` tasks so many have ``ended``, ``failed`` of them
    otherwise than done; ``worker`` is the last that was sent one, 0 if none was.
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
        """Whether it has ended, one way or another."""
        return self.state not in ("queued", "running")


class ClientRecord(Record):
    """One connected process: a driver, worker or admin. Pins' holders refer to ``client``; the ids
    of what it made begin with ``prefix``, 0 if that isn't known. ``host``: see `WorkerRecord`."""

    client: int
    pid: int
    role: str
    label: str
    prefix: int = 0
    host: str = ""


class Sample(Record):
    """How full the store was at a time (seconds before the snapshot: ``age``), and how much had
    happened by then since the session began: objects that came, went, and moved to disk."""

    age: float
    live: int
    spilled: int | None
    puts: int
    frees: int
    spills: int | None


class MemoryRecord(Record):
    """Memory of the machine or, if that has less, of the container. Bytes.

    ``processes``: what each process of the session has to itself, by pid; ``container``: it is the
    container that has less.
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
        What objects have in memory.
    granted : int or None
        What arenas may have touched.
    queued : int or None
        Tasks that no worker has.
    running : int or None
        Workers that have one.
    objects : tuple of ObjectRecord
        All, in the order of their making; in an overview some of those that have a name.
    workers : tuple of WorkerRecord
        The pool's and the actors'.
    clients : tuple of ClientRecord
        Who is connected.
    actors : tuple of ActorRecord
        Those that aren't forgotten.
    spilled : int or None
        What objects have on disk.
    trouble : str
        Why the disk failed last.
    jobs : tuple of JobRecord
        Background cells.
    linger : float
        Seconds the session outlives its last driver.
    count : int
        How many objects there are, besides Workbench's own.
    segments : tuple of SegmentRecord or None
        Where objects lie.
    history : tuple of Sample or None
        Of the last two minutes, the oldest first.
    memory : MemoryRecord or None
        The machine's. Added by who asked, as is ``taken``: the session has neither clock nor
        machine.
    taken : float
        The time, in seconds since 1970.
    engine : str
        What runs it: ``local``, ``ray`` or ``dask``.
    available : int or None
        How much of the capacity is left, as other engines say it themselves.
    scope : str
        What of the session this tells of, if it isn't all of it.
    names : int
        How many names objects have, besides the actors'.
    slots : int or None
        How many workers there can be, where they start as they are needed.
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

    @property
    def is_observed(self) -> bool:
        """Whether it is another system's, and no session of ours on that."""
        return self.engine != "local" and INCARNATION not in self.session

    @property
    def warm_free(self) -> int | None:
        """Memory kept warm for reuse."""
        return None if self.granted is None or self.live is None else self.granted - self.live

    @property
    def left(self) -> int | None:
        """How much of the capacity is for new objects, besides what is warm."""
        if self.capacity is None or self.granted is None:
            return self.available
        return max(self.capacity - max(self.granted, self.live or 0), 0)

    @property
    def inline(self) -> int | None:
        """What the objects have that lie in no segment."""
        if self.live is None or self.segments is None:
            return None
        return self.live - sum(segment.live for segment in self.segments if not segment.disk)

    def replace(self, **fields: Any) -> Snapshot:
        """The same with other fields: for who follows the session's changes, and adds to them.

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
        """The snapshot as text, to be kept: `from_json` reads it.

        Returns
        -------
        str
        """
        return msgspec.json.encode({"format": FORMAT, "snapshot": self}).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Snapshot:
        """What `to_json` wrote.

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
    """What has changed in a session since the last one told; or a part of all there is.

    ``session`` is all but the objects, and of the ``history`` what is new. ``objects`` are new, or
    not as they were; ``gone`` aren't there any more. So many are ``left`` to be told next. Of a
    search: so many ``others`` match, of ``others_size`` bytes.
    """

    session: Snapshot
    objects: tuple[ObjectRecord, ...]
    gone: tuple[int, ...] = ()
    left: int = 0
    others: int = 0
    others_size: int = 0


FORMAT = 1
"""Of saved snapshots. One more whenever an older version would misread them."""


class _Saved(msgspec.Struct):
    format: int
    snapshot: msgspec.Raw
