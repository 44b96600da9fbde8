"""`python tests/benchmarks/grid_memory.py [MB] [WORKERS]`: memory that a grid search takes in all.

For it scikit-learn copies the rows of each fold: once the data for every fit that runs. Each figure
is what all processes together have, the data included, as a multiple of the data; and beside it, as
a multiple of what as many searches take in processes that have the data without that anybody passes
it.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

EVERY = 0.02
"""Seconds between two looks."""

RUNS = {
    "alone": "a search alone, in as many processes at once",
    "workbench": "Workbench, an array of the notebook's",
    "stored": "Workbench, a stored one (`%put --replace x`)",
    "loky": "loky",
}


def memory() -> int:
    """Bytes: what each process has for itself, and what is shared once."""
    own, shared = 0, dict[tuple[int, int], int]()
    this = psutil.Process()
    for pid in (this.pid, *(child.pid for child in this.children(recursive=True))):
        try:
            # Of pages that forked processes share, each has a part.
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss_Anon:"):
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


def search(x: Any) -> None:
    from sklearn.dummy import DummyRegressor
    from sklearn.model_selection import GridSearchCV

    grid = {"quantile": [0.2, 0.4, 0.6, 0.8]}
    GridSearchCV(DummyRegressor(strategy="quantile"), grid, cv=4).fit(x, x[:, 0].copy())


def shared(shape: tuple[int, int]) -> npt.NDArray[np.float64]:
    """An array that forked processes have, too; `memory` finds it by its descriptor."""
    file = os.memfd_create("data")
    os.truncate(file, shape[0] * shape[1] * 8)
    return np.frombuffer(mmap.mmap(file, 0)).reshape(shape)


def searches(x: Any, workers: int) -> None:
    """As many processes as there are workers search, each by itself."""
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=search, args=(x,)) for _ in range(workers)]
    for child in children:
        child.start()
    for child in children:
        child.join()


def peak_of(work: Callable[[], None]) -> int:
    """Bytes of memory at most while it runs."""
    peak = memory()
    is_over = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not is_over.wait(EVERY):
            peak = max(peak, memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    work()
    is_over.set()
    watcher.join()
    return max(peak, memory())


def run(name: str, megabytes: int, workers: int) -> None:
    """Print how much memory there was at most beyond what there is without the data, in bytes."""
    from joblib import parallel_config

    if name in ("workbench", "stored"):
        import workbench as wb

        wb.init(workers=workers, memory=f"{2 * megabytes + 200}MB")
        wb.register_joblib()

    def work(x: Any) -> None:
        if name == "alone":
            searches(x, workers)
        else:
            with parallel_config("loky" if name == "loky" else "workbench", n_jobs=workers):
                search(x)

    work(np.ones((1000, 100)))  # workers started, modules imported
    before = memory()
    shape = megabytes * 1250, 100
    x = shared(shape) if name == "alone" else np.empty(shape)
    np.random.default_rng(0).random(out=x)
    if name == "stored":
        ref = wb.put(x)
        x = wb.get(ref)
    began = time.perf_counter()
    peak = peak_of(lambda: work(x))
    seconds = time.perf_counter() - began
    print((peak - before) / x.nbytes, seconds)


def main() -> None:
    """Each run in processes of its own."""
    given = sys.argv[1:3]
    megabytes, workers = [*given, *["1000", "4"][len(given) :]]
    alone = None
    for name, text in RUNS.items():
        command = [sys.executable, __file__, "--run", name, megabytes, workers]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        times, seconds = map(float, out.split()[-2:])
        alone = alone or times
        beside = f"{times / alone:5.2f} x alone"
        print(f"{text:46} {times:5.2f} x the data  {beside}   {seconds:5.1f} s", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
