"""What a session costs over the bare system it runs on.

    .venv-cluster/bin/python tests/benchmarks/clusters.py ray dask

Clusters are those of `tests/contract/engine`: three nodes of two processors each, on this machine.
Ray's and Dask's own calls and ours take turns, in one process.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.contract.engine.systems import Cluster, system_of

ROUNDS = 9
"""How often each is measured; the median counts."""

TASKS, BURST = 120, 600
"""Tasks of 10 ms, and empty ones, submitted at once."""


def busy(n: int) -> int:
    """10 ms of work."""
    end = time.perf_counter() + 0.01
    while time.perf_counter() < end:
        pass
    return n


def empty(n: int) -> int:
    return n


Run = Callable[[Callable[[int], int], int], Any]
"""Runs a function for so many numbers at once, and waits for all."""


def runs_of(name: str, address: str) -> dict[str, Run]:
    """The system's own calls, and ours."""
    import workbench as wb

    def through(api: Any) -> Run:
        remotes = {each: api.remote(each) for each in (busy, empty)}
        return lambda function, count: api.get([remotes[function].remote(n) for n in range(count)])

    if name == "ray":
        import ray

        return {"bare": through(ray), "ours": through(wb)}
    from distributed import Client

    client = Client(address, set_as_default=False)

    def bare(function: Callable[[int], int], count: int) -> Any:
        return client.gather([client.submit(function, n, pure=False) for n in range(count)])

    return {"bare": bare, "ours": through(wb)}


def overhead(name: str) -> None:
    """Print a table of one system."""
    import workbench as wb

    system = system_of(name)
    assert isinstance(system, Cluster)
    try:
        with wb.init(engine=name, address=system.address):
            runs = runs_of(name, system.address)
            for run in runs.values():  # workers start, functions are sent
                run(busy, TASKS)
                run(empty, BURST)
            print(f"{name}, median of {ROUNDS} rounds, bare and ours in turn:")
            _row(f"{TASKS} tasks of 10 ms", runs, busy, TASKS)
            _row(f"a burst of {BURST} empty tasks", runs, empty, BURST)
            _row("an empty call, one after the other", runs, empty, 1, calls=30)
    finally:
        system.close()


def _row(what: str, runs: Any, function: Callable[[int], int], count: int, calls: int = 1) -> None:
    found: dict[str, list[float]] = {which: [] for which in runs}
    for _ in range(ROUNDS):
        for which, run in runs.items():
            began = time.perf_counter()
            for _ in range(calls):
                run(function, count)
            found[which].append((time.perf_counter() - began) / calls)
    bare, mine = (statistics.median(found[which]) for which in ("bare", "ours"))
    ratios = sorted(o / b for b, o in zip(found["bare"], found["ours"], strict=True))
    print(
        f"  {what:<36} bare {bare * 1e3:8.2f} ms   ours {mine * 1e3:8.2f} ms   "
        f"{statistics.median(ratios):.2f} × ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    )


if __name__ == "__main__":
    for each in sys.argv[1:]:
        overhead(each)
