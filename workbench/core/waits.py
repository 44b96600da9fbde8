"""What running tasks wait for: which slots are lent, and which are taken back. Knows object ids.

A slot is its task's again in the moment in which what it waits for is there, not when the worker
says that it goes on: else the next task in the queue would have begun there meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from workbench.core.tasks import Task, Wait, Worker


class Waits:
    """Of all workers, by what they wait for. ``look`` is called with a worker of which one has
    begun or is over: it may have a slot now, or none."""

    def __init__(self, look: Callable[[Worker], None]) -> None:
        self._look = look
        self.by_object: dict[int, dict[Wait, None]] = {}  # all that somebody waits for

    def begin(self, number: int, wait: Wait) -> None:
        """A task on this worker waits, with a number of the worker's choice."""
        self._end(wait.worker, number)
        wait.worker.waits[number] = wait
        if wait.is_over:
            wait.worker.waits_over += 1
            wait.missing.clear()
        for id in wait.missing:
            self.by_object.setdefault(id, {})[wait] = None
        self._look(wait.worker)

    def arrived(self, object: int, failed: bool) -> None:
        """An object is there, or never will be: who waited for it has its slot again."""
        for wait in self.by_object.pop(object, ()):
            wait.missing.discard(object)
            wait.left -= 1
            if not wait.left or (failed and wait.may_fail) or wait.item:
                self._over(wait)

    def made(self, generator: Task) -> None:
        """A generator has made one more item."""
        for wait in list(self.by_object.get(generator.submit.task, ())):
            if 0 < wait.item <= generator.made:
                self._over(wait)

    def end(self, worker: Worker, number: int) -> None:
        """A task doesn't wait there any more."""
        self._end(worker, number)
        self._look(worker)

    def _end(self, worker: Worker, number: int) -> None:
        wait = worker.waits.pop(number, None)
        if wait is not None:
            worker.waits_over -= wait.is_over
            self._forget(wait)

    def end_all(self, worker: Worker) -> None:
        """Its task is over, or gone. Whoever calls this looks at it then."""
        for wait in worker.waits.values():
            self._forget(wait)
        worker.waits.clear()
        worker.waits_over = 0

    def _over(self, wait: Wait) -> None:
        wait.is_over = True
        wait.worker.waits_over += 1
        self._forget(wait)
        self._look(wait.worker)

    def _forget(self, wait: Wait) -> None:
        for id in wait.missing:
            waits = self.by_object.get(id)
            if waits is not None:
                waits.pop(wait, None)
                if not waits:
                    del self.by_object[id]
        wait.missing = set()
