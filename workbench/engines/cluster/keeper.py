"""Keeper: what of a session outlives its kernel: names, background cells, what these showed, who is
there. A pure record keeper: it runs in an actor, or in a scheduler, which tells it the time.

Natives are opaque to it; whoever runs it sees to it that what it keeps lives on. Background
cells are in `kept_jobs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from workbench.core.events import About
from workbench.core.snapshot import ClientRecord, JobRecord, WorkerRecord
from workbench.engines.cluster.backend import Message, Native, encode
from workbench.engines.cluster.kept_jobs import KeptJobs

MOST_QUEUED = 100_000
"""Messages for one driver that doesn't fetch them: it has gone, or will not come back in time."""

NOBODY = 60.0
"""Seconds that who has started a session has to come."""

MOST_STOPS = 100
"""Orders to stop tasks that are remembered for processes that come later."""

SILENT = 60.0
"""Seconds after which a worker that runs something and doesn't listen isn't told of: its code holds
the interpreter, or it was killed."""

FREES = "frees"
"""Kind of `Message` that tells which objects were freed: their ids."""

STOPS = "stops"
"""Kind of `Message` that tells a worker which tasks to stop, and whether by force."""

ids_of = msgspec.msgpack.Decoder(list[int]).decode
stops_of = msgspec.msgpack.Decoder(tuple[list[int], bool]).decode
batch_of = msgspec.msgpack.Decoder(list[Message]).decode


class KeptObject(NamedTuple):
    """What keeps an object for everybody: its names, the place where it was pinned, or '', and
    those where refs to it were pickled."""

    id: int
    native: Native = None
    about: About | None = None
    names: tuple[str, ...] = ()
    pinned: str = ""
    escapes: tuple[str, ...] = ()

    @property
    def is_kept(self) -> bool:
        return bool(self.names or self.pinned or self.escapes)


class KeptNames:
    """Names and pins: what keeps objects for everybody."""

    def __init__(self) -> None:
        self._objects: dict[int, KeptObject] = {}
        self._names: dict[str, int] = {}

    def _change(self, kept: KeptObject) -> None:
        if kept.is_kept:
            self._objects[kept.id] = kept
        else:
            self._objects.pop(kept.id, None)

    def _known(self, id: int, native: Native, about: About | None) -> KeptObject:
        known = self._objects.get(id, KeptObject(id))
        return known._replace(native=native, about=known.about or about)

    def bind(self, name: str, id: int, native: Native, about: About | None) -> None:
        """Give an object a name, and take that from what had it."""
        self.unbind(name)
        known = self._known(id, native, about)
        self._names[name] = id
        self._change(known._replace(names=(*known.names, name)))

    def unbind(self, name: str) -> None:
        if (found := self.find(name)) is not None:
            del self._names[name]
            self._change(found._replace(names=tuple(n for n in found.names if n != name)))

    def pin(self, id: int, native: Native, about: About | None, site: str) -> None:
        """A person wants an object kept: asked for there."""
        self._change(self._known(id, native, about)._replace(pinned=site))

    def unpin(self, id: int) -> None:
        self._change(self._objects.get(id, KeptObject(id))._replace(pinned=""))

    def escape(self, id: int, native: Native, site: str) -> None:
        """A ref was pickled there: whoever makes it again finds the object by its id."""
        known = self._known(id, native, None)
        self._change(known._replace(escapes=(*known.escapes, site)))

    def dropped(self, ids: Sequence[int]) -> None:
        """These objects were freed: nothing keeps them any more."""
        for id in ids:
            if (found := self._objects.pop(id, None)) is not None:
                for name in found.names:
                    del self._names[name]

    def find(self, name: str) -> KeptObject | None:
        return self._objects.get(self._names.get(name, 0))

    def named(self, beginning: str = "") -> list[str]:
        return [name for name in self._names if name.startswith(beginning)]

    def kept(self) -> dict[int, KeptObject]:
        """All of them, to be told of: without their natives."""
        return {id: each._replace(native=None) for id, each in self._objects.items()}

    def identify(self, ends: str) -> list[KeptObject]:
        """Objects that are kept and whose id in hex begins or ends so."""
        hexes = {f"{id:016x}": each for id, each in self._objects.items()}
        return [e for h, e in hexes.items() if h.startswith(ends) or h.endswith(ends)]


@dataclass(slots=True, eq=False)
class _Listener:
    """A driver, or a process of the cluster's that runs tasks: what waits for it; when it listened
    last, and which tasks it ran then."""

    seen: float
    process: str = ""
    works: bool = True
    tasks: Sequence[int] = ()
    queue: list[Message] = field(default_factory=list)


class KeptSession(NamedTuple):
    """What a keeper tells who looks at the session. ``results``: see `KeptJobs.results`."""

    objects: dict[int, KeptObject]
    results: dict[int, tuple[str, bool]]
    drivers: tuple[ClientRecord, ...]
    jobs: tuple[JobRecord, ...]
    linger: float

    def of(self, id: int) -> KeptObject:
        return self.objects.get(id, KeptObject(id))


