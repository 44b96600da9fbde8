"""`python tests/benchmarks/libraries.py [ROUNDS [ROWS]]`: executors, joblib and Pool beside peers.

Prints a table. Each ratio is the peer's over ours, of the medians of rounds that take turns: of
time, and of the processor time of all processes of either side. In brackets: of the shortest times.
"""

from __future__ import annotations

import gc
import statistics
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Pool as ProcessPool
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, parallel_config
from pools import processor, processor_since

import workbench as wb

ROUNDS = 15
WORKERS = 4
SETTLE = 0.02
"""Seconds after a round in which processes put things in order: that is counted, too."""


Call = Callable[[], object]


class Row(NamedTuple):
    """``call`` is what is done with either side: an executor, a pool, or a backend's name."""

    name: str
    call: Callable[[Any], object]
    ours: Any
    theirs: Any
    peer: str
    before: Call = gc.collect


class Taken(NamedTuple):
    seconds: float
    processor: float


def one_more(x: int) -> int:
    return x + 1


def row_sum(x: Any, n: int) -> float:
    return float(x[n].sum())


def whole_sum(x: Any, n: int) -> float:
    return float(x.sum()) + n


def measure(row: Row, side: Any) -> Taken:
    before, began = processor(), time.perf_counter()
    row.call(side)
    seconds = time.perf_counter() - began
    threading.Event().wait(SETTLE)
    return Taken(seconds, processor_since(before))


def grid() -> object:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    x, y = load_digits(return_X_y=True)
    return GridSearchCV(SVC(), {"C": [0.1, 1, 10], "gamma": [1e-4, 1e-3]}, cv=4).fit(x, y)


def in_parallel(name: str, call: Call, before: Call = gc.collect) -> Row:
    def under(backend: str) -> None:
        with parallel_config(backend, n_jobs=WORKERS):
            call()

    return Row(name, under, "workbench", "loky", "loky", before)


class Large:
    """An array of 500 MB, and calls over it."""

    array: Any = None

    def renew(self) -> None:
        self.array = np.random.default_rng(0).random((500, 125_000))

    def over(self, function: Callable[[Any, int], float], calls: int) -> Call:
        def run() -> object:
            if self.array is None:
                self.renew()
            return Parallel()(delayed(function)(self.array, n) for n in range(calls))

        return run


def rows_of(peer: ProcessPoolExecutor, theirs: Any) -> list[Row]:
    executors = wb.Executor(), peer, "ProcessPoolExecutor"
    pools = wb.Pool(), theirs, "multiprocessing.Pool"
    large, numbers = Large(), range(10_000)
    return [
        Row("Executor.map of 10 000", lambda side: list(side.map(one_more, numbers)), *executors),
        Row("1 000 futures", _results, *executors),
        Row("Pool.map of 10 000", lambda side: side.map(one_more, numbers), *pools),
        in_parallel(
            "Parallel, 10 000 tiny calls", lambda: Parallel()(map(delayed(one_more), numbers))
        ),
        in_parallel("500 MB, first call, rows", large.over(row_sum, 100), large.renew),
        in_parallel("500 MB, later calls, rows", large.over(row_sum, 100)),
        in_parallel("500 MB, first call, all of it", large.over(whole_sum, 8), large.renew),
        in_parallel("GridSearchCV on the digits", grid),
    ]


def _results(executor: Any) -> list[Any]:
    futures = [executor.submit(one_more, n) for n in range(1000)]
    return [future.result() for future in futures]


def main(rounds: int = ROUNDS, only: str = "") -> None:
    """Measure in turns, and print."""
    wb.init(workers=WORKERS)
    wb.register_joblib()
    with ProcessPoolExecutor(WORKERS) as peer, ProcessPool(WORKERS) as theirs:
        for row in rows_of(peer, theirs):
            if only in row.name:
                compare(row, rounds)
    wb.shutdown()


def compare(row: Row, rounds: int) -> None:
    """Measure both sides in turns, and print a line."""
    ours: list[Taken] = []
    theirs: list[Taken] = []
    for n in range(-2, rounds):  # at first workers start, and functions become known
        row.before()
        sides = [(row.ours, ours), (row.theirs, theirs)]
        for side, kept in sides if n % 2 else reversed(sides):
            try:
                found = measure(row, side)
            except Exception as error:  # loky's files are gone too early sometimes
                print(f"{row.name}: {type(error).__name__}, left out")
                continue
            if n >= 0:
                kept.append(found)
    (seconds, used), (their_seconds, their_used) = (
        map(statistics.median, zip(*taken, strict=True)) for taken in (ours, theirs)
    )
    shortest = min(theirs).seconds / min(ours).seconds
    print(
        f"{row.name:31} {seconds * 1e3:7.1f} ms  {row.peer:21} {their_seconds * 1e3:7.1f} ms  "
        f"{their_seconds / seconds:6.2f} x ({shortest:.2f})   processor {used * 1e3:7.1f}, "
        f"{their_used * 1e3:7.1f} ms  {their_used / used:6.2f} x",
        flush=True,
    )


if __name__ == "__main__":
    main(*[int(a) if a.isdigit() else a for a in sys.argv[1:]])  # type: ignore[arg-type]
