"""Component: kills a worker when memory runs short, before the kernel kills the notebook. Ends the
session instead if a person has shut down its last notebook.

It says when to measure, and decides from what was measured.
"""

from __future__ import annotations

import math

from workbench.core import instructions as do
from workbench.core.loop_events import Measured
from workbench.core.state import State
from workbench.core.tasks import Worker
from workbench.format import human_bytes

SPEED = 2 << 30
"""Bytes a second at which memory fills up, at worst: about the speed of writing new pages."""

TOO_LITTLE = 64 << 20
"""Bytes: if the machine has more left, a refusal had another reason."""

SOON, LATE = 0.03, 1.0
"""Shortest and longest seconds between two measurements: the less is left, the shorter."""

BLAMELESS = 0.02
"""Share of all memory: if no worker has that much, killing one wouldn't help."""


class MemoryMonitor:
    """See the module. ``headroom``: bytes that must stay free; 0: memory isn't measured."""

    def __init__(self, state: State, headroom: int) -> None:
        self._state = state
        self._scheduler = state.scheduler
        self.headroom = headroom
        self.due: float | None = None
        self.gives_way = False  # no driver is left, nor likely to come back
        self._ending = 0  # the killed worker, until it has ended
        self._asked = False  # a Measured is due

    def end_batch(self) -> None:
        """Start measuring when there are tasks or actors; measure when it is due."""
        now = self._state.now
        if self.due is not None:
            self.due = now + LATE  # `measured` sets it anew
            self.request_measurement()
        elif self._has_to_look:
            self.due = now + (0.0 if self.gives_way else SOON)

    def request_measurement(self) -> None:
        if not self._asked:
            self._asked = True
            self._state.out.append(do.Measure())

    def measured(self, event: Measured) -> None:
        """Take in a measurement: decide whether to kill a worker, and when to measure again."""
        self._asked = False
        spare = event.available - self.headroom
        self._state.budget.room = spare if self.headroom else math.inf
        if spare < 0 and self._ending not in self._scheduler.workers:
            self._relieve(event)
        if self._has_to_look and self.gives_way and spare < self._state.budget.granted + TOO_LITTLE:
            self._state.out.append(do.Exit())
        self.due = self._state.now + min(max(spare / SPEED, SOON), LATE)
        if not self._has_to_look:
            self.due = None

    def explain(self) -> str:
        """Return why memory is refused although the store isn't full; '' for other reasons."""
        room = self._state.budget.room
        if not self.headroom or room is None or room > TOO_LITTLE:
            return ""
        return (
            "The machine has too little memory left: "
            f"{human_bytes(self.headroom)} of it shall stay free (`WORKBENCH_HEADROOM`), and other "
            "processes, or other sessions (`workbench ps`), have the rest."
        )

    @property
    def _has_to_look(self) -> bool:
        """True if tasks or actors may take memory; `used` won't do: some need no processor.

        Also if this session has no driver and may be in the way of other sessions.
        """
        busy = self.gives_way or self._scheduler.tasks or self._scheduler.actors
        return bool(self.headroom and busy)

    def _relieve(self, event: Measured) -> None:
        """Kill one of the largest workers: an idle one, or the one with the youngest task."""
        workers = self._scheduler.workers
        sizes = {workers[n]: size for n, size in event.workers if n in workers}
        most = max(sizes.values(), default=0)
        if most < event.total * BLAMELESS:
            return
        suspects = [worker for worker, size in sizes.items() if size >= most / 2]
        victim = min(suspects, key=lambda w: (w.actor is not None, not w.idle, -w.since))
        usage = [
            f"{_doing(worker)} {human_bytes(size)}"
            for worker, size in sorted(sizes.items(), key=lambda item: -item[1])
        ]
        granted = self._state.budget.granted
        others = event.total - event.available - granted - sum(sizes.values())
        victim.kill_reason = (
            f"was ended because memory ran short ({human_bytes(event.available)} of "
            f"{human_bytes(event.total)} were left; in use: {', '.join(usage)}, the store "
            f"{human_bytes(granted)}, notebooks and other programs {human_bytes(max(others, 0))})"
        )
        victim.alone = not any(w.sent for w in self._scheduler.workers.values() if w is not victim)
        self._ending = victim.number
        self._state.out.append(do.Kill(victim.number))


def _doing(worker: Worker) -> str:
    if worker.actor is not None:
        return worker.actor.name
    task = worker.running
    return f"worker {worker.number}" if task is None else f"`{task.submit.name}`"
