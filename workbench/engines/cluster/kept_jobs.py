"""Background cells of a session on a cluster: their tasks, and what they showed. Pure.

Part of the `keeper`, which brings what workers say of them and sends on what comes of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from workbench.core.events import PROGRESS, USUAL, Output
from workbench.core.snapshot import JobRecord
from workbench.core.tasks import TaskGroup
from workbench.engines.cluster.backend import BEGAN, ENDED, Head, Message, Native, TaskEnd, encode

MOST_JOBS = 1000
"""Jobs that are remembered after their end."""

LOST = "Its process has ended: some of what this task showed may not have arrived.\n"

end_of = msgspec.msgpack.Decoder(TaskEnd).decode


class KeptJob(NamedTuple):
    """A job for somebody who asked for it: each task's natives and end."""

    record: JobRecord
    natives: dict[int, tuple[Native, ...]]
    ends: dict[int, TaskEnd]


@dataclass(slots=True, eq=False)
class ClusterJob(TaskGroup):
    """One background cell. By task, its natives (of its end and its results, none until it is
    submitted; None for one that was freed), and how it ended."""

    natives: dict[int, tuple[Native, ...]] = field(default_factory=dict)
    task_ends: dict[int, TaskEnd] = field(default_factory=dict)

    @property
    def runs(self) -> bool:
        return self.began is not None

    def told(self, now: float) -> JobRecord:
        return self.record(now, self.binds if self.unseen and self.is_over else ())


class KeptJobs:
    """See the module. ``send`` takes a driver, and what is for it; ``clock``: in seconds.

    ``ended_at`` is when a task of a job ended last; None: none has.
    """

    def __init__(self, clock: Callable[[], float], send: Callable[[int, Message], object]) -> None:
        self._clock = clock
        self._send = send
        self._numbers = itertools.count(1)
        self._jobs: dict[int, ClusterJob] = {}  # by id
        self.ended_at: float | None = None

    @property
    def all_over(self) -> bool:
        return all(job.is_over for job in self._jobs.values())

    def job(self, head: Head) -> None:
        """One more task of a job: submitted now."""
        spec, id = head.spec or USUAL, head.job
        if id not in self._jobs:
            self._jobs[id] = ClusterJob(
                next(self._numbers),
                id,
                spec.job,
                spec.binds,
                head.audience,
                spec.size,
                {head.audience: head.origin},
            )
            self._forget_old()
        self._jobs[id].natives[head.task] = ()

    def made(self, task: int, natives: tuple[Native, ...]) -> None:
        """What the system knows its results by: they live as long as the job is remembered."""
        if (job := self._job_of(task)) is not None:
            job.natives[task] = natives

    def _job_of(self, task: int) -> ClusterJob | None:
        return next((job for job in self._jobs.values() if task in job.natives), None)

    def dropped(self, ids: Sequence[int]) -> None:
        """These were freed: results among them are gone."""
        for job in self._jobs.values():
            for task, natives in job.natives.items():
                gone = {id - task + 1 for id in ids}
                job.natives[task] = tuple(
                    None if n and n in gone else each for n, each in enumerate(natives)
                )

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
            return
        elif message.kind != PROGRESS:
            job.log.add(Output(message.task, message.kind, message.data, 0, message.worker))
        for audience, origin in job.audience.items():
            self._send(audience, msgspec.structs.replace(message, origin=origin))

    def unfinished(self, tasks: Iterable[int]) -> list[int]:
        """These tasks; for a job's first one, which stands for all, those that aren't over."""
        found: list[int] = []
        for task in tasks:
            job = self._jobs.get(task)
            left = [] if job is None else [n for n in job.natives if n not in job.task_ends]
            found += [task] if job is None else left
        return list(dict.fromkeys(found))

    def ended(self, end: TaskEnd, is_whole: bool = False) -> None:
        """A job's task is over, and said nothing itself: its process has died, or it never ran.

        ``is_whole``: all that it showed has come.
        """
        job = self._job_of(end.task)
        if job is not None and end.task not in job.task_ends:
            if end.how == "failed" and job.began is not None and not is_whole:
                self.came(Message(end.task, "stderr", LOST.encode(), 0, 0, job.id, end.worker))
            self.came(Message(end.task, ENDED, encode(end), 0, 0, job.id, end.worker))

    def _ended(self, job: ClusterJob, end: TaskEnd) -> None:
        if before := job.task_ends.get(end.task):  # it was tried again
            job.outcomes[before.how] -= 1
        job.task_ends[end.task] = end
        job.outcomes[end.how] += 1
        self.ended_at = self._clock()
        if job.is_over and job.began is not None:
            job.seconds = self._clock() - job.began

    def _forget_old(self) -> None:
        over = [id for id, job in self._jobs.items() if job.is_over and not job.audience]
        for id in over[: max(len(self._jobs) - MOST_JOBS, 0)]:
            del self._jobs[id]

    def left(self, audience: int) -> None:
        """That driver has gone. What its jobs show is kept from now on."""
        for job in self._jobs.values():
            if job.audience.pop(audience, None) is not None and not job.audience:
                job.unseen = True

    def jobs(self) -> tuple[JobRecord, ...]:
        now = self._clock()
        return tuple(job.told(now) for job in self._jobs.values())

    def results(self) -> dict[int, tuple[str, bool]]:
        """By object that is kept as the result of a job: its name, and whether nobody has it."""
        return {
            task + number: (job.name, job.unseen)
            for job in self._jobs.values()
            for task, natives in job.natives.items()
            for number, native in enumerate(natives[1:])
            if native is not None
        }

    def shown_by(self, id: int) -> tuple[Output, ...] | None:
        """What a job has shown; None: there is none."""
        job = self._jobs.get(id)
        return None if job is None else tuple(job.log)

    def collect(self, id: int, audience: int, origin: int) -> KeptJob | None:
        """What there is of a job. What it showed goes to that driver, and all it will show; 0 to
        leave it where it is."""
        job = self._jobs.get(id)
        if job is None:
            return None
        record = job.told(self._clock())
        if audience:
            job.audience[audience], job.unseen = origin, False
            for each in job.log:
                shown = Message(each.task, each.kind, each.data, origin, audience, id, each.worker)
                self._send(audience, shown)
        return KeptJob(record, dict(job.natives), dict(job.task_ends))
