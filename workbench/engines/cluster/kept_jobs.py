"""Background cells of a session on a cluster: their tasks, and what they showed. Pure.

Part of the `keeper`, which brings what workers say of them and sends on what comes of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from workbench.core.events import PROGRESS, Output
from workbench.core.logs import Log
from workbench.core.snapshot import JobRecord
from workbench.engines.cluster.backend import BEGAN, ENDED, Message, Native, TaskEnd

MOST_JOBS = 1000
"""Jobs that are remembered after their end."""

LOST = "Its process has ended: some of what this task showed may not have arrived.\n"

end_of = msgspec.msgpack.Decoder(TaskEnd).decode
_encode = msgspec.msgpack.Encoder().encode


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

    def without(self, ids: Sequence[int]) -> JobTask:
        """The same without those of its results."""
        gone = {id - self.task + 1 for id in ids}
        natives = (None if n and n in gone else each for n, each in enumerate(self.natives))
        return self._replace(natives=tuple(natives))


class KeptJob(NamedTuple):
    """A job for somebody who asked for it: what it showed, and each task's natives and end."""

    record: JobRecord
    outputs: tuple[Output, ...]
    tasks: tuple[JobTask, ...]
    ends: tuple[TaskEnd | None, ...]


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
            shown_in_part=self.log.is_part,
        )  # fmt: skip


class KeptJobs:
    """See the module. ``send`` takes a driver, and what is for it; ``clock``: in seconds.

    ``ended_at`` is when a task of a job ended last; None: none has.
    """

    def __init__(self, clock: Callable[[], float], send: Callable[[int, Message], object]) -> None:
        self._clock = clock
        self._send = send
        self._numbers = itertools.count(1)
        self._jobs: dict[int, _Job] = {}  # by id
        self._job_of: dict[int, int] = {}  # by task
        self.ended_at: float | None = None

    @property
    def all_over(self) -> bool:
        """Whether none runs or waits."""
        return all(job.is_over for job in self._jobs.values())

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

    def dropped(self, ids: Sequence[int]) -> None:
        """These were freed: results among them are gone."""
        for job in self._jobs.values():
            for task in list(job.tasks.values()):
                if any(0 <= id - task.task < len(task.natives) - 1 for id in ids):
                    job.tasks[task.task] = task.without(ids)

    def came(self, message: Message) -> None:
        """What a worker says of a job's task. Of a job that is forgotten nobody wants it."""
        job = self._jobs.get(message.job)
        if job is None:
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

    def unfinished(self, tasks: Iterable[int]) -> list[int]:
        """These tasks; for a job's first one, which stands for all, those that aren't over."""
        found: list[int] = []
        for task in tasks:
            job = self._jobs.get(task)
            found += [task] if job is None else [each for each in job.tasks if each not in job.ends]
        return list(dict.fromkeys(found))

    def ended(self, end: TaskEnd, is_whole: bool = False) -> None:
        """A job's task is over, and said nothing itself: its process has died, or it never ran.

        ``is_whole``: all that it showed has come.
        """
        job = self._jobs.get(self._job_of.get(end.task, 0))
        if job is not None and end.task not in job.ends:
            first = job.first.task
            if end.how == "failed" and job.began is not None and not is_whole:
                self.came(Message(end.task, "stderr", LOST.encode(), 0, 0, first, end.worker))
            self.came(Message(end.task, ENDED, _encode(end), 0, 0, first, end.worker))

    def _ended(self, job: _Job, end: TaskEnd) -> None:
        job.ends[end.task] = end
        self.ended_at = self._clock()
        if job.is_over and job.began is not None:
            job.seconds = self._clock() - job.began

    def _forget_old(self) -> None:
        over = [id for id, job in self._jobs.items() if job.is_over and not job.audience]
        for id in over[: max(len(self._jobs) - MOST_JOBS, 0)]:
            for task in self._jobs.pop(id).tasks:
                self._job_of.pop(task, None)

    def left(self, audience: int) -> None:
        """That driver has gone. What its jobs show is kept from now on."""
        for job in self._jobs.values():
            if job.audience.pop(audience, None) is not None and not job.audience:
                job.kept = True

    def jobs(self) -> tuple[JobRecord, ...]:
        """All that are remembered."""
        now = self._clock()
        return tuple(job.record(now) for job in self._jobs.values())

    def results(self) -> dict[int, tuple[str, bool]]:
        """By object that is kept as the result of a job: its name, and whether nobody has it."""
        return {
            task.task + number: (job.first.name, job.kept)
            for job in self._jobs.values()
            for task in job.tasks.values()
            for number, native in enumerate(task.natives[1:])
            if native is not None
        }

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
