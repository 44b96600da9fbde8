"""Component: notices that nobody uses the session, and releases workers and free memory.

The pool's workers end (the forkserver stays, so that new ones start in some 10 ms), and free memory
in the processes' arenas goes back to the machine, for other sessions. Inspecting the session
doesn't count as use.
"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.leases import LeaseManager
from workbench.core.memory_monitor import MemoryMonitor
from workbench.core.state import State

USES = frozenset((
    ev.Submit, ev.SubmitCalls, ev.Create, ev.Done, ev.Yielded, ev.Took, ev.Output, ev.Sealed,
    ev.Want, ev.View, ev.Grow, ev.Refresh,
))  # fmt: skip
"""Messages that count as use. So does any task that isn't over."""


LEFT = 5.0
"""Seconds without use until a session without drivers rests: a kernel that restarts takes less."""


class Idleness:
    """Timer for the release. ``seconds``: how long nobody must have used the session; 0: never."""

    def __init__(
        self, state: State, seconds: float, leases: LeaseManager, monitor: MemoryMonitor
    ) -> None:
        self._state = state
        self._monitor = monitor
        self._leases = leases
        self._seconds = seconds
        self._used_at: float | None = None  # None: no event yet
        self._resting = not seconds
        self._patience = seconds

    def note_use(self, batch: Iterable[tuple[int, ev.Event]]) -> None:
        """Note whether a batch that was handled uses the session."""
        for _, event in batch:
            if type(event) in USES or self._used_at is None:
                self._used_at = self._state.now
                self._resting = not self._seconds
                return

    def on_last_driver_left(self, final: bool) -> None:
        """Note that the last driver has left. ``final``: a person shut it down, so it won't
        restart, and nothing else keeps the session."""
        self._monitor.gives_way = final
        self._patience = 0.0 if final else min(LEFT, self._seconds)
        if self._used_at is not None:
            self._used_at = self._state.now

    def on_driver_joined(self) -> None:
        self._monitor.gives_way = False
        self._patience = self._seconds

    @property
    def due(self) -> float | None:
        """Time at which `end_batch` has something to do, if nobody uses the session until then."""
        if self._used_at is None or self._resting or self._state.scheduler.tasks:
            return None
        return self._used_at + self._patience

    def end_batch(self) -> None:
        """Release workers and free memory, once, when it is time."""
        state, due = self._state, self.due
        if due is None or state.now < due:
            return
        if self._leases.take_back_all():  # tasks may go by them that aren't known here yet
            self._used_at = state.now
            return
        self._resting = True
        for worker in state.pool.rest():
            assert worker.client is not None
            state.dismiss(worker.client, "nobody uses the session")
        for client, nbytes in state.budget.trim_all(state.now):
            state.send(client, do.Trim(nbytes))