class Keeper:
    """See the module. One thread at a time. ``clock`` is a monotonic one, in seconds.

    ``wake`` is told of the listeners for whom something waits now: whoever runs this hands it on.
    """

    def __init__(self, clock: Callable[[], float], wake: Callable[[int], object]) -> None:
        self._clock = clock
        self.wake = wake
        self._drivers: dict[int, ClientRecord] = {}
        self._workers: dict[int, WorkerRecord] = {}
        self._listeners: dict[int, _Listener] = {}
        self._stops: list[Message] = []
        self.linger = 0.0
        self._came = False
        self._used_at = clock()
        names, jobs = KeptNames(), KeptJobs(clock, self._send)
        self._names, self._jobs = names, jobs
        self.parts = names, jobs
        self.ended, self.unfinished = jobs.ended, jobs.unfinished

    def ask(self, question: str, *args: Any) -> Any:
        """Any method of it or of its parts, by name: see `Backend.ask`."""
        found = next(part for part in (self, *self.parts) if hasattr(part, question))
        return getattr(found, question)(*args)

    def dropped(self, ids: Sequence[int]) -> None:
        """These objects were freed: nothing here keeps them any more."""
        for part in self.parts:
            part.dropped(ids)

    # -- who is there -------------------------------------------------------------------------

    def join(self, driver: ClientRecord, process: str = "", linger: float = 0.0) -> None:
        """A driver comes. ``process`` is what the system itself calls it: see `processes`;
        ``linger``: seconds the session shall outlive the last one."""
        self.linger = max(self.linger, linger)
        self._came = True
        self._drivers[driver.client] = driver
        self._listeners[driver.client] = _Listener(self._clock(), process)

    def processes(self) -> dict[int, str]:
        """By driver, what the system itself calls it; '' where that wasn't said."""
        return {id: self._listeners[id].process for id in self._drivers}

    def leave(self, audience: int) -> int:
        """It goes; returns how many are left. What its jobs show is kept from now on."""
        if self._drivers.pop(audience, None) is not None:
            self._used_at = self._clock()
            del self._listeners[audience]
        self._jobs.left(audience)
        return len(self._drivers)

    def keep(self, linger: float) -> None:
        """The session outlives its last driver by so many seconds from now on."""
        self.linger = linger

    def seconds_left(self) -> float | None:
        """How long the session lives on, if nobody comes; None: a driver is there, or a job."""
        if self._drivers or not self._jobs.all_over:
            return None
        linger = self.linger if self._came else NOBODY
        return max(self._used_at, self._jobs.ended_at or 0.0) + linger - self._clock()

    def drivers(self) -> tuple[ClientRecord, ...]:
        return tuple(self._drivers.values())

    def seen(self) -> KeptSession:
        names, jobs = self._names, self._jobs
        return KeptSession(names.kept(), jobs.results(), self.drivers(), jobs.jobs(), self.linger)

    def enroll(self, prefix: int, pid: int, host: str, node: str = "") -> int:
        """A process of the cluster's comes, on that ``host``, to run tasks. Returns its number.
        ``node`` is what the system calls its place."""
        number = len(self._workers) + 1
        self._workers[prefix] = WorkerRecord(number, pid, "idle", (), host=host)
        self._listeners[prefix] = _Listener(self._clock(), node)
        self._listeners[prefix].queue += self._stops  # of tasks that may be on their way to it
        return number

    def rests(self, prefix: int) -> None:
        """It runs nothing now, and doesn't listen."""
        self._listeners[prefix].works = False

    def busy(self) -> dict[int, tuple[str, int]]:
        """The processes that run tasks, as far as they have listened lately, by their prefix: what
        the system calls their place, and their pid."""
        since = self._clock() - SILENT
        return {
            id: (listener.process, record.pid)
            for id, record in self._workers.items()
            if (listener := self._listeners[id]).works and listener.seen >= since
        }

    def running(self, since: float) -> dict[int, Sequence[int]]:
        """By prefix of those that have listened since then, the tasks that they run."""
        return {id: one.tasks for id, one in self._listeners.items() if one.seen >= since}

    def workers(self) -> tuple[WorkerRecord, ...]:
        """Those that have run something lately."""
        busy, since = self.busy(), self._clock() - SILENT
        return tuple(
            replace(record, state="busy" if id in busy else "idle")
            for id, record in self._workers.items()
            if self._listeners[id].seen >= since
        )

    def listens(self, audience: int) -> bool:
        """True if it has come, and hasn't left."""
        return audience in self._listeners

    def stop(self, tasks: Sequence[int], force: bool) -> None:
        """Have these stopped, wherever they run or will."""
        stop = Message(0, STOPS, encode((list(tasks), force)), 0, 0)
        self._stops = [*self._stops, stop][-MOST_STOPS:]
        for worker in self._workers:
            self._send(worker, stop)

    def free(self, ids: Sequence[int], freer: int) -> None:
        """Have all processes let go of these but who says so."""
        for each in self._listeners.keys() - {freer}:
            self._send(each, Message(0, FREES, encode(list(ids)), 0, each))

    # -- the channel ---------------------------------------------------------------------------

    def push(self, batch: bytes) -> None:
        for message in batch_of(batch):
            if message.job:
                self._jobs.came(message)
            else:
                self._send(message.audience, message)

    def _send(self, audience: int, message: Message) -> None:
        listener = self._listeners.get(audience)
        if listener is not None and len(listener.queue) < MOST_QUEUED:
            listener.queue.append(message)
            self.wake(audience)

    def listens_now(self, audience: int, tasks: Sequence[int]) -> None:
        if (listener := self._listeners.get(audience)) is not None:
            listener.seen, listener.works, listener.tasks = self._clock(), True, tasks

    def take(self, audience: int) -> bytes:
        """What waits for who listens; it is its from now on."""
        listener = self._listeners.get(audience)
        if listener is None:
            return b""
        queue, listener.queue = listener.queue, []
        return encode(queue) if queue else b""
