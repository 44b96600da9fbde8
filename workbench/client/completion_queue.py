"""Completion queue: refs in the order in which they become ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from workbench.client.objects import KnownObjects
from workbench.engine.following import Arrivals
from workbench.engine.lending_future import Missing
from workbench.ref import ObjectRef

SOME = 100
"""Most pending objects to name to the server in one wait for the next."""


@dataclass(eq=False)
class CompletionQueue(Arrivals):
    """Refs in the order of completion. ``_wait_for(done, timeout, missing, enough)`` reads until
    ``done()``, when ``enough`` of the missing are ready; ``_make_future(missing)`` makes a future.
    """

    _objects: KnownObjects
    _wait_for: Callable[[Callable[[], bool], float | None, Missing, int], bool]
    _make_future: Callable[[Missing], Future[Any]]
    _flush: Callable[[], object]
    _sleeps: bool = False  # its reader is in `next`

    def _announce(self, new: Sequence[ObjectRef]) -> None:
        self._objects.announce([ref.id for ref in new], self)
        if self._sleeps:
            with suppress(IndexError):
                # Ready already: its reader sleeps and can be woken only by another message.
                self._objects.ask_again(self._ready[0].id)

    def _wait(self, timeout: float | None) -> None:
        self._sleeps = True
        try:
            self._wait_for(lambda: bool(self._ready), timeout, self._next_ones, 1)
        finally:
            self._sleeps = False

    def _next_ones(self) -> list[int]:
        """Return the first `SOME` pending ids, so that a wait doesn't list all of many."""
        while True:
            try:
                return list(islice(self._pending, SOME))
            except RuntimeError:  # one came meanwhile
                continue

    def _new_future(self) -> Future[Any]:
        self._flush()
        return self._make_future(self._next_ones)

    def close(self) -> None:
        self._objects.withdraw(list(self._pending), self)
        super().close()
