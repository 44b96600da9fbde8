"""Component: background cells, which outlive their submitter; other clients can collect them.

A *job* is a task that a person started and may ask for later, or several: a cell that runs once for
each item of a list. Its *audience* are the clients that see its output: the one that submitted it,
and those that collected it since. While there are any, its results live as other objects do. When
the last one is gone, its tasks go on, and results that still exist are kept (catalog: `job`). Its
output, and how it ended, is remembered in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.entry import FREED, Entry
from workbench.core.snapshot import JobRecord
from workbench.core.state import ClientState, State
from workbench.core.tasks import Task, TaskGroup
from workbench.system.sizes import round_up

MOST_JOBS = 1000
"""Jobs remembered after their end. Those whose results are kept don't count."""

MOST_RECORDS = 100
"""Jobs in a snapshot of those that are over and seen: the last ones."""

MOST_LOGGED = 64_000_000
"""Bytes of output kept of all jobs that are over. The oldest jobs' is dropped first."""

MOST_ENDS = 100
"""Tasks of a job whose end is remembered: so many that are done, and so many others."""


class JobManager:
    def __init__(self, state: State) -> None:
        self._state = state
        self._jobs = state.jobs
        self._count = 0
        self._over: dict[int, int] = {}  # job that is over → bytes of output and ends kept
        self._kept: dict[int, TaskGroup] = {}  # jobs that may have kept results
        self.most_jobs, self.most_records, self.most_logged = MOST_JOBS, MOST_RECORDS, MOST_LOGGED

    def __contains__(self, task: Task) -> bool:
        """True if the task is one of a job's own. Tasks that such a task submits aren't."""
        job = task.job
        return job is not None and task.parent is None and self._jobs.get(job.id) is job

    def enter(self, task: Task) -> bool:
        """Add a new task that is a job, or belongs to one, if it has a result that tells its end.

        False if its job takes no more, because that was stopped while its tasks were submitted.
        """
        if not task.submit.returns:
            return True
        spec = task.spec
        if spec.group:
            job = self._jobs.get(spec.group)
            if job is None or job.owner != task.owner or job.is_complete:
                return False
        else:
            if task.submit.task in self._jobs:  # its submitter may reuse an unused id
                self._forget(self._jobs[task.submit.task])
            self._count += 1
            job = self._jobs[task.submit.task] = TaskGroup(
                self._count,
                task.submit.task,
                spec.job,
                spec.binds,
                task.owner,
                max(spec.size, 1),
                {task.owner: task.submit.origin},
            )
        job.add(task)
        self._tell_complete(job)
        return True

    def began(self, task: Task) -> None:
        """Note that a task of a job was sent; tell the audience of the first one."""
        job = task.job
        if job is None or task not in self or task.worker is None:
            return
        job.worker = task.worker.number
        if job.began is None or job.size == 1:
            job.began = self._state.now
            for number in job.audience:
                self._state.send(number, do.Began(job.id, job.worker))

    def output(self, job: TaskGroup, event: ev.Output) -> None:
        """Keep a job's output, and send it to its audience, each under the cell it asked from."""
        if job.id in self._jobs and event.kind != ev.PROGRESS:
            job.log.add(event)
            if job.id in self._over:
                self._weigh(job)  # of a child task that outlives it
        for number, origin in job.audience.items():
            self._state.send(number, replace(event, origin=origin))

    def on_task_ended(self, task: Task, value: ev.Value) -> None:
        """Take in that a task is over, with ``value`` as its first result."""
        job = task.job
        if job is None or task not in self:
            return
        if value.header.startswith(b"!cancelled"):
            value = task.final_value or value  # it was told to stop: the reason
        stopped = value.header.startswith(b"!cancelled")
        how = "stopped" if stopped else "failed" if value.failed else "done"
        job.outcomes[how] += 1
        among = job.outcomes["done"] if how == "done" else job.failed
        if among <= MOST_ENDS and not value.segment:
            job.ends[task.submit.task] = value
        self._finish_if_over(job)

    def _finish_if_over(self, job: TaskGroup) -> None:
        """If the job is over, drop its tasks, and the output and records of too old jobs."""
        if not job.is_over or job.id in self._over:
            return
        if job.began is not None:
            job.seconds = self._state.now - job.began
        job.tasks.clear()
        self._weigh(job)
        oldest = iter(list(self._over))
        while sum(self._over.values()) > self.most_logged:
            forgotten = self._jobs[next(oldest)]
            forgotten.log.close()
            forgotten.ends.clear()
            self._weigh(forgotten)
        if len(self._over) - len(self._kept) > self.most_jobs:
            self._forget(next(self._jobs[id] for id in self._over if id not in self._kept))

    def _weigh(self, job: TaskGroup) -> None:
        self._over[job.id] = job.log.nbytes + sum(len(v.header) for v in job.ends.values())

    def _forget(self, job: TaskGroup) -> None:
        self._release(job)
        self._over.pop(job.id, None)
        del self._jobs[job.id]

    def cancelled(self, id: int) -> list[Task]:
        """Let a job take no more tasks; return those that have to be stopped."""
        job = self._jobs.get(id)
        if job is None:
            return []
        self._curtail(job)
        return [task for task in job.tasks if not task.is_over]

    @property
    def are_awaited(self) -> bool:
        """True if a job runs without an audience, or ended without one and wasn't collected."""
        return any(job.unseen for job in self._jobs.values())

    def on_client_left(self, client: ClientState) -> None:
        """Remove a client that left from audiences, before its holds go: keep results for their
        jobs.

        After a Bye, results of jobs that are over aren't kept.
        """
        for job in list(self._jobs.values()):
            was_there = job.audience.pop(client.number, None) is not None
            job.partial.pop(client.number, None)
            if not job.audience:
                job.unseen = job.unseen or not job.is_over
                if (was_there or job.id in self._kept) and not (job.is_over and client.graceful):
                    self._keep(job)
            if job.owner == client.number:
                self._curtail(job)

    def _curtail(self, job: TaskGroup) -> None:
        """Reduce a job to the tasks submitted so far: the rest won't come."""
        if job.size > len(job.tasks) and not job.is_over:
            job.size = len(job.tasks)
            self._tell_complete(job)
            self._finish_if_over(job)

    # -- output and results -----------------------------------------------------------------------

    def collect(self, client: ClientState, event: ev.Collect) -> None:
        """Add the client to the audience: it gets the output so far, and a hold on each result.
        With a name, it gets only that result."""
        state, job = self._state, self._jobs.get(event.job)
        if job is None or (event.name and event.name not in job.binds):
            return state.send(client.number, do.Collected(event.request, None))
        record = self._record(job)
        results = list(self._results_of(job, event.name))
        if not event.name:
            job.audience[client.number] = event.origin
            job.unseen = False
            for output in self._shown(job):
                state.send(client.number, replace(output, origin=event.origin))
            self._remake_ends(job)
            if not job.is_complete and client.number != job.owner:
                job.partial[client.number] = len(results)
        there = self._handed(results, client.number)
        if event.name and not any(self._there(job, name) for name in job.binds):
            job.audience[client.number], job.unseen = event.origin, False
        if job.audience:
            self._release(job)
        return state.send(client.number, do.Collected(event.request, record, there))

    def _tell_complete(self, job: TaskGroup) -> None:
        """Send the rest of the results to clients that collected the job before it was complete."""
        if not job.partial or not job.is_complete:
            return
        for number, had in job.partial.items():
            there = self._handed(job.results[had:], number)
            self._state.send(number, do.JobComplete(job.id, job.size, there))
        job.partial.clear()

    def _handed(self, results: Iterable[int], number: int) -> tuple[int, ...]:
        """Give the client a hold on each result that exists; return their ids, 0 for others."""
        catalog = self._state.catalog
        there = tuple(id if id in catalog else 0 for id in results)
        for id in filter(None, there):
            catalog.hold(catalog[id], number)
            catalog.keep_for(catalog[id], "")
        return there

    def log(self, client: ClientState, event: ev.Ask) -> None:
        job = self._jobs.get(event.object)
        shown = None if job is None else tuple(self._shown(job))
        self._state.send(client.number, do.Answer(event.request, outputs=shown))

    def records(self, client: ClientState, event: ev.Ask) -> None:
        """Answer with all remembered jobs; a snapshot has only the last."""
        found = tuple(map(self._record, self._jobs.values()))
        self._state.send(client.number, do.Answer(event.request, jobs=found))

    def last_records(self) -> tuple[JobRecord, ...]:
        """Return records of jobs that run or that nobody has seen, and the last of the others."""
        others = [job for job in self._jobs.values() if job.is_over and not job.unseen]
        hidden = {job.id for job in others[: -self.most_records]}
        return tuple(self._record(job) for job in self._jobs.values() if job.id not in hidden)

    def _shown(self, job: TaskGroup) -> Iterator[ev.Output]:
        for output in job.log:
            yield replace(output, task=output.task or job.id)

    def _record(self, job: TaskGroup) -> JobRecord:
        there = tuple(name for name in job.binds if self._there(job, name))
        return job.record(self._state.now, there)

    def _there(self, job: TaskGroup, name: str) -> bool:
        entries = map(self._state.catalog.get, self._results_of(job, name))
        return job.id in self._kept and any(e is not None and e.job for e in entries)

    def _results_of(self, job: TaskGroup, name: str) -> Iterator[int]:
        """Return all results of a job, or those for a name, one of each task."""
        step = 1 + len(job.binds)
        return iter(job.results[1 + job.binds.index(name) :: step] if name else job.results)

    def _remake_ends(self, job: TaskGroup) -> None:
        """Make the objects again that tell how tasks ended, if their last handles are gone."""
        catalog = self._state.catalog
        for id, value in job.ends.items():
            if id not in catalog:
                catalog.seal(catalog.make(id), value)

    # -- results kept until somebody collects them ------------------------------------------------

    def _keep(self, job: TaskGroup) -> None:
        for entry in self._entries(job):
            # `_remake_ends` can make first results again.
            if entry.state is not FREED and not (job.is_over and entry.id in job.ends):
                self._state.catalog.keep_for(entry, job.name)
                self._kept[job.id] = job

    def _release(self, job: TaskGroup) -> None:
        if self._kept.pop(job.id, None) is not None:
            for entry in self._entries(job):
                self._state.catalog.keep_for(entry, "")

    def _entries(self, job: TaskGroup) -> list[Entry]:
        return [entry for entry in map(self._state.catalog.get, job.results) if entry is not None]

    def make_room(self, nbytes: int) -> bool:
        """Free so many bytes of kept results, the oldest jobs' first; True if there were any.

        Only results of jobs whose end a client has seen: nobody would know that others are gone and
        have to be made again.
        """
        freed = 0
        for job in list(self._kept.values()):
            if freed >= nbytes:
                break
            if job.is_over and not job.unseen:
                freed += self._drop(job)
        return freed > 0

    def _drop(self, job: TaskGroup) -> int:
        """Stop keeping a job's results; return the bytes of memory that this frees."""
        budget, freed = self._state.budget, 0
        placed = [
            (entry, budget.arenas[entry.value.segment].owner, round_up(entry.value.length))
            for entry in self._entries(job)
            if entry.job and entry.value and entry.value.segment and not entry.value.digest
        ]
        if not any(entry.is_only_kept for entry, _, _ in placed):
            return 0
        self._release(job)
        job.dropped = True
        for entry, owner, length in placed:
            if entry.value is None:
                budget.credit_waiting_owner(owner, length)
                freed += length
        return freed
