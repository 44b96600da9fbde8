"""Keeper: what of a session outlives its kernel: names, background cells, what these showed, who is
there. A pure record keeper: it runs in an actor, or in a scheduler, which tells it the time.

Natives are opaque to it; whoever runs it sees to it that what it keeps lives on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from workbench.core.events import PROGRESS, About, Output
from workbench.core.logs import Log
from workbench.core.snapshot import ClientRecord, JobRecord, WorkerRecord
from workbench.engines.cluster.backend import BEGAN, ENDED, Message, Native, TaskEnd
from workbench.engines.cluster.outputs import LOST

MOST_JOBS = 1000
"""Jobs that are remembered after their end."""

MOST_QUEUED = 100_000
"""Messages for one driver that doesn't fetch them: it has gone, or will not come back in time."""

NOBODY = 60.0
"""Seconds that who has started a session has to come."""

batch_of = msgspec.msgpack.Decoder(list[Message]).decode
end_of = msgspec.msgpack.Decoder(TaskEnd).decode
encode = msgspec.msgpack.Encoder().encode


class Named(NamedTuple):
    """An object that has a name."""

    id: int
    native: Native
    about: About | None


class Pinned(NamedTuple):
    """An object that a person wants kept, and where that was asked for."""

    id: int
    native: Native
    about: About | None
    site: str


class KeptObject(NamedTuple):
    """What keeps an object for everybody: its names, and the place where it was pinned, or ''."""

    names: tuple[str, ...]
    pinned: str
    about: About | None


class JobTask(NamedTuple):
    """One task of a job, as it is announced; ``natives`` are those of its end and its results, once
    it was submitted."""

    task: int
    group: int
    name: str
    binds: tuple[str, ...]
    size: int
    audience: int
    origin: int
    natives: tuple[Native, ...] = ()


class _Driver:
    """One driver: what waits for it."""

    def __init__(self, record: ClientRecord, process: str) -> None:
        self.record = record
        self.process = process
        self.queue: list[Message] = []


class _Job:
    """One background cell."""

    def __init__(self, number: int, first: JobTask, now: float) -> None:
        self.number = number
        self.first = first
        self.tasks: dict[int, JobTask] = {}
        self.ends: dict[int, TaskEnd] = {}
        self.audience: dict[int, int] = {}  # driver → its number for it
        self.log = Log()
        self.submitted = now
        self.began: float | None = None
        self.seconds = 0.0
        self.worker = 0
        self.kept = False
        self.stopped = False

    @property
    def is_over(self) -> bool:
        return len(self.ends) >= self.first.size

    def record(self, now: float) -> JobRecord:
        bad = [end.how for end in self.ends.values() if end.how != "done"]
        state = "queued" if self.began is None else "running"
        if self.is_over:
            state = "stopped" if "stopped" in bad else "failed" if bad else "done"
        seconds = self.seconds if self.is_over else now - (self.began or now)
        first = self.first
        return JobRecord(
            first.task, self.number, first.name, state, max(seconds, 0.0), self.log.lines,
            self.log.displays, first.binds, self.kept, len(self.ends), first.size, self.worker,
            len(bad), first.binds if self.kept and self.is_over else (),
        )  # fmt: skip


class KeptJob(NamedTuple):
    """A job for somebody who asked for it: what it showed, and each task's natives and end."""

    record: JobRecord
    outputs: tuple[Output, ...]
    tasks: tuple[JobTask, ...]
    ends: tuple[TaskEnd | None, ...]


