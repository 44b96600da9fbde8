"""Backend: what a cluster's own system does for a session, as `engine` asks it; and the records
that pass between them. No system is imported here.

Every method may be called from any thread, in a driver and in a task. A *native* is that system's
own reference to an object (or to an actor): opaque to us, kept as long as we hold an object, and
sent only inside `StoredValue.natives`, ``deps`` and ``inside``, where the system sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from workbench.core.events import About, TaskSpec
from workbench.core.snapshot import WorkerRecord
from workbench.engine.records import Abilities

Native = Any

BEGAN, ENDED = "began", "ended"
"""Kinds of `Message` of a job's tasks: its data is empty, or a `TaskEnd`, for the keeper."""


class StoredValue(NamedTuple):
    """A value as the system moves it.

    ``header`` is `serialization.codec`'s: of an inline object (then the rest is empty) or of one
    with an extent, whose parts lie in ``buffers``: the value's own (contiguous, `PickleBuffer`) on
    the way out, read-only memoryviews where it is read. The last is the pickle, unless the
    header is a plain array's. ``inside`` are the ids of refs in it, ``natives`` what these are
    here. ``failed``: reading it raises; its header is as `core.events.Value`'s.
    """

    header: bytes
    buffers: tuple[Any, ...] = ()
    inside: tuple[int, ...] = ()
    natives: tuple[Native, ...] = ()
    about: About | None = None
    failed: bool = False

    @property
    def nbytes(self) -> int:
        return len(self.header) + sum(memoryview(part).nbytes for part in self.buffers)


