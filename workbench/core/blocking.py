"""Component: handles Blocked and Unblocked: tasks that wait for others lend their slots."""

from __future__ import annotations

from workbench.core import events as ev
from workbench.core.entry import PENDING, READY, Entry
from workbench.core.lines import LineManager
from workbench.core.state import ClientState, State
from workbench.core.tasks import Wait, Worker

MOST_WAITS = 100_000
"""Places where one task may wait at a time. Further ones are ignored."""


class Blocking:
    def __init__(self, state: State, lines: LineManager) -> None:
        self._catalog = state.catalog
        self._scheduler = state.scheduler
        self._lines = lines

    def blocked(self, client: ClientState, event: ev.Blocked) -> None:
        """Lend the slot of a task that waits, unless what it waits for is there by now."""
        scheduler = self._scheduler
        worker = scheduler.by_client.get(client.number)
        if worker is None or worker.actor is not None or not self._may_run(worker, event.task):
            return  # the task is over: one of its threads waits
        if len(worker.waits) >= MOST_WAITS:
            return
        entries = {id: self._catalog.get(id) for id in event.objects}
        missing = {id for id, e in entries.items() if e is not None and e.state is PENDING}
        left = (event.enough or len(entries)) - len(entries) + len(missing)
        wait = Wait(worker, missing, left, not event.enough, event.item)
        if entries:
            wait.is_over = left <= 0 or (wait.may_fail and any(map(_has_failed, entries.values())))
        if event.item and missing:
            generator = scheduler.tasks.maker(event.objects[0])
            wait.is_over = generator is not None and generator.made >= event.item
        needed = [id for id in event.objects if id in missing]
        scheduler.waits.begin(event.wait, wait)
        if not wait.is_over:
            scheduler.make_urgent(needed)
            if left > len(needed) or not entries:  # it waits for something that it didn't name
                scheduler.make_urgent(t.submit.task for t in scheduler.tasks.children(event.task))

    def _may_run(self, worker: Worker, task: int) -> bool:
        """True if the task runs on this worker, or may: calls by a line may not be known yet."""
        if worker.lease is not None:
            known = task in worker.sent or self._lines.that_brought(worker, task) is not None
            return known or not self._lines.is_in_use(worker.lease)
        return worker.running is not None and worker.running.submit.task == task

    def unblocked(self, client: ClientState, event: ev.Unblocked) -> None:
        worker = self._scheduler.by_client.get(client.number)
        if worker is not None:
            self._scheduler.waits.end(worker, event.wait)


def _has_failed(entry: Entry | None) -> bool:
    """True if reading the object raises. A missing one was waited for, so it was freed."""
    if entry is None or entry.state is not READY:
        return entry is None or entry.state is not PENDING
    return entry.value is not None and entry.value.failed
