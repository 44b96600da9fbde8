"""Component: limits processes before memory runs short, and kills a worker when it does, before
Linux kills the notebook; in the last moment whatever took the rest. Ends the session instead if a
person has shut down its last notebook.

It says when to measure, and decides from what was measured.
"""

from __future__ import annotations

import math
from collections import defaultdict

from workbench.core import instructions as do
from workbench.core.data_limits import DataLimits
from workbench.core.loop_events import Measured
from workbench.core.state import State
from workbench.core.tasks import Worker
from workbench.format import human_bytes

SPEED = 2 << 30
"""Bytes a second at which memory fills up, at worst: about the speed of writing new pages."""

TOO_LITTLE = 64 << 20
"""Bytes: if the machine has more left, a refusal had another reason."""

SOON, LATE, IDLE = 0.03, 1.0, 2.0
"""Shortest and longest seconds between two measurements: the less is left, the shorter; and the
longest while nothing runs. A measurement takes about a millisecond of a processor."""

QUIET = 0.01
"""Share of all memory: if less was taken or freed since the last measurement, and nothing runs in
the session, the time to the next one doubles, up to `IDLE`."""

BLAMELESS = 0.02
"""Share of all memory: if no worker has that much, killing one wouldn't help."""

NEARLY_NONE, MUCH = 0.1, 0.5
"""Shares of the headroom: when less than the first is left, the process that has taken most of it
ends, if that is more than the second. Limits leave a quarter; only C code in memory that was freed
before, which no signal stops, takes more. Linux would kill the largest process, or stand still."""


class MemoryMonitor:
    """See the module. ``headroom``: bytes that must stay free; 0: memory isn't measured."""

    def __init__(self, state: State, headroom: int) -> None:
        self._state = state
        self._scheduler = state.scheduler
        self.headroom = headroom
        self._due: float | None = None  # None: nobody may take memory
        self._due_for_tasks = 0.0  # the same if there are tasks; not later
        self.gives_way = False  # no driver is left, nor likely to come back
        self._ending = 0  # the killed worker, until it has ended
        self._before: dict[int, int] = {}  # by pid: private memory when the headroom was last free
        self.ended = 0, ""  # the pid of the last driver, or what it had started, killed; and why
        self._asked = False  # a Measured is due
        self._limits = DataLimits()
        self._spare = 0  # bytes, at the last measurement
        self._wait = LATE  # seconds between the last two measurements

    @property
    def due(self) -> float | None:
        """When `end_batch` measures; None: when it sees that there is a reason."""
        return self._due_for_tasks if self._due and self._scheduler.tasks else self._due

    def end_batch(self) -> None:
        """Start measuring when there are tasks or actors; measure when it is due."""
        now = self._state.now
        if self._due is not None:
            self._due = self._due_for_tasks = now + LATE  # `measured` sets them anew
            self.request_measurement()
        elif self._has_to_look:
            self._due = self._due_for_tasks = now + SOON

    def request_measurement(self) -> None:
        if not self._asked:
            self._asked = True
            clients = self._state.clients.items() if self.headroom else ()
            watched = tuple(number for number, client in clients if client.role != "admin")
            self._state.out.append(do.Measure(watched))

    def measured(self, event: Measured) -> None:
        """Take in a measurement: decide whether to kill a worker, and when to measure again."""
        self._asked = False
        left = event.available - self.headroom
        spare = left - self._limits.note(event.processes, self._state.now)
        self._state.budget.room = spare if self.headroom else math.inf
        limits = self._limits.decide(event.processes, spare, event.available, self.headroom)
        if limits:
            self._state.out.append(do.LimitData(limits))
        if left >= 0:
            self._before = {process.pid: process.private for process in event.processes}
        elif self._ending not in self._scheduler.workers:
            if self._is_busy:
                self._relieve(event)
            if event.available < self.headroom * NEARLY_NONE:
                self._end_who_took_it(event)
        if self._has_to_look and self.gives_way and left < self._state.budget.granted + TOO_LITTLE:
            self._state.out.append(do.Exit())
        is_quiet = self._limits.is_quiet and abs(spare - self._spare) < QUIET * event.total
        wait = min(max(spare / SPEED, SOON), LATE)
        self._wait = min(2 * self._wait, IDLE) if is_quiet and not self._is_busy else wait
        self._spare = spare
        self._state.pool.memory_is_short = left < 0 < self.headroom
        self._due_for_tasks = self._state.now + wait
        self._due = self._state.now + self._wait if self._has_to_look else None

    def give_way(self) -> None:
        """From now on end the session if memory is short: no driver is left, nor likely to come
        back."""
        self.gives_way = True
        if self.headroom:
            self.request_measurement()

    def on_client_left(self, client: int) -> None:
        """Give the processes of a client that left their own limits back: they may go on."""
        limits = self._limits.release(client)
        if limits:
            self._state.out.append(do.LimitData(limits))

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
    def _is_busy(self) -> bool:
        """True if tasks or actors may take memory; `used` won't do: some need no processor."""
        return bool(self.gives_way or self._scheduler.tasks or self._scheduler.actors)

    @property
    def _has_to_look(self) -> bool:
        """True if this session may take memory: it has drivers, tasks or actors.

        Also if it has none, and may be in the way of other sessions.
        """
        clients = self._state.clients.values()
        return bool(self.headroom) and (
            self._is_busy or any(client.role == "driver" for client in clients)
        )

    def _relieve(self, event: Measured) -> None:
        """Kill one of the largest workers: an idle one, or the one with the youngest task."""
        sizes: dict[Worker, int] = defaultdict(int)
        for process in event.processes:
            worker = self._scheduler.by_client.get(process.client)
            if worker is not None:
                sizes[worker] += process.private
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

    def _end_who_took_it(self, event: Measured) -> None:
        """Kill who has taken most of the headroom, unless it, or a worker, is just ending."""
        scheduler, (last, _) = self._scheduler, self.ended
        sizes = {p.pid: p.private for p in event.processes if p.client not in scheduler.by_client}
        taken = {pid: size - self._before.get(pid, 0) for pid, size in sizes.items()}
        victim = max(taken, key=taken.__getitem__, default=0)
        is_ending = sizes.get(last) or self._ending in scheduler.workers
        if not is_ending and taken.get(victim, 0) > self.headroom * MUCH:
            left = f"{human_bytes(event.available)} of {human_bytes(event.total)} were left"
            why = f"because memory had run out: it went on taking more when {left}"
            self.ended = victim, f"was ended by Workbench {why}"
            self._state.out.append(do.EndProcess(victim))


def _doing(worker: Worker) -> str:
    if worker.actor is not None:
        return worker.actor.name
    task = worker.running
    return f"worker {worker.number}" if task is None else f"`{task.submit.name}`"
