"""Component: notices that nobody uses the session, and gives back what is kept ready for work.

The pool's workers end (the forkserver stays, so that they are back in some 10 ms), and memory that
is free in the processes' arenas goes back to the machine, for other sessions. Whoever looks at the
session doesn't use it.
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
"""What somebody says who works. While a task isn't over, somebody does."""


LEFT = 5.0
"""Seconds without use after which nobody's session rests: a kernel that restarts is back sooner."""


class Idleness:
    """See the module. ``seconds`` without use; 0: however long it takes."""

    def __init__(
        self, state: State, seconds: float, leases: LeaseManager, monitor: MemoryMonitor
    ) -> None:
        self._state = state
        self._monitor = monitor
        self._leases = leases
        self._seconds = seconds
        self._used_at: float | None = None  # it hasn't begun
        self._resting = not seconds
        self._patience = seconds

    def note(self, batch: Iterable[tuple[int, ev.Event]]) -> None:
        """These events were handled."""
        for _, event in batch:
            if type(event) in USES or self._used_at is None:
                self._used_at = self._state.now
                self._resting = not self._seconds
                return

    def left(self, final: bool) -> None:
        """The last driver has gone; ``final``: a person has ended it, so it won't restart, and
        nothing else keeps the session."""
        self._monitor.gives_way = final
        self._patience = 0.0 if final else min(LEFT, self._seconds)
        if self._used_at is not None:
            self._used_at = self._state.now

    def joined(self) -> None:
        """A driver has come."""
        self._monitor.gives_way = False
        self._patience = self._seconds

    @property
    def due(self) -> float | None:
        """When `settle` has something to do, should nobody use the session until then."""
        if self._used_at is None or self._resting or self._state.scheduler.tasks:
            return None
        return self._used_at + self._patience

    def settle(self) -> None:
        """Give back what is kept ready, once, when it is time."""
        state = self._state
        if self._resting or state.scheduler.tasks:
            return
        due = self.due
        if due is None or state.now < due:
            return
        if self._leases.take_back_all():  # tasks that go by them aren't all heard of
            self._used_at = state.now
            return
        self._resting = True
        for worker in state.pool.rest():
            assert worker.client is not None
            state.dismiss(worker.client, "nobody uses the session")
        for client, nbytes in state.budget.cool(state.now):
            state.send(client, do.Trim(nbytes))