class TaskEnd(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How a task ended: the first thing that a submitted task returns, small and soon there.

    ``how`` is ``done``, ``failed`` or ``stopped``; of each result ``failed`` says whether reading
    it raises, ``abouts`` what it is. So many messages with what it has ``shown`` were sent on the
    channel: the backend tells of the end behind these.
    """

    task: int
    how: str
    shown: int = 0
    failed: tuple[bool, ...] = ()
    abouts: tuple[About | None, ...] = ()
    worker: int = 0


class Message(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a worker sends to drivers: an `Output` of a task, or a job's task's `BEGAN` or `ENDED`.

    It goes to the driver whose prefix is ``audience``; of a task of a ``job`` (not 0) to the
    keeper, which passes it to whoever follows the job. ``worker`` is its number.
    """

    task: int
    kind: str
    data: bytes
    origin: int
    audience: int
    job: int = 0
    worker: int = 0


Sink = Callable[[Sequence[Message]], None]


MOST_CODE = 8 << 10
"""Bytes of a function that travel with each call. A larger one is an object of its own."""


class Head(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One task: all that it takes along besides natives, as one bytes argument, with which systems
    are quickest. Its id is that of its first result, chosen by whoever submits it.

    ``audience`` is the prefix of the driver that sees what it shows, with the number ``origin``;
    ``job`` the id of the background cell it belongs to, 0 if it is none's. ``function`` is the id
    of what it calls, 0 of a method; ``code`` that, if it is small. ``args`` are its pickled
    arguments without ``deps``: the objects whose values come along, which are ``args`` if these are
    large, the function if it is, and then arguments. ``inside`` are refs in all these. ``actor`` is
    the one whose ``method`` it calls, or that it makes. ``parent``: the task that submitted it.
    ``called``: the name of the actor that it makes. ``retries``: so often its host tries again
    after an exception that its spec names.
    """

    task: int
    name: str
    session: str
    audience: int
    origin: int = 0
    function: int = 0
    code: bytes = b""
    args: bytes = b""
    deps: tuple[int, ...] = ()
    inside: tuple[int, ...] = ()
    returns: int = 1
    actor: int = 0
    method: str = ""
    spec: TaskSpec | None = None
    job: int = 0
    parent: int = 0
    retries: int = 0
    called: str = ""

    @property
    def is_own(self) -> bool:
        """True if it is one of a background cell's own tasks, and none that these submit."""
        return self.spec is not None and bool(self.spec.job)

    @property
    def ids(self) -> range:
        return range(self.task, self.task + self.returns)

    @property
    def needs(self) -> tuple[int, ...]:
        """The objects that came along."""
        return (*self.deps, *self.inside)


encode = msgspec.msgpack.Encoder().encode
decode_head = msgspec.msgpack.Decoder(Head).decode


class Launch(NamedTuple):
    """A call as the system is asked for it: `hosting` runs the ``head`` somewhere, with the values
    of ``deps`` and the natives ``inside`` as they are.

    ``actor`` is whose call it is. ``cpus`` in processors, ``memory`` in bytes. ``keep``: it and its
    results, or the actor that it makes, outlive this process; such an actor is made again
    ``restarts`` times. If its process dies, the system tries a task again as often as the head
    says; the host does after exceptions.
    """

    head: Head
    deps: Sequence[Native]
    inside: Sequence[Native]
    actor: Native = None
    cpus: float = 1.0
    memory: int = 0
    keep: bool = False
    restarts: int = 0


class ClusterParts(NamedTuple):
    """What a system tells of itself for a snapshot. None: not known here."""

    workers: tuple[WorkerRecord, ...] = ()
    capacity: int | None = None
    available: int | None = None
    queued: int | None = None
    running: int | None = None


class Backend(Protocol):
    engine: str
    """``ray`` or ``dask``."""
    can: Abilities
    session: str
    """The session's unique name, the same in all its processes."""
    joined: bool
    """True if the session was there before this process came."""
    process: str
    """What the system calls this process; '' if it says by itself who has gone."""
    address: str
    """Where the cluster is."""
    blocks: bool
    """True if who waits must do so with `wait`: this is a task, whose slot that lends."""

    @property
    def workers(self) -> int:
        """Processors that tasks may have, as far as known."""

    # -- objects

    def put(self, value: StoredValue, keep: bool) -> Native:
        """Store a value; ``keep``: it outlives this process."""

    def get(self, natives: Sequence[Native], timeout: float | None) -> list[StoredValue]:
        """What they stand for, in order. TimeoutError; or our error for the first that is lost: a
        `WorkbenchError` (`WorkerCrashedError`, `TaskCancelledError`, `ObjectLostError` …)."""

    def wait(self, natives: Sequence[Native], enough: int, timeout: float | None) -> object:
        """Until so many are there, or time is up. In a task others run meanwhile."""

    def on_ready(self, native: Native, callback: Callable[[BaseException | None], None]) -> None:
        """Have it called once the object is there, or never will be; in any thread, soon over."""

    def on_done(self, native: Native, callback: Callable[[TaskEnd | BaseException], None]) -> None:
        """The same for a task's first native, behind what the task has shown: how it ended, or
        the `WorkbenchError` instead."""

    def outlive(self, natives: Sequence[Native]) -> list[Native]:
        """Natives of the same objects, which don't end with this process."""

    def free(self, ids: Sequence[int], natives: Sequence[Native]) -> None:
        """Drop these objects for everybody: here nobody has their natives any more but this call,
        and the keeper neither. Where the system can't, have each process that may hold them let go
        (`freeing`)."""

    # -- tasks

    def submit(self, launch: Launch) -> list[Native]:
        """Have it run: natives of its `TaskEnd`, then of each result."""

    def forget(self, task: int) -> None:
        """One of ours is over: nobody stops it any more."""

    def has_begun(self, task: int) -> bool:
        """True if a worker has it, or it is over."""

    def stop(self, tasks: Sequence[int], force: bool) -> None:
        """Stop these, wherever they are: queued, interrupted if they run, killed by ``force``."""

    # -- actors

    def create(self, launch: Launch, described: Native) -> tuple[Native, Native]:
        """(the actor, its creation's `TaskEnd`). ValueError if another has the name.

        ``described`` is what a handle of it stands for: see `find_actor`.
        """

    def find_actor(self, name: str) -> tuple[int, Native] | None:
        """The id of the actor of that full name, and (the actor, its description)."""

    def actor_names(self) -> list[str]:
        """All full names of those that live."""

    def kill_actor(self, actor: Native, restart: bool) -> None:
        """End its process now."""

    # -- the keeper and the channel

    def ask(self, question: str, *args: Any) -> Any:
        """Call a method of the session's `Keeper`, and wait for what it returns. It has heard by
        then what this process told it before."""

    def tell(self, question: str, *args: Any) -> None:
        """The same, and go on at once. In order with each other."""

    def listen(self, audience: int, sink: Sink) -> None:
        """From now on hand over what comes on the channel for that driver, in a thread of ours."""

    def parts(self) -> ClusterParts:
        """What the system tells of itself, soon."""

    @property
    def end_reason(self) -> str | None:
        """Why the session is over for this process; None while it isn't."""

    def close(self, goodbye: bool) -> None:
        """Leave. With ``goodbye``, if no other driver is there, nothing stays of the session."""
