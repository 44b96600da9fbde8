"""Component: how long the session waits for its first driver and is kept after its last; when it
rests, because nobody uses it; and which drivers died.

At rest the pool's workers end (the forkserver stays, so that new ones start in some 10 ms), and
free memory in the processes' arenas goes back to the machine, for other sessions. Inspecting the
session doesn't count as use.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass, field

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.job_manager import JobManager
from workbench.core.leases import LeaseManager
from workbench.core.loop_events import DriverExited
from workbench.core.memory_monitor import MemoryMonitor
from workbench.core.snapshot import DeathRecord
from workbench.core.snapshot_builder import client_record
from workbench.core.state import ClientState, State

FINAL = 10.0
"""Seconds a session is kept after a person shut down its last kernel; less if memory is short."""

ALONE_AT_START = 30.0
"""Seconds a new session waits for its first driver before it gives up."""

LEFT = 5.0
"""Seconds without use until a session without drivers rests: a kernel that restarts takes less."""

MOST_DEATHS = 20  # names of drivers of which the last death is remembered

ASKED = -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP
"""Statuses of drivers that were asked to end: by Jupyter, if a kernel that is to restart doesn't
answer, or by a terminal that closed. Who asked knows."""

USES = frozenset((
    ev.Submit, ev.SubmitCalls, ev.Create, ev.Done, ev.Yielded, ev.Took, ev.Output, ev.Sealed,
    ev.Want, ev.View, ev.Grow, ev.Refresh,
))  # fmt: skip
"""Messages that count as use. So does any task that isn't over."""


@dataclass(eq=False)
class Lifetime:
    """See the module."""

    _state: State
    _jobs: JobManager
    _leases: LeaseManager
    _monitor: MemoryMonitor
    _idle: float  # seconds without use until the session rests; 0: never
    _used_at: float | None = None  # None: no event yet
    due: float | None = None  # when the session ends, unless a driver comes before
    # Drivers that left without Bye, with the time; their processes may go on, as after `os.execv`.
    _left: dict[int, tuple[float, ClientState]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._patience, self._resting = self._idle, not self._idle

    def on_driver_joined(self, hello: ev.Hello) -> None:
        self.due = None
        self._state.linger = max(self._state.linger, hello.linger)
        self._monitor.gives_way = False
        self._patience = self._idle

    def on_client_left(self, client: ClientState) -> None:
        """Note that a driver has left (it isn't in the clients any more)."""
        if client.said_bye:
            self._state.deaths.pop(client.hello.label, None)
        else:
            self._left[client.number] = self._state.now, client
        if all(other.role != "driver" for other in self._state.clients.values()):
            kept = self._kept_for(client)
            self.due, self._used_at = self._state.now + kept, self._state.now
            final = client.final and kept <= FINAL  # it won't restart; nothing else keeps it
            if final:
                self._monitor.give_way()
            self._patience = 0.0 if final else min(LEFT, self._idle)

    def noted(self, client: ClientState, event: ev.CellNote) -> None:
        client.note, client.noted = event, self._state.now

    def driver_exited(self, event: DriverExited) -> None:
        """Remember a death, until the next driver of that name, mostly the same notebook's, has
        left in order."""
        at, driver = self._left.pop(event.client, (0.0, None))
        if driver is not None and event.status not in ASKED:
            deaths, hello = self._state.deaths, driver.hello
            deaths.pop(hello.label, None)
            killed, why = self._monitor.ended
            record, since = client_record(driver), at - driver.noted
            why = why if killed == record.pid else ""
            died = DeathRecord(record, event, driver.note, since, why=why)
            deaths[hello.label] = at, died
            if len(deaths) > MOST_DEATHS:
                del deaths[next(iter(deaths))]

    def give_up(self) -> None:
        """End the session: its starter died before its Hello, so no driver will come."""
        self.due = self._state.now

    def keep(self, client: ClientState, event: ev.Keep) -> None:
        self._state.linger = event.linger

    def end(self, client: ClientState, event: ev.EndSession) -> None:
        """End the session for an admin: tell drivers why, then exit."""
        for number, other in self._state.clients.items():
            if other.role == "driver":
                self._state.send(number, do.Ended(event.reason))
        self._state.out.append(do.Exit())

    def begin_batch(self, batch: Iterable[tuple[int, ev.Event]]) -> None:
        """Note whether a batch uses the session; with the first one, the wait for a driver
        begins."""
        if self._used_at is None:
            self.due = self._state.now + ALONE_AT_START
        for _, event in batch:
            if type(event) in USES or self._used_at is None:
                self._used_at = self._state.now
                self._resting = not self._idle
                return

    @property
    def rests_at(self) -> float | None:
        """Time at which the session rests, if nobody uses it until then."""
        if self._used_at is None or self._resting or self._state.scheduler.tasks:
            return None
        return self._used_at + self._patience

    def rest(self) -> None:
        """Release workers and free memory, once, when it is time."""
        state, due = self._state, self.rests_at
        if due is None or state.now < due:
            return
        if self._leases.take_back_all():  # tasks may go by them that aren't known here yet
            self._used_at = state.now
            return
        self._resting = True
        for worker in state.pool.rest():
            state.dismiss(worker, "nobody uses the session")
        for client, nbytes in state.budget.trim_all(state.now):
            state.send(client, do.Trim(nbytes))

    def end_batch(self) -> None:
        if self.due is not None and self._state.now >= self.due:
            self._state.out.append(do.Exit())

    def _kept_for(self, last: ClientState) -> float:
        if last.graceful:
            return 0.0
        linger = self._state.linger
        if not last.final or linger > last.hello.linger or self._jobs.are_awaited:
            return linger  # it may restart; somebody asked for longer; a cell's end is unseen
        return min(linger, FINAL)
