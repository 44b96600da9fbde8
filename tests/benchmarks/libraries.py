"""`python tests/benchmarks/libraries.py`: executors, joblib and Pool beside their peers.

Prints a table; each ratio is of times, the peer's over ours.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Pool as ProcessPool
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config

import workbench as wb

ROUNDS = 3
WORKERS = 4


def one_more(x: int) -> int:
    return x + 1


def row_sum(x: Any, n: int) -> float:
    return float(x[n].sum())


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def grid() -> object:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    x, y = load_digits(return_X_y=True)
    return GridSearchCV(SVC(), {"C": [0.1, 1, 10], "gamma": [1e-4, 1e-3]}, cv=4).fit(x, y)


def joblib(call: Callable[[], object]) -> tuple[Callable[[], float], Callable[[], float]]:
    def under(backend: str) -> Callable[[], float]:
        def run() -> float:
            with parallel_config(backend, n_jobs=WORKERS):
                return seconds(call)

        return run

    return under("workbench"), under("loky")


def main() -> None:
    """Measure in turns, and print."""
    wb.init(workers=WORKERS)
    wb.register_joblib()
    shared: list[Any] = [np.ones((500, 10))]

    def over_shared() -> object:
        return Parallel()(delayed(row_sum)(shared[0], n) for n in range(100))

    def tiny() -> object:
        return Parallel()(delayed(one_more)(n) for n in range(10_000))

    with wb.Executor() as executor, ProcessPoolExecutor(WORKERS) as peer, \
            wb.Pool() as pool, ProcessPool(WORKERS) as their_pool:  # fmt: skip
        rows: dict[str, tuple[Callable[[], float], Callable[[], float], str]] = {
            "Executor.map of 10 000": (
                lambda: seconds(lambda: list(executor.map(one_more, range(10_000)))),
                lambda: seconds(lambda: list(peer.map(one_more, range(10_000)))),
                "ProcessPoolExecutor",
            ),
            "1 000 futures": (
                lambda: seconds(lambda: [f.result() for f in _submitted(executor)]),
                lambda: seconds(lambda: [f.result() for f in _submitted(peer)]),
                "ProcessPoolExecutor",
            ),
            "Pool.map of 10 000": (
                lambda: seconds(lambda: pool.map(one_more, range(10_000))),
                lambda: seconds(lambda: their_pool.map(one_more, range(10_000))),
                "multiprocessing.Pool",
            ),
            "Parallel over 500 MB, first call": (*joblib(over_shared), "loky"),
            "Parallel over 500 MB, later calls": (*joblib(over_shared), "loky"),
            "Parallel, 10 000 tiny calls": (*joblib(tiny), "loky"),
            "GridSearchCV on the digits": (*joblib(grid), "loky"),
        }
        for ours, theirs, _ in rows.values():  # workers started, functions known
            ours()
            theirs()
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
        for _ in range(ROUNDS):
            shared[0] = np.random.default_rng(0).random((500, 125_000))
            for name, (ours, theirs, _) in rows.items():
                taken[name].append((ours(), theirs()))
    for name, (_, _, whom) in rows.items():
        ours_, theirs_ = (statistics.median(side) for side in zip(*taken[name], strict=True))
        ratios = sorted(theirs / ours for ours, theirs in taken[name])
        print(
            f"{name:35} {ours_ * 1e3:9.1f} ms   {whom:22} {theirs_ * 1e3:9.1f} ms   "
            f"{theirs_ / ours_:6.2f} x  ({ratios[0]:.2f} … {ratios[-1]:.2f})"
        )
    wb.shutdown()


def _submitted(executor: Any) -> list[Any]:
    return [executor.submit(one_more, n) for n in range(1000)]


if __name__ == "__main__":
    main()
