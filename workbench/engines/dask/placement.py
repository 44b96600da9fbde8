"""Which worker of Dask's gets a task: none waits at one while another has room. Runs on the
scheduler's event loop.

Dask itself sends a task to where its data is, and moves it later only if it knows how long such
take, and that it costs little to move.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from workbench.engines.dask.topics import id_of

SHORT = 0.02
"""Seconds that a task may wait: the short ones before it are over by then."""


class Placement:
    """Moves tasks by Dask's own messages: a worker gives up only what it hasn't begun."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._asked: dict[str, str] = {}  # key → the worker that was asked to give it up
        self._is_due = False

    def spread(self, task: Any) -> None:
        """Have a new task go to a worker with room, if those that have its data have none.

        What large data costs to move it costs once a node.
        """
        needs = task.dependencies
        if not needs or task.worker_restrictions or any(not each.who_has for each in needs):
            return
        holders = set().union(*(each.who_has for each in needs))
        if any(_load(ws) < 1 for ws in holders):
            return
        best = min(self._scheduler.running, key=_load, default=None)
        if best is not None and _load(best) < min(map(_load, holders)):
            task.worker_restrictions, task.loose_restrictions = {best.address}, True

    def changed(self) -> None:
        """A worker has got a task, or room for one."""
        if not self._is_due:
            self._is_due = True
            self._scheduler.loop.call_later(SHORT, self._balance)

    def left(self, key: str) -> None:
        """No worker has that task any more."""
        self._asked.pop(key, None)
        self.changed()

    def _balance(self) -> None:
        self._is_due = False
        stealing = self._scheduler.extensions.get("stealing")
        if stealing is None:
            return
        tasks = self._scheduler.tasks
        for key, address in list(self._asked.items()):
            task = tasks.get(key)
            if task is None or task.processing_on is None or task.processing_on.address != address:
                del self._asked[key]  # moved: no transition tells
        room = {ws: ws.nthreads - self._busy(ws, stealing) for ws in self._scheduler.running}
        full = [ws for ws, free in room.items() if free < 0]
        if not full or not (stealing.in_flight or any(free > 0 for free in room.values())):
            return
        self.changed()  # a worker may refuse, and what Dask moves by itself is told to nobody
        for victim in full:
            latest = reversed(list(victim.processing))
            movable = (task for task in latest if self._may_move(task, victim))
            for task in islice(movable, -room[victim]):
                thief = max(room, key=lambda ws: room[ws] / ws.nthreads)
                if room[thief] <= 0:
                    break
                if task not in stealing.in_flight:  # else Dask asks for it, and may have to again
                    self._asked[task.key] = victim.address
                    stealing.move_task_request(task, victim, thief)
                    room[thief] -= 1

    def _busy(self, worker: Any, stealing: Any) -> int:
        """Tasks that have its threads, or wait for one. Those that lent theirs are long-running."""
        return int(
            len(worker.processing) - len(worker.long_running) + stealing.in_flight_tasks[worker]
        )

    def _may_move(self, task: Any, worker: Any) -> bool:
        bound = task.worker_restrictions and not task.loose_restrictions
        return (
            not bound
            and not task.host_restrictions
            and not task.resource_restrictions
            and task not in worker.long_running
            and self._asked.get(task.key) != worker.address
            and id_of(task.key) is not None
        )


def _load(worker: Any) -> float:
    """How many tasks a worker of Dask's has for each of its threads, but those that lent theirs."""
    return float((len(worker.processing) - len(worker.long_running)) / max(worker.nthreads, 1))
