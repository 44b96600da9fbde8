"""Seeds of the global random generators, new for each task: `random`, numpy's legacy one, torch's.

Code that makes its own generator (``numpy.random.default_rng()``) seeds it itself.
"""

from __future__ import annotations

import os
import random
import sys
from contextvars import ContextVar
from typing import Any

LARGEST = 2**32 - 1
"""Largest seed that numpy's global generator takes."""

_asked: ContextVar[int | None] = ContextVar("workbench_seed", default=None)
"""Seed of the running task; None if nobody asked for one."""


def seed(number: int, item: int | None = None) -> None:
    """Seed all generators, so that the running task draws the same numbers each time.

    Without an ``item`` they are the numbers after ``random.seed(number)`` and
    ``numpy.random.seed(number)``; each item of a cell that runs per item has its own.
    """
    if item is not None:
        number = random.Random(f"{number} {item}").getrandbits(32)
    _asked.set(number)
    random.seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number)  # imports numpy.random
    _seed_torch(number)


class Seeds:
    """Seeds of a process that runs one task after the other: none draws another's numbers.

    Seeding a generator takes longer than a short task. So each generator has a twin that draws the
    same numbers: while both agree, no task has used the generator.
    """

    def __init__(self) -> None:
        self._next = int.from_bytes(os.urandom(16))  # forks have different ones
        self._twin = random.Random()
        self._numpy_twin: Any = None
        self._had_torch = "torch" in sys.modules
        self._renew_python()

    def renew(self) -> None:
        """Seed used generators anew before a task, unpredictably."""
        if random.getrandbits(32) != self._twin.getrandbits(32):
            self._renew_python()
        numpy: Any = sys.modules.get("numpy.random")
        if numpy is not None and hasattr(numpy, "RandomState"):  # else it is being imported
            twin = self._numpy_twin
            if twin is None or numpy.random_sample() != twin.random_sample():
                self._renew_numpy(numpy)
        if "torch" in sys.modules:
            _seed_torch(self._new())

    def imported(self) -> None:
        """Seed torch after an import that loaded it, if the task is seeded."""
        had, self._had_torch = self._had_torch, "torch" in sys.modules
        number = _asked.get()
        if number is not None and self._had_torch and not had:
            _seed_torch(number)

    def _new(self) -> int:
        self._next += 1
        return self._next

    def _renew_python(self) -> None:
        number = self._new()
        random.seed(number)
        self._twin.seed(number)

    def _renew_numpy(self, numpy: Any) -> None:
        # 256 bits of ours: numpy's own 32-bit seeds would collide sooner or later.
        words = [self._twin.getrandbits(32) for _ in range(8)]
        self._renew_python()
        numpy.seed(words)
        self._numpy_twin = self._numpy_twin or numpy.RandomState()
        self._numpy_twin.seed(words)


def _seed_torch(number: int) -> None:
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "manual_seed"):  # else it is just being imported
        torch.manual_seed(number & (2**63 - 1))
