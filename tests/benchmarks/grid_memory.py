"""`python tests/benchmarks/grid_memory.py [MB] [WORKERS]`: memory that joblib's calls take in all.

Of calls that only read one large array, and of a grid search over it, for which scikit-learn copies
the rows of each fold: once the data for every fit that runs. Each figure is what all processes
together have, the data included, as a multiple of the data.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

EVERY = 0.02
"""Seconds between two looks."""

RUNS = {
    "workbench": "Workbench, an array of the notebook's",
    "stored": "Workbench, a stored one (`%put --replace x`)",
    "loky": "loky",
}


def processes() -> Iterator[int]:
    """This one and all below it."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry))
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
        yield pid


def memory() -> int:
    """Bytes: what each process has for itself, and what is shared once."""
    own, shared = 0, dict[tuple[int, int], int]()
    for pid in processes():
        try:
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    own += int(line.split()[1]) * 1024
            for fd in Path(f"/proc/{pid}/fd").iterdir():
                if os.readlink(fd).startswith(("/memfd:", "/dev/shm/")):
                    file = fd.stat()
                    shared[file.st_dev, file.st_ino] = file.st_blocks * 512
        except OSError:  # it has just ended
            continue
    for path in Path("/dev/shm").glob("joblib_memmapping_folder_*/*"):  # of joblib's own
        file = path.stat()
        shared[file.st_dev, file.st_ino] = file.st_blocks * 512
    return own + sum(shared.values())


def reads(x: Any) -> None:
    from joblib import Parallel, delayed

    Parallel()(delayed(row_sum)(x, n) for n in range(0, len(x), 1 + len(x) // 200))


def row_sum(x: Any, n: int) -> float:
    return float(x[n : n + 1 + len(x) // 200].sum())


def searches(x: Any) -> None:
    from sklearn.dummy import DummyRegressor
    from sklearn.model_selection import GridSearchCV

    grid = {"quantile": [0.2, 0.4, 0.6, 0.8]}
    GridSearchCV(DummyRegressor(strategy="quantile"), grid, cv=4).fit(x, x[:, 0].copy())


WORK = {"reads": reads, "searches": searches}


def run(name: str, what: str, megabytes: int, workers: int) -> None:
    """Print how much memory there was at most beyond what there is without the data, in bytes."""
    from joblib import parallel_config

    backend = "loky" if name == "loky" else "workbench"
    if backend == "workbench":
        import workbench as wb

        wb.init(workers=workers, memory=f"{2 * megabytes + 200}MB")
        wb.register_joblib()
    with parallel_config(backend, n_jobs=workers):
        WORK[what](np.ones((1000, 100)))  # workers started, modules imported
        before = memory()
        x = np.random.default_rng(0).random((megabytes * 1250, 100))
        if name == "stored":
            ref = wb.put(x)
            x = wb.get(ref)
        peak = memory()
        is_over = threading.Event()

        def watch() -> None:
            nonlocal peak
            while not is_over.wait(EVERY):
                peak = max(peak, memory())

        watcher = threading.Thread(target=watch)
        watcher.start()
        began = time.perf_counter()
        WORK[what](x)
        seconds = time.perf_counter() - began
        is_over.set()
        watcher.join()
    print((peak - before) / x.nbytes, seconds)


def main() -> None:
    """Each run in processes of its own."""
    given = sys.argv[1:3]
    megabytes, workers = [*given, *["1000", "4"][len(given) :]]
    for what in WORK:
        for name, text in RUNS.items():
            command = [sys.executable, __file__, "--run", name, what, megabytes, workers]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            times, seconds = map(float, out.split()[-2:])
            print(f"{what:10} {text:46} {times:5.2f} x the data   {seconds:5.1f} s", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
