"""Completion queue: refs in the order in which they become ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice
from typing import Any

from workbench.client.objects import KnownObjects
from workbench.engine.following import Arrivals
from workbench.engine.lending_future import Missing
from workbench.ref import ObjectRef

SOME = 100
"""Most pending objects to name to the server in one wait for the next."""


class CompletionQueue(Arrivals):
    """Refs in the order of completion. ``wait(done, timeout, missing, enough)`` reads until
    ``done()``, when ``enough`` of the missing are ready; ``new_future(missing)`` makes a future.
    """

    def __init__(
        self,
        objects: KnownObjects,
        wait: Callable[[Callable[[], bool], float | None, Missing, int], bool],
        new_future: Callable[[Missing], Future[Any]],
        check: Callable[[Sequence[ObjectRef]], object],
        flush: Callable[[], object],
    ) -> None:
        super().__init__(check)
        self._objects = objects
        self._wait_for = wait
        self._make_future = new_future
        self._flush = flush
        self._sleeps = False  # its reader is in `next`

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
