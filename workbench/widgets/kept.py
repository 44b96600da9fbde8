"""What the notebook keeps of its variables, for views: `ipython.keeping` says it here."""

from __future__ import annotations

from collections.abc import Callable

from workbench import context
from workbench.checkpoints.timeline import Timeline
from workbench.engine.base import Engine, Observed
from workbench.report.history import CellHistory


class Kept:
    """A companion of a session. ``check_out`` takes the numbers of a checkpoint, and of the one
    that a page shows as present; it waits for the main thread."""

    def __init__(self, engine: Engine | None) -> None:
        self.timeline: Timeline | None = None
        self.check_out: Callable[[int, int], str] = lambda number, present: ""

    @property
    def history(self) -> CellHistory | None:
        """The cells, if anything is kept. It holds what is stored, so drop it soon. Any thread."""
        found = None if self.timeline is None else CellHistory(*self.timeline.shown)
        return found if found and found.checkpoints else None


def kept_in(engine: Observed) -> Kept:
    """Return what is kept in a session; of another one than the current: nothing."""
    return context.companion(Kept) if context.get() is engine else Kept(None)
