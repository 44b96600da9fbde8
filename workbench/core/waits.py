"""What running tasks wait for: decides when a slot is lent and when it is taken back.

Knows object ids, not objects. A task has its slot back as soon as what it waits for is there, not
when its worker says that it goes on: by then the next task could have taken the slot.
"""

from __future__ import annotations

from collections.abc import Callable

from workbench.core.tasks import Task, Wait, Worker


class Waits:
    """Waits of all workers, by object. ``update_slot`` is called with the worker when one of its
    waits begins or ends: it may have gained or lost its slot."""

    def __init__(self, update_slot: Callable[[Worker], None]) -> None:
        self._update_slot = update_slot
        self.by_object: dict[int, dict[Wait, None]] = {}  # object → waits for it

    def begin(self, number: int, wait: Wait) -> None:
        """Add a wait of a worker's task; the worker chooses its number."""
        self._end(wait.worker, number)
        wait.worker.waits[number] = wait
        if wait.is_over:
            wait.worker.waits_over += 1
            wait.missing.clear()
        for id in wait.missing:
            self.by_object.setdefault(id, {})[wait] = None
        self._update_slot(wait.worker)

    def on_object_ready(self, object: int, failed: bool) -> None:
        """Give slots back to tasks that waited for an object that is there, or never will be."""
        for wait in self.by_object.pop(object, ()):
            wait.missing.discard(object)
            wait.left -= 1
            if not wait.left or (failed and wait.may_fail) or wait.item:
                self._over(wait)

    def made(self, generator: Task) -> None:
        for wait in list(self.by_object.get(generator.submit.task, ())):
            if 0 < wait.item <= generator.made:
                self._over(wait)

    def end(self, worker: Worker, number: int) -> None:
        self._end(worker, number)
        self._update_slot(worker)

    def _end(self, worker: Worker, number: int) -> None:
        wait = worker.waits.pop(number, None)
        if wait is not None:
            worker.waits_over -= wait.is_over
            self._forget(wait)

    def end_all(self, worker: Worker) -> None:
        """Remove all waits of a worker whose task is over. Call ``update_slot`` next."""
        for wait in worker.waits.values():
            self._forget(wait)
        worker.waits.clear()
        worker.waits_over = 0

    def _over(self, wait: Wait) -> None:
        wait.is_over = True
        wait.worker.waits_over += 1
        self._forget(wait)
        self._update_slot(wait.worker)

    def _forget(self, wait: Wait) -> None:
        for id in wait.missing:
            waits = self.by_object.get(id)
            if waits is not None:
                waits.pop(wait, None)
                if not waits:
                    del self.by_object[id]
        wait.missing = set()