class Keeper:
    """See the module. One thread at a time. ``clock`` is a monotonic one, in seconds.

    ``wake`` is told of the drivers for whom something waits now: whoever runs this hands it on.
    """

    def __init__(self, clock: Callable[[], float], wake: Callable[[int], object]) -> None:
        self._clock = clock
        self._wake = wake
        self._drivers: dict[int, _Driver] = {}
        self.linger = 0.0
        self._came = False
        self._used_at = clock()
        self._clients = itertools.count(1)
        self._numbers = itertools.count(1)
        self._workers: dict[str, WorkerRecord] = {}
        self.nodes: dict[int, str] = {}  # by worker
        self._names: dict[str, Named] = {}
        self._pinned: dict[int, Pinned] = {}
        self._serializers: list[tuple[int, bytes]] = []
        self._jobs: dict[int, _Job] = {}  # by id
        self._job_of: dict[int, int] = {}  # by task

    # -- who is there -------------------------------------------------------------------------

    def join(
        self, audience: int, pid: int, label: str, host: str = "", process: str = "",
        linger: float = 0.0,
    ) -> int:  # fmt: skip
        """A driver comes; returns how many others there are. ``process`` is what the system itself
        calls it: see `processes`; ``linger``: seconds the session shall outlive the last one."""
        self.linger = max(self.linger, linger)
        self._came = True
        others = len(self._drivers)
        record = ClientRecord(next(self._clients), pid, "driver", label, audience, host)
        self._drivers[audience] = _Driver(record, process)
        return others

    def processes(self) -> dict[int, str]:
        """By driver, what the system itself calls it; '' where that wasn't said."""
        return {id: driver.process for id, driver in self._drivers.items()}

    def leave(self, audience: int) -> int:
        """It goes; returns how many are left. What its jobs show is kept from now on."""
        if self._drivers.pop(audience, None) is not None:
            self._used_at = self._clock()
        for job in self._jobs.values():
            if job.audience.pop(audience, None) is not None and not job.audience:
                job.kept = True
        return len(self._drivers)

    def keep(self, linger: float | None = None) -> float:
        """By how many seconds the session outlives its last driver; from now on, if it is said."""
        self.linger = self.linger if linger is None else linger
        return self.linger

    def seconds_left(self) -> float | None:
        """How long the session lives on, if nobody comes; None: a driver is there, or a job."""
        if self._drivers or any(not job.is_over for job in self._jobs.values()):
            return None
        linger = self.linger if self._came else NOBODY
        return self._used_at + linger - self._clock()

    def drivers(self) -> tuple[ClientRecord, ...]:
        """Those that are there."""
        return tuple(driver.record for driver in self._drivers.values())

    def enroll(self, key: str, pid: int, node: str) -> int:
        """A worker's number, small and the same as long as it lives."""
        if key not in self._workers:
            self._workers[key] = WorkerRecord(len(self._workers) + 1, pid, "idle", ())
            self.nodes[self._workers[key].number] = node
        return self._workers[key].number

    def workers(self) -> tuple[WorkerRecord, ...]:
        """All that have come."""
        return tuple(self._workers.values())

    # -- the channel ---------------------------------------------------------------------------

    def push(self, batch: bytes) -> None:
        """What a worker sends."""
        for message in batch_of(batch):
            self._passed(message)

    def _passed(self, message: Message) -> None:
        job = self._jobs.get(message.job) if message.job else None
        if job is None:
            if not message.job:
                self._send(message.audience, message)
            return
        if message.kind == BEGAN:
            job.worker = message.worker
            job.began = self._clock() if job.began is None else job.began
        elif message.kind == ENDED:
            self._ended(job, end_of(message.data))
        elif message.kind != PROGRESS:
            job.log.add(Output(message.task, message.kind, message.data, 0, message.worker))
        for audience, origin in job.audience.items():
            self._send(audience, msgspec.structs.replace(message, origin=origin))

    def _send(self, audience: int, message: Message) -> None:
        driver = self._drivers.get(audience)
        if driver is not None and len(driver.queue) < MOST_QUEUED:
            driver.queue.append(message)
            self._wake(audience)

    def take(self, audience: int) -> bytes:
        """What waits for a driver; it is its from now on."""
        driver = self._drivers.get(audience)
        if driver is None or not driver.queue:
            return b""
        queue, driver.queue = driver.queue, []
        return encode(queue)

    # -- names and pins --------------------------------------------------------------------------

    def bind(self, name: str, id: int, native: Native, about: About | None) -> None:
        """Give an object a name, and take that from what had it."""
        self._names[name] = Named(id, native, about)

    def rebind(self, id: int, native: Native) -> None:
        """The object lies elsewhere now."""
        for name, named in self._names.items():
            if named.id == id:
                self._names[name] = named._replace(native=native)
        if id in self._pinned:
            self._pinned[id] = self._pinned[id]._replace(native=native)

    def unbind(self, name: str) -> None:
        """Take a name away."""
        self._names.pop(name, None)

    def dropped(self, ids: Sequence[int]) -> None:
        """These objects were freed: they have no names and pins any more."""
        for id in ids:
            self._pinned.pop(id, None)
        self._names = {name: each for name, each in self._names.items() if each.id not in ids}

    def find(self, name: str) -> Named | None:
        """What has the name."""
        return self._names.get(name)

    def named(self, beginning: str = "") -> dict[str, tuple[int, About | None]]:
        """All names that begin so."""
        return {
            name: (each.id, each.about)
            for name, each in self._names.items()
            if name.startswith(beginning)
        }

    def pin(self, id: int, native: Native, about: About | None, site: str) -> None:
        """A person wants an object kept."""
        self._pinned[id] = Pinned(id, native, about, site)

    def unpin(self, id: int) -> None:
        """No longer."""
        self._pinned.pop(id, None)

    def kept(self) -> dict[int, KeptObject]:
        """All that have names or are pinned. Names that begin with NUL are ours."""
        found = {each.id: KeptObject((), each.site, each.about) for each in self._pinned.values()}
        for name, named in self._names.items():
            known = found.get(named.id, KeptObject((), "", None))
            names = known.names if name.startswith("\0") else (*known.names, name)
            found[named.id] = KeptObject(names, known.pinned, known.about or named.about)
        return found

    def identify(self, ends: str) -> list[Named]:
        """Objects that are kept and whose id in hex begins or ends so."""
        hexes = {each.id: Named(*each[:3]) for each in self._pinned.values()}
        hexes |= {each.id: each for each in self._names.values()}
        return [e for id, e in hexes.items() if f"{id:016x}".startswith(ends)
                or f"{id:016x}".endswith(ends)]  # fmt: skip

    # -- serializers -----------------------------------------------------------------------------

    def register(self, number: int, payload: bytes) -> int:
        """A custom serializer, or (no payload) its end; returns how many came by now."""
        self._serializers.append((number, payload))
        return len(self._serializers)

    def serializers(self, since: int) -> list[tuple[int, bytes]]:
        """Those that came after so many."""
        return self._serializers[since:]

    # -- background cells ------------------------------------------------------------------------

    def job(self, task: JobTask) -> None:
        """One more task of a job: submitted now."""
        job = self._jobs.get(task.group or task.task)
        if job is None:
            job = _Job(next(self._numbers), task, self._clock())
            job.audience[task.audience] = task.origin
            self._jobs[task.group or task.task] = job
            self._forget_old()
        job.tasks[task.task] = task
        self._job_of[task.task] = job.first.task

    def made(self, task: int, natives: tuple[Native, ...]) -> None:
        """What the system knows its results by: they live as long as the job is remembered."""
        job = self._jobs.get(self._job_of.get(task, 0))
        if job is not None and task in job.tasks:
            job.tasks[task] = job.tasks[task]._replace(natives=natives)

    def unfinished(self, tasks: Iterable[int]) -> list[int]:
        """These tasks; for a job's first one, which stands for all, those that aren't over."""
        found: list[int] = []
        for task in tasks:
            job = self._jobs.get(task)
            found += [task] if job is None else [each for each in job.tasks if each not in job.ends]
        return list(dict.fromkeys(found))

    def ended(self, end: TaskEnd) -> None:
        """A job's task is over, and said nothing itself: its process has died, or it never ran."""
        job = self._jobs.get(self._job_of.get(end.task, 0))
        if job is not None and end.task not in job.ends:
            if end.how == "failed" and job.began is not None:
                lost = Message(end.task, "stderr", LOST.encode(), 0, 0, job.first.task, end.worker)
                self._passed(lost)
            self._passed(Message(end.task, ENDED, encode(end), 0, 0, job.first.task, end.worker))

    def _ended(self, job: _Job, end: TaskEnd) -> None:
        job.ends[end.task] = end
        if not self._drivers:
            self._used_at = self._clock()
        if job.is_over and job.began is not None:
            job.seconds = self._clock() - job.began

    def _forget_old(self) -> None:
        over = [id for id, job in self._jobs.items() if job.is_over and not job.audience]
        for id in over[: max(len(self._jobs) - MOST_JOBS, 0)]:
            for task in self._jobs.pop(id).tasks:
                self._job_of.pop(task, None)

    def jobs(self) -> tuple[JobRecord, ...]:
        """All that are remembered."""
        now = self._clock()
        return tuple(job.record(now) for job in self._jobs.values())

    def shown_by(self, id: int) -> tuple[Output, ...] | None:
        """What a job has shown; None: there is none."""
        job = self._jobs.get(id)
        return None if job is None else tuple(job.log)

    def collect(self, id: int, audience: int, origin: int, name: str) -> KeptJob | None:
        """What there is of a job, and from now on all it shows goes to that driver, too.

        With a ``name`` only what it assigned to that is wanted: its output stays where it is.
        """
        job = self._jobs.get(id)
        if job is None:
            return None
        record = job.record(self._clock())
        outputs: Iterable[Output] = ()
        if not name:
            job.audience[audience] = origin
            job.kept = False
            outputs = job.log
        tasks = tuple(job.tasks.values())
        ends = tuple(job.ends.get(each.task) for each in tasks)
        return KeptJob(record, tuple(outputs), tasks, ends)

    def ask(self, question: str, *args: Any) -> Any:
        """Any of these methods, by name: see `Backend.ask`."""
        return getattr(self, question)(*args)
