"""What a session costs over the bare system it runs on, and a notebook's sections on each engine.

    .venv-cluster/bin/python tests/benchmarks/clusters.py overhead ray dask
    .venv-cluster/bin/python tests/benchmarks/clusters.py notebook notebooks/01-first-steps.ipynb

Clusters are those of `tests/contract/engine`: three nodes of two processors each, on this machine.
The first compares with Ray's and Dask's own calls in one run, bare and ours in turn, in the same
process; the second runs the notebook unchanged, the engine being said by the environment.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests import notebooks
from tests.contract.engine.conftest import Book
from tests.contract.engine.systems import ENGINES, Cluster, system_of

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
            for what, function, count, calls in (
                (f"{TASKS} tasks of 10 ms", busy, TASKS, 1),
                (f"a burst of {BURST} empty tasks", empty, BURST, 1),
                ("an empty call, one after the other", empty, 1, 30),
            ):
                _row(what, runs, function, count, calls)
    finally:
        system.close()


def _row(
    what: str, runs: dict[str, Run], function: Callable[[int], int], count: int, calls: int
) -> None:
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


def sections(path: Path) -> dict[str, list[tuple[str, bool]]]:
    """A notebook's code cells, by the heading above them; whether each may fail."""
    found: dict[str, list[tuple[str, bool]]] = {}
    heading = path.stem
    for cell in notebooks.read(path).cells:
        if cell.cell_type == "markdown":
            lines = [line for line in cell.source.splitlines() if line.startswith("#")]
            heading = lines[-1].lstrip("# ") if lines else heading
        elif cell.cell_type == "code":
            may_fail = "raises-exception" in cell.metadata.get("tags", ())
            found.setdefault(heading, []).append((cell.source, may_fail))
    return found


def notebook(path: Path) -> None:
    """Print seconds per section, a column an engine."""
    parts = sections(path)
    seconds: dict[str, dict[str, str]] = {}
    for name in ENGINES:
        system = system_of(name)
        environment = {"WORKBENCH_ENGINE": name}
        if isinstance(system, Cluster):
            environment["WORKBENCH_ADDRESS"] = system.address
        book = Book(system, **environment)
        try:
            seconds[name] = {heading: _took(book, cells) for heading, cells in parts.items()}
            book.run("%workbench stop")
        finally:
            book.stop()
            system.close()
    width = max(map(len, parts))
    print(f"{path.name}, seconds a section (!: a cell failed)")
    print(f"  {'':<{width}} " + " ".join(f"{name:>8}" for name in ENGINES))
    for heading in parts:
        print(f"  {heading:<{width}} " + " ".join(f"{seconds[n][heading]:>8}" for n in ENGINES))


def _took(book: Book, cells: list[tuple[str, bool]]) -> str:
    began, failed = time.perf_counter(), False
    for source, may_fail in cells:
        cell = book.run(source, headless=True)
        if cell.error is not None and not may_fail:
            failed = True
            print(f"{book.system.name}: {source.splitlines()[0]}: {cell.failure}"[:2000])
    return f"{time.perf_counter() - began:.2f}{'!' * failed}"


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    for each in given:
        overhead(each) if what == "overhead" else notebook(Path(each))
