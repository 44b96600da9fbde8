"""What the workers run. Imported by them, so it imports little itself."""

from __future__ import annotations

import time
from typing import Any

import limits
import numpy as np

MB = 1_000_000
ELEMENTS = 100 * MB // 8

_pages: Any = None


def array(nbytes: int = 8 * ELEMENTS) -> Any:
    """An array of float64, its pages touched."""
    return np.ones(nbytes // 8)


def empty() -> None:
    """The empty task."""


def take(array: Any) -> None:
    """A task with an argument, of which it does nothing."""


def make() -> Any:
    """A task that returns 100 MB."""
    return array()


def make_and_copy() -> float:
    """Seconds it takes this process to make the 100 MB and copy them once into warm pages."""
    global _pages
    if _pages is None:
        _pages = limits.shared_pages(array())
    started = time.perf_counter()
    np.copyto(_pages, array())
    return time.perf_counter() - started


def identity(value: Any) -> Any:
    """A leaf."""
    return value


def add(one: int, other: int) -> int:
    """What joins two leaves, or two of what joined others."""
    return one + other


def pass_gate(path: str) -> None:
    """A task that lasts until the gate at this path (`tests.kernel.gates`) lets it on."""
    with open(path, "rb", buffering=0) as gate:
        gate.read(1)


class Actor:
    """One whose method does nothing."""

    def empty(self) -> None:
        """See the class."""


class AsyncActor:
    """One whose method does nothing, on a loop."""

    async def empty(self) -> None:
        """See the class."""
