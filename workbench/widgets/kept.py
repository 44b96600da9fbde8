"""What the notebook keeps of its variables, for views: `ipython.keeping` says it here.

Imports no widget library: it is made before anything is shown.
"""

from __future__ import annotations

from collections.abc import Callable

from workbench import context
from workbench.checkpoints.timeline import Timeline
from workbench.engine.base import Engine, Observed
from workbench.report.history import CellHistory


class Kept:
    """One session's, a companion of it. ``check_out`` takes the numbers of a checkpoint and of the
    present one, as a page knows it; it waits for the main thread, so it is called in others."""

    def __init__(self, engine: Engine | None) -> None:
        self.timeline: Timeline | None = None
        self.check_out: Callable[[int, int], str] | None = None

    @property
    def history(self) -> CellHistory | None:
        """The cells; None if nothing is kept. Any thread.

        Don't keep it: it holds what is stored.
        """
        shown = ((), {}, "") if self.timeline is None else self.timeline.shown
        return CellHistory(*shown) if shown[0] else None


def kept_in(engine: Observed) -> Kept:
    """Return what is kept in a session; of another one than the current: nothing."""
    return context.companion(Kept) if context.get() is engine else Kept(None)
