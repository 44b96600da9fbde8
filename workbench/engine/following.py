"""What one reader asks for again and again: refs that become ready, what changes in a session."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Protocol

from workbench.core.snapshot import Change
from workbench.ref import ObjectRef


class Arrivals(Protocol):
    """Refs in the order in which they become ready, for one reader. Close it when you stop.

    Each ref is looked at once, however many there are.
    """

    def add(self, refs: Iterable[ObjectRef]) -> None:
        """Wait for these too. One that it waits for already makes no difference."""

    def take(self) -> ObjectRef | None:
        """One that is ready; None if there is none now."""

    def next(self, timeout: float | None = None) -> ObjectRef | None:
        """Wait for one that is ready; None if time is up."""

    def soon(self) -> Future[None] | None:
        """A future of there being one; None if there is one now."""

    def close(self) -> None:
        """Take no more; what hasn't come isn't waited for."""


class Changes(Protocol):
    """What changes in a session, for one thread. Close it when you stop."""

    def next(self, timeout: float | None = None) -> Change | None:
        """Wait until something has changed since the last one, the first time: everything.

        None if time is up, or if the session is over. What changes while nobody asks adds up to
        one change, so whoever asks sets the pace.
        """

    def interrupt(self) -> None:
        """From any thread: have `next` return, now or when it is called, with None."""

    def hurry(self) -> None:
        """From any thread: have `next` look at once, even right after another look."""

    @property
    def is_over(self) -> bool:
        """Whether there will be no more."""

    def close(self) -> None:
        """Follow the session no longer."""
