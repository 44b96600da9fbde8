"""`python tests/benchmarks/libraries.py [ROUNDS [ROWS]]`: executors, joblib and Pool beside peers.

Prints a table. Each ratio is the peer's over ours, of the medians of rounds that take turns: of
time, and of the processor time of all processes of either side. In brackets: of the shortest times.
"""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Pool as ProcessPool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, parallel_config

import workbench as wb

ROUNDS = 15
WORKERS = 4
SETTLE = 0.02
"""Seconds after a round in which processes put things in order: that is counted, too."""


class Row(NamedTuple):
    ours: Callable[[], object]
    theirs: Callable[[], object]
    peer: str
    before: Callable[[], object] = gc.collect


class Taken(NamedTuple):
    seconds: float
    processor: float


def one_more(x: int) -> int:
    return x + 1


def row_sum(x: Any, n: int) -> float:
    return float(x[n].sum())


def whole_sum(x: Any, n: int) -> float:
    return float(x.sum()) + n


# -- what it takes ---------------------------------------------------------------------------------


def family() -> Iterator[int]:
    """This process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        children.setdefault(parent, []).append(int(status.parent.name))
    left = [os.getpid()]
    for pid in left:
        yield pid
        left += children.get(pid, [])


def processor(pids: Iterator[int]) -> dict[int, float]:
    """Seconds of a processor that each has used; first of ourselves: to look takes some."""
    found = {os.getpid(): time.process_time()}
    for pid in pids:
        try:
            found.setdefault(pid, time.clock_gettime((~pid << 3) | 2))  # clock_getcpuclockid(3)
        except OSError:
            continue
    return found


def measure(call: Callable[[], object]) -> Taken:
    before = processor(family())
    before[os.getpid()] = time.process_time()
    began = time.perf_counter()
    call()
    seconds = time.perf_counter() - began
    threading.Event().wait(SETTLE)
    after = processor(family())
    return Taken(seconds, sum(used - before.get(pid, 0.0) for pid, used in after.items()))


# -- what is done ----------------------------------------------------------------------------------


def grid() -> object:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    x, y = load_digits(return_X_y=True)
    return GridSearchCV(SVC(), {"C": [0.1, 1, 10], "gamma": [1e-4, 1e-3]}, cv=4).fit(x, y)


def in_parallel(call: Callable[[], object], before: Callable[[], object] = gc.collect) -> Row:
    def under(backend: str) -> Callable[[], object]:
        def run() -> object:
            with parallel_config(backend, n_jobs=WORKERS):
                return call()

        return run

    return Row(under("workbench"), under("loky"), "loky", before)


def script(code: str) -> Callable[[], object]:
    """A process of its own."""
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)


def first_call(pool: str) -> str:
    return f"from {pool}; p = Pool(4); p.apply(abs, (1,)); p.terminate()"


class Rows:
    def __init__(self) -> None:
        executor, pool = wb.Executor(), wb.Pool()
        self.peer, self.their_pool = ProcessPoolExecutor(WORKERS), ProcessPool(WORKERS)
        peer, theirs = self.peer, self.their_pool
        numbers = range(10_000)
        self.all = {
            "Executor.map of 10 000": Row(
                lambda: list(executor.map(one_more, numbers)),
                lambda: list(peer.map(one_more, numbers)),
                "ProcessPoolExecutor",
            ),
            "1 000 futures": Row(
                lambda: _results(executor), lambda: _results(peer), "ProcessPoolExecutor"
            ),
            "Pool.map of 10 000": Row(
                lambda: pool.map(one_more, numbers),
                lambda: theirs.map(one_more, numbers),
                "multiprocessing.Pool",
            ),
            "Parallel, 10 000 tiny calls": in_parallel(
                lambda: Parallel()(delayed(one_more)(n) for n in numbers)
            ),
            "500 MB, first call, rows": in_parallel(self._over(row_sum, 100), self._renew),
            "500 MB, later calls, rows": in_parallel(self._over(row_sum, 100)),
            "500 MB, first call, all of it": in_parallel(self._over(whole_sum, 8), self._renew),
            "GridSearchCV on the digits": in_parallel(grid),
            "a script's first call": Row(
                script(first_call("workbench import Pool")),
                script(first_call("multiprocessing import Pool")),
                "multiprocessing.Pool",
            ),
            "import of Executor": Row(
                script("from workbench import Executor"),
                script("from concurrent.futures import ProcessPoolExecutor"),
                "ProcessPoolExecutor",
            ),
        }

    def _renew(self) -> None:
        self.array = np.random.default_rng(0).random((500, 125_000))

    def _over(self, function: Callable[[Any, int], float], calls: int) -> Callable[[], object]:
        def run() -> object:
            if not hasattr(self, "array"):
                self._renew()
            return Parallel()(delayed(function)(self.array, n) for n in range(calls))

        return run


def _results(executor: Any) -> list[Any]:
    futures = [executor.submit(one_more, n) for n in range(1000)]
    return [future.result() for future in futures]


def main(rounds: int = ROUNDS, only: str = "") -> None:
    """Measure in turns, and print."""
    wb.init(workers=WORKERS)
    wb.register_joblib()
    rows = Rows()
    for name, row in rows.all.items():
        if only not in name:
            continue
        taken: tuple[list[Taken], list[Taken]] = [], []
        for n in range(-2, rounds):  # at first workers start, and functions become known
            row.before()
            sides = [(row.ours, taken[0]), (row.theirs, taken[1])]
            for call, kept in sides if n % 2 else reversed(sides):
                try:
                    found = measure(call)
                except Exception as error:  # loky's files are gone too early sometimes
                    whose = "ours" if kept is taken[0] else row.peer
                    print(f"{name}, {whose}: {type(error).__name__}, left out")
                    continue
                if n >= 0:
                    kept.append(found)
        _print(name, row.peer, *taken)
    rows.peer.shutdown()
    rows.their_pool.terminate()
    wb.shutdown()


def _print(name: str, peer: str, ours: list[Taken], theirs: list[Taken]) -> None:
    medians = [
        [statistics.median(each[n] for each in side) for n in (0, 1)] for side in (ours, theirs)
    ]
    shortest = min(theirs).seconds / min(ours).seconds
    (seconds, used), (their_seconds, their_used) = medians
    print(
        f"{name:31} {seconds * 1e3:7.1f} ms  {peer:21} {their_seconds * 1e3:7.1f} ms  "
        f"{their_seconds / seconds:6.2f} x ({shortest:.2f})   processor {used * 1e3:7.1f}, "
        f"{their_used * 1e3:7.1f} ms  {their_used / used:6.2f} x",
        flush=True,
    )


if __name__ == "__main__":
    main(*[int(a) if a.isdigit() else a for a in sys.argv[1:]])  # type: ignore[arg-type]
