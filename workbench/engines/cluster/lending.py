"""Futures in a cluster's tasks: who waits for one waits first as the system wants it, which lets
other tasks run meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from workbench.engine.lending_future import Missing
from workbench.engines.cluster.backend import Backend
from workbench.engines.cluster.entries import Entries


class NativeLending:
    """An `engine.lending_future.Lending`. Callbacks, and what asyncio awaits, lend nothing."""

    def __init__(self, backend: Backend, entries: Entries) -> None:
        self._backend = backend
        self._entries = entries

    @contextmanager
    def waiting(
        self, missing: Missing, enough: int = 0, item: int = 0, timeout: float | None = None
    ) -> Iterator[None]:
        natives = self._entries.awaited(missing())
        if natives and not item:
            self._backend.wait(natives, min(enough, len(natives)) or len(natives), timeout)
        yield

    def begin(self, objects: Iterable[int], enough: int = 0, item: int = 0) -> int:
        """Nobody stands still here, so there is nothing to lend by."""
        return 0

    def end(self, number: int) -> None:
        """It lent nothing."""

    def polled(self, objects: Iterable[int]) -> None:
        """The same."""
