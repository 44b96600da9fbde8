"""Background cells of a session on a cluster, as people ask for them again."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.core.events import About, Output
from workbench.core.snapshot import JobRecord
from workbench.engine.records import CollectedJob
from workbench.engines.cluster.backend import Message, Native, TaskEnd
from workbench.engines.cluster.entries import FAILED, PENDING, READY, UNKNOWN
from workbench.engines.cluster.tasks import ClusterTasks
from workbench.ref import ObjectRef


class ClusterJobs(ClusterTasks):
    """See the module."""

    def jobs(self) -> tuple[JobRecord, ...]:
        found: tuple[JobRecord, ...] = self.backend.ask("jobs")
        return found

    def outputs(self, job: int) -> tuple[Output, ...] | None:
        found: tuple[Output, ...] | None = self.backend.ask("shown_by", job)
        return found

    def collect(self, job: int, name: str = "") -> CollectedJob | None:
        found = self.backend.ask("collect", job, self.prefix, self.listener.origin(), name)
        if found is None:
            return None
        results: list[ObjectRef | None] = []
        for task, natives in found.natives.items():
            end, binds = found.ends.get(task), found.record.binds
            results += self._collected(task, natives[1:], binds, end, name)
        if not name:
            for output in found.outputs:
                self.show(
                    Message(
                        output.task, output.kind, output.data, self.listener.origin(),
                        self.prefix, job, output.worker,
                    )
                )  # fmt: skip
        return CollectedJob(found.record, results)

    def _collected(
        self, task: int, natives: Sequence[Native], binds: Sequence[str], end: TaskEnd | None,
        name: str,
    ) -> list[ObjectRef | None]:  # fmt: skip
        refs: list[ObjectRef | None] = []
        for number, native in enumerate(natives):
            if name and (number == 0 or binds[number - 1 : number] != (name,)):
                continue
            if native is None:  # somebody freed it
                refs.append(None)
                continue
            ref, entry = self.entries.new(task + number, native, UNKNOWN)
            entry.task, entry.job = task, task
            if end is not None and number < len(end.failed):
                about: About | None = end.abouts[number]
                state = FAILED if end.failed[number] else READY
                self.entries.settle(ref.id, state, about)
            elif end is None:  # it runs, or waits for that
                self.entries.watch(entry)
                with self.entries.lock:
                    if entry.state == UNKNOWN:
                        entry.state = PENDING
            refs.append(ref)
        return refs
