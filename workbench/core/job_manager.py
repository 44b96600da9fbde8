"""Component: background cells, which outlive their submitter; another client can collect them.

A *job* is a task that a person started and may ask for later, or several that belong together: a
cell that runs once for each item of a list. Its *audience* are the clients that see what it shows:
who submitted it, and who collected it since. While there are any, its tasks are like all others.
Without one they go on all the same, their results are kept (catalog: `job`), and so is the last of
what they show, until somebody collects it or the session ends.
"""

from __future__ import annotations

from msgspec.structs import replace

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.records import Task, TaskGroup
from workbench.core.state import ClientState, State

MOST_RECORDS = 100
"""Jobs remembered after their end, when all they made is with somebody."""


class JobManager:
    def __init__(self, state: State) -> None:
        self._state = state
        self._jobs = state.jobs
        self._past = state.past_jobs
        self._count = 0

    def __contains__(self, task: Task) -> bool:
        """Whether it is one of a job's own, and that isn't over. What such a task submits isn't."""
        job = task.job
        return job is not None and task.parent is None and self._jobs.get(job.id) is job

    def enter(self, task: Task) -> bool:
        """A new task that is a job, or one more of a job: if it has a result that tells its end.

        False: its job takes no more. It was stopped while its maker was still submitting.
        """
        if not task.submit.returns:
            return True
        if task.spec.group:
            job = self._jobs.get(task.spec.group)
            if job is None or job.tasks[0].owner != task.owner or len(job.tasks) >= job.size:
                return False
            job.tasks.append(task)
            task.job = job
            return True
        self._past.pop(task.submit.task, None)  # its maker may use an id again that nobody has
        self._count += 1
        task.job = self._jobs[task.submit.task] = TaskGroup(
            self._count, [task], max(task.spec.size, 1), {task.owner: task.submit.origin}
        )
        return True

    def began(self, task: Task) -> None:
        job = task.job
        if job is None or task not in self or task.worker is None:
            return
        job.worker = task.worker.number
        if job.began is None or job.size == 1:
            job.began = self._state.now
            for number in job.audience:
                self._state.send(number, do.Began(job.id, job.worker))

    def output(self, job: TaskGroup, event: ev.Output) -> None:
        if job.id in self._jobs:
            job.log.add(event)
        for number, origin in job.audience.items():
            self._state.send(number, replace(event, origin=origin))

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

    def _settle(self, job: TaskGroup) -> None:
        """It may be over; and if it is, nobody's concern."""
        if not job.is_over:
            return
        if job.began is not None:
            job.seconds = self._state.now - job.began
        if job.audience:
            self._close(job)

    def cancelled(self, id: int) -> list[Task]:
        """Somebody wants this job stopped: no more tasks of it will come. Those to be stopped."""
        job = self._jobs.get(id)
        if job is None:
            return []
        self._curtail(job)
        return [task for task in job.tasks if not task.is_over]

    def left(self, number: int) -> None:
        """Somebody is gone. Before its holds are: what only they kept is kept from now on."""
        for job in list(self._jobs.values()):
            if job.audience.pop(number, None) is not None and not job.audience:
                self._keep_results(job, job.name)
            if job.tasks[0].owner == number:
                self._curtail(job)

    def _curtail(self, job: TaskGroup) -> None:
        """Its maker won't submit the rest."""
        if job.size > len(job.tasks):
            job.size = len(job.tasks)
            self._settle(job)

    def collect(self, client: ClientState, event: ev.Collect) -> None:
        state, job = self._state, self._jobs.get(event.job)
        if job is None:
            record = self._past.get(event.job)
            return state.send(client.number, do.Collected(event.request, record))
        record = job.record(state.now)
        job.audience[client.number] = event.origin
        for output in job.log:
            task = output.task or event.job
            state.send(client.number, replace(output, task=task, origin=event.origin))
        results = []
        for id in job.results:
            entry = state.catalog.get(id)
            results.append(0 if entry is None else id)
            if entry is not None:
                state.catalog.hold(entry, client.number)
        self._keep_results(job, "")
        state.send(client.number, do.Collected(event.request, record, tuple(results)))
        if job.is_over:
            self._close(job)
        return None

    def _keep_results(self, job: TaskGroup, name: str) -> None:
        for id in job.results:
            entry = self._state.catalog.get(id)
            if entry is not None:
                self._state.catalog.keep_for(entry, name)

    def _close(self, job: TaskGroup) -> None:
        del self._jobs[job.id]
        job.log.close()
        self._past[job.id] = job.record(self._state.now)
        if len(self._past) > MOST_RECORDS:
            del self._past[next(iter(self._past))]
