"""The memory model: to disk and back, a store that is full, and very many objects."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import limits
import numpy as np
import psutil
import tasks
from pools import Effort, Sample, times

import workbench
from contestants.workbench import Workbench
from workbench.config import load

SMALL, SHARED = 1_000_000, 100_000
"""How many objects make a crowd: inline ones, and such that lie in a segment."""

SHARED_BYTES = 20_000
"""Of one of the latter: just above what travels inline."""


def measure(rows: Collection[str], effort: Effort) -> Sample:
    measures = {"spill": _spill, "full": _full, "crowd": _crowd}
    return {name: value for row in rows for name, value in measures[row](effort).items()}


@contextmanager
def _session(memory: str) -> Iterator[None]:
    workbench.init(workers=1, memory=memory, spill_dir=_disk())
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
    seconds: dict[str, list[float]] = {}
    limits.settle_memory(30 * array.nbytes)
    with _session("1.5GB"), limits.disk_of(_disk(), array) as (write, read):
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
            for name, action in actions.items():
                (taken,) = times(Effort(0), action, least=1)
                seconds.setdefault(name, []).append(taken)
    return {name: array.nbytes / float(np.median(each)) for name, each in seconds.items()}


def _full(effort: Effort) -> Sample:
    """Puts of 100 MB into a store of 500 MB that is full: something has to go for each."""
    array = np.random.default_rng(1).random(tasks.ELEMENTS)
    limits.settle_memory(50 * array.nbytes)
    with _session("500MB"), limits.disk_of(_disk(), array) as (write, _):
        held = [workbench.put(array) for _ in range(8)]
        put, written = times(effort, lambda: held.append(workbench.put(array)), write, least=10)
    return {"put_full": array.nbytes / put, "sendfile_full": array.nbytes / written}


def _crowd(effort: Effort) -> Sample:
    """What the server needs for each of very many objects, and what one put more takes then."""
    data = bytes(SHARED_BYTES)
    sample: Sample = {}
    crowds: tuple[tuple[str, int, Callable[[], Any]], ...] = (
        ("small", SMALL, lambda: workbench.put(1)),
        ("shared", SHARED, lambda: workbench.put(data)),
    )
    for name, count, put in crowds:
        count //= effort.divisor
        with _session("4GB"):
            held = [put() for _ in range(1000)]
            workbench.wait(held[-1:], timeout=0)
            (sample[f"put_alone_{name}"],) = times(effort, put, least=50)
            server = psutil.Process(Workbench().server())
            before = server.memory_full_info().uss
            held += [put() for _ in range(count)]
            workbench.wait(held[:1], timeout=0)  # it has taken in all of them
            after = server.memory_full_info().uss
            sample[f"per_object_{name}"] = (after - before) / count
            (sample[f"put_crowded_{name}"],) = times(effort, put, least=50)
            del held
    return sample
