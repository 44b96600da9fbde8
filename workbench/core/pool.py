"""How many worker processes there shall be, and what their deaths mean. No task order here."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from workbench.core.schedule import Schedule, Worker

SPARE_SECONDS = 2.0
"""A worker that was added because others were blocked leaves after this long without work."""

MOST = 512
"""Workers at any time. Past that, tasks that wait for tasks wait for ever; it ends fork bombs."""

STILLBORN = 3
"""After so many workers in a row that died before their Hello, no more are made."""


class Pool:
    """The workers' number over time.

    Parameters
    ----------
    target : int
        Workers that shall be able to run a task at any time. One that waits for the result of
        another task lends its slot, so there can be more processes than this.
    """

    def __init__(self, target: int, schedule: Schedule) -> None:
        self.target = target
        self.stillborn = 0
        self._schedule = schedule
        self._numbers = 0

    @property
    def broken(self) -> bool:
        """Workers die before they say a word; making more would go on for ever."""
        return self.stillborn >= STILLBORN

    def wanted(self) -> Iterator[int]:
        """Numbers of the workers to fork now."""
        schedule = self._schedule
        while (
            schedule.working < self.target and not self.broken and len(schedule.workers) < MOST
        ):
            if len(schedule.workers) >= self.target and not schedule.queue:
                return  # slots are lent, but there is nothing to run in them
            self._numbers += 1
            schedule.new_worker(self._numbers)
            yield self._numbers

    def surplus(self, now: float) -> Iterator[Worker]:
        """Workers to send home: slots came back, and nobody used the extra one for a while."""
        extra = self._schedule.working - self.target
        for worker in list(self._schedule.workers.values()):
            if extra > 0 and worker.idle and now - worker.since >= SPARE_SECONDS:
                extra -= 1
                worker.blocked = 1  # takes no more tasks while it goes
                yield worker

    def deadline(self) -> float | None:
        """When :meth:`surplus` may next have something."""
        if self._schedule.working <= self.target:
            return None
        idle = [w.since for w in self._schedule.workers.values() if w.idle]
        return min(idle) + SPARE_SECONDS if idle else None

    def forked(self, number: int, pid: int) -> None:
        """The process exists."""
        worker = self._schedule.workers.get(number)
        if worker is not None:
            worker.pid = pid

    def exited(self, number: int, status: int) -> tuple[Worker | None, str]:
        """The process is gone; returns its record and a clause that says how it went."""
        worker = self._schedule.workers.get(number)
        if worker is None:
            return None, ""
        if worker.client is None:
            self.stillborn += 1
        return worker, f"Worker {number} (pid {worker.pid}) {_fate(status)}"


def _fate(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    hint = ", perhaps by the kernel because memory ran out," if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"
