"""The memory model: to disk and back, and a store that is full."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import limits
import numpy as np
import tasks
from pools import Effort, Sample, rates, times

import workbench
from workbench.config import load


def measure(rows: Collection[str], effort: Effort) -> Sample:
    measures = {"spill": _spill, "full": _full}
    return {name: value for row in rows for name, value in measures[row](effort).items()}


@contextmanager
def session(memory: str, workers: int = 1) -> Iterator[None]:
    """A session in which one measures."""
    workbench.init(workers=workers, memory=memory, spill_dir=_disk())
    try:
        yield
    finally:
        gc.collect()
        workbench.shutdown()


def _disk() -> str:
    return load().spill_dir or tempfile.gettempdir()


def _spill(effort: Effort) -> Sample:
    """100 MB to disk, beside `sendfile`; and read back and added up, beside `readv` and that."""
    array = np.random.default_rng(1).random(tasks.ELEMENTS)
    warm = np.empty_like(array)
    rounds: list[Sample] = []
    limits.settle_memory(30 * array.nbytes)
    with session("1.5GB"), limits.disk_of(_disk(), array) as (write, read):
        held = [workbench.put(array) for _ in range(12)]
        for ref in held:  # so that nothing comes back by itself: four fifths are taken
            workbench.pin(ref)

        def read_and_added() -> None:
            read(warm)
            warm.sum()

        actions = {
            "spill": lambda: workbench.spill(held[-1]),
            "sendfile": write,
            "read_back": lambda: workbench.get(held[-1]).sum(),
            "readv": read_and_added,
        }
        for _ in range(max(5, int(7 * effort.seconds))):
            held.append(workbench.put(array))
            rounds.append(times(Effort(0), 1, **actions))
    seconds = {name: float(np.median([each[name] for each in rounds])) for name in actions}
    return rates(array.nbytes, seconds)


def _full(effort: Effort) -> Sample:
    """Puts of 100 MB into a store of 500 MB that is full: something has to go for each."""
    array = np.random.default_rng(1).random(tasks.ELEMENTS)
    limits.settle_memory(50 * array.nbytes)
    with session("500MB"), limits.disk_of(_disk(), array) as (write, _):
        held = [workbench.put(array) for _ in range(8)]
        put = lambda: held.append(workbench.put(array))
        return rates(array.nbytes, times(effort, 10, put_full=put, sendfile_full=write))
