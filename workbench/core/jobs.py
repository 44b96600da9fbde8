"""Background cells, found again by whoever comes after their submitter. A desk of the session's.

A *job* is a task that a person started and may ask for later, or several that belong together: a
cell that runs once for each item of a list. Its *audience* are the clients that see what it shows:
who submitted it, and who collected it since. While there are any, its tasks are like all others.
Without one they go on all the same, their results are kept (catalog: `job`), and so is the last of
what they show, until somebody collects it or the session ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.logs import Log
from workbench.core.snapshot import JobRecord

if TYPE_CHECKING:
    from workbench.core.scheduler import Task
    from workbench.core.session import Client, Session

MOST_RECORDS = 100
"""Jobs remembered after their end, when all they made is with somebody."""


class Job:
    """One background cell, until it has ended and somebody has what it made.

    Attributes
    ----------
    id : int
        Its first task's.
    tasks : list of Task
        Those that were submitted, in order, over or not.
    size : int
        How many there will be.
    audience : dict of int → int
        Who sees what it shows, with the number that says where there.
    outcomes : Counter of str
        How many tasks ended how: done, failed or stopped.
    """

    __slots__ = (
        "audience", "began", "id", "log", "number", "outcomes", "seconds", "size", "tasks", "worker"
    )  # fmt: skip

    def __init__(self, number: int, task: Task) -> None:
        self.number = number
        self.id = task.submit.task
        self.tasks = [task]
        self.size = max(task.terms.size, 1)
        self.audience = {task.owner: task.submit.origin}
        self.log = Log()
        self.outcomes: Counter[str] = Counter()
        self.began: float | None = None  # when the first of them was sent, or all that ran were
        self.seconds = 0.0
        self.worker = 0  # to which one of them was sent last

    @property
    def name(self) -> str:
        """What people call it."""
        return self.tasks[0].terms.job

    @property
    def is_over(self) -> bool:
        """Whether nothing of it will run any more."""
        return self.outcomes.total() >= self.size

    @property
    def results(self) -> Iterator[int]:
        """The objects it makes."""
        return (id for task in self.tasks for id in task.results)

    def record(self, now: float) -> JobRecord:
        """What a snapshot says of it."""
        runs = any(task.worker is not None for task in self.tasks)
        began = self.began is not None and not self.is_over
        return JobRecord(
            id=self.id,
            number=self.number,
            name=self.name,
            state=self._outcome() if self.is_over else "running" if runs else "queued",
            seconds=now - self.began if began and self.began is not None else self.seconds,
            lines=self.log.lines,
            displays=self.log.displays,
            binds=self.tasks[0].terms.binds,
            kept=not self.audience,
            ended=self.outcomes.total(),
            size=self.size,
            worker=self.worker,
        )

    def _outcome(self) -> str:
        """Of several the worst."""
        return next((o for o in ("failed", "stopped") if self.outcomes[o]), "done")


class Jobs:
    """See the module. Methods named like an event handle it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open: dict[int, Job] = {}  # by id
        self._over: dict[int, JobRecord] = {}  # by id: those that are nobody's concern any more
        self._count = 0

    def __contains__(self, task: Task) -> bool:
        """Whether it is one of a job's own, and that isn't over. What such a task submits isn't."""
        job = task.job
        return job is not None and task.parent is None and self._open.get(job.id) is job

    def enter(self, task: Task) -> bool:
        """A new task that is a job, or one more of a job: if it has a result that tells its end.

        False: its job takes no more. It was stopped while its maker was still submitting.
        """
        if not task.submit.returns:
            return True
        if task.terms.group:
            job = self._open.get(task.terms.group)
            if job is None or job.tasks[0].owner != task.owner or len(job.tasks) >= job.size:
                return False
            job.tasks.append(task)
            task.job = job
            return True
        self._over.pop(task.submit.task, None)  # its maker may use an id again that nobody has
        self._count += 1
        task.job = self._open[task.submit.task] = Job(self._count, task)
        return True

    def began(self, task: Task) -> None:
        """It was sent to a worker, perhaps once more."""
        job = task.job
        if job is None or task not in self or task.worker is None:
            return
        job.worker = task.worker.number
        if job.began is None or job.size == 1:
            job.began = self._session.now
            for number in job.audience:
                self._session.send(number, do.Began(job.id, job.worker))

    def output(self, job: Job, event: ev.Output) -> None:
        """It shows something, or a task of its own does."""
        if job.id in self._open:
            job.log.add(event)
        for number, origin in job.audience.items():
            self._session.send(number, replace(event, origin=origin))

    def ended(self, task: Task, value: ev.Value) -> None:
        """It is over, with this as its first result."""
        job = task.job
        if job is None or task not in self:
            return
        if value.header.startswith(b"!cancelled"):
            value = task.final_value or value  # it stopped because it was told to: this is why
        stopped = value.header.startswith(b"!cancelled")
        job.outcomes["stopped" if stopped else "failed" if value.failed else "done"] += 1
        self._settle(job)

    def _settle(self, job: Job) -> None:
        """It may be over; and if it is, nobody's concern."""
        if not job.is_over:
            return
        if job.began is not None:
            job.seconds = self._session.now - job.began
        if job.audience:
            self._close(job)

    def cancelled(self, id: int) -> list[Task]:
        """Somebody wants this job stopped: no more tasks of it will come. Those to be stopped."""
        job = self._open.get(id)
        if job is None:
            return []
        self._curtail(job)
        return [task for task in job.tasks if task in self._session.scheduler]

    def left(self, number: int) -> None:
        """Somebody is gone. Before its holds are: what only they kept is kept from now on."""
        for job in list(self._open.values()):
            if job.audience.pop(number, None) is not None and not job.audience:
                self._keep_results(job, job.name)
            if job.tasks[0].owner == number:
                self._curtail(job)

    def _curtail(self, job: Job) -> None:
        """Its maker won't submit the rest."""
        if job.size > len(job.tasks):
            job.size = len(job.tasks)
            self._settle(job)

    def collect(self, client: Client, event: ev.Collect) -> None:
        """Show it all that was kept, from now on all that comes, and give it the results."""
        session, job = self._session, self._open.get(event.job)
        if job is None:
            record = self._over.get(event.job)
            return session.send(client.number, do.Collected(event.request, record))
        record = job.record(session.now)
        job.audience[client.number] = event.origin
        for output in job.log:
            task = output.task or event.job
            session.send(client.number, replace(output, task=task, origin=event.origin))
        results = []
        for id in job.results:
            entry = session.catalog.get(id)
            results.append(0 if entry is None else id)
            if entry is not None:
                session.catalog.hold(entry, client.number)
        self._keep_results(job, "")
        session.send(client.number, do.Collected(event.request, record, tuple(results)))
        if job.is_over:
            self._close(job)
        return None

    def records(self) -> tuple[JobRecord, ...]:
        """All of them, in the order in which they were submitted."""
        now = self._session.now
        records = [*self._over.values(), *(job.record(now) for job in self._open.values())]
        return tuple(sorted(records, key=lambda record: record.number))

    def kept(self) -> Iterator[tuple[int, str]]:
        """(id, name of the job) for the results that are kept, or were until somebody freed one."""
        for job in self._open.values():
            if not job.audience:
                yield from ((id, job.name) for id in job.results)

    def _keep_results(self, job: Job, name: str) -> None:
        for id in job.results:
            entry = self._session.catalog.get(id)
            if entry is not None:
                self._session.catalog.keep_for(entry, name)

    def _close(self, job: Job) -> None:
        del self._open[job.id]
        job.log.close()
        self._over[job.id] = job.record(self._session.now)
        if len(self._over) > MOST_RECORDS:
            del self._over[next(iter(self._over))]

    def check(self) -> None:
        """Raise AssertionError unless each is with somebody, or kept; and not done, or kept."""
        session = self._session
        for id, job in self._open.items():
            assert job.id == id == job.tasks[0].submit.task
            assert job.audience.keys() <= session.clients.keys()
            unfinished = sum(task in session.scheduler for task in job.tasks)
            assert unfinished + job.outcomes.total() == len(job.tasks) <= job.size
            assert not (job.is_over and job.audience), "over, and somebody has it all"
        assert len(self._over) <= MOST_RECORDS
        assert not self._over.keys() & self._open.keys()
