"""Component: how long the session waits for its first driver, and is kept after its last."""

from __future__ import annotations

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.idleness import Idleness
from workbench.core.job_manager import JobManager
from workbench.core.state import ClientState, State

FINAL = 10.0
"""Seconds a session is kept after a person shut down its last kernel; less if memory is short."""

ALONE_AT_START = 30.0
"""Seconds a new session waits for its first driver before it gives up."""


class Lifetime:
    def __init__(self, state: State, jobs: JobManager, idleness: Idleness) -> None:
        self._state = state
        self._jobs = jobs
        self._idleness = idleness
        self.has_begun = False
        self.due: float | None = None  # when the session ends, unless a driver comes before

    def begin(self) -> None:
        self.has_begun = True
        self.due = self._state.now + ALONE_AT_START

    def on_driver_joined(self, hello: ev.Hello) -> None:
        self.due = None
        self._state.linger = max(self._state.linger, hello.linger)
        self._idleness.on_driver_joined()

    def on_client_left(self, client: ClientState) -> None:
        """Note that a driver has left (it isn't in the clients any more)."""
        if all(other.role != "driver" for other in self._state.clients.values()):
            kept = self._kept_for(client)
            self.due = self._state.now + kept
            self._idleness.on_last_driver_left(client.final and kept <= FINAL)

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
