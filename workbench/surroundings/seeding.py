"""The global random generators, `random`, numpy's legacy one and torch's: seeds, states.

Each task has new seeds. A cell that runs once and that its notebook waits for has the states of the
notebook's generators, as one of its settings, and the notebook gets them back.

Code that makes its own generator (``numpy.random.default_rng()``) seeds it itself.
"""

from __future__ import annotations

import importlib
import os
import pickle
import random
import sys
from contextvars import ContextVar
from typing import Any

from workbench.surroundings.settings import Part, Setting, settings

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


def drawn() -> int:
    """Return the next number of this process's generators together: whoever seeds all of them gets
    the same numbers each time. That one comes twice is as unlikely as 32 bits make it."""
    number = random.getrandbits(32)
    if (numpy := _numpy()) is not None:
        number ^= int(numpy.randint(LARGEST, dtype="uint32"))
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "randint"):
        number ^= int(torch.randint(LARGEST, ()))
    return number


GENERATORS = "the random generators"


def generators() -> Part:
    """Return the part of the generators' states: settings of cells that run alone."""
    return settings(GENERATORS, _states, travels=True, is_told=False)


def _states() -> list[Setting]:
    return [
        Setting("random", _python_state, lambda state: random.setstate(pickle.loads(state))),
        Setting("np.random", _numpy_state, _set_numpy_state),
        Setting("torch's random generator", _torch_state, _set_torch_state),
    ]


def _numpy() -> Any:
    numpy: Any = sys.modules.get("numpy.random")
    return numpy if hasattr(numpy, "RandomState") else None  # else it is being imported


def _python_state() -> bytes:
    """Return the state in a form that is quickly compared and copied."""
    return pickle.dumps(random.getstate())


def _numpy_state() -> Any:
    """Return the state in a form that can be compared; None while it isn't loaded."""
    if (numpy := _numpy()) is None:
        return None
    kind, words, *rest = numpy.get_state()
    return kind, words.tobytes(), *rest


def _set_numpy_state(state: Any) -> None:
    if state is not None:
        numpy = importlib.import_module("numpy")
        kind, words, *rest = state
        numpy.random.set_state((kind, numpy.frombuffer(words, numpy.uint32), *rest))


def _torch_state() -> bytes | None:
    torch: Any = sys.modules.get("torch")
    return torch.get_rng_state().numpy().tobytes() if hasattr(torch, "get_rng_state") else None


def _set_torch_state(state: bytes | None) -> None:
    torch: Any = sys.modules.get("torch")
    if state is not None and torch is not None:
        torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


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
        if (numpy := _numpy()) is not None:
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
