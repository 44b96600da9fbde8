"""`python tests/benchmarks/grid_memory.py [MB] [WORKERS]`: memory that a grid search takes.

scikit-learn copies the rows of each fold (once the data for every fit that runs): the first line is
that, measured with one job alone. What a backend adds is what is more than that, for each job.
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
    "alone": "one job, nothing shared",
    "workbench": "Workbench, data of the notebook's own",
    "stored": "Workbench, data from the store (`%put --replace x`)",
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


def search(x: Any, backend: str, workers: int) -> None:
    from joblib import parallel_config
    from sklearn.dummy import DummyRegressor
    from sklearn.model_selection import GridSearchCV

    grid = {"quantile": [0.2, 0.4, 0.6, 0.8]}
    with parallel_config(backend, n_jobs=workers):
        GridSearchCV(DummyRegressor(strategy="quantile"), grid, cv=4).fit(x, x[:, 0].copy())


def run(name: str, megabytes: int, workers: int) -> None:
    """Print how much memory there was before the search, and at most while it ran, in bytes."""
    backend = {"alone": "sequential", "stored": "workbench"}.get(name, name)
    if backend == "workbench":
        import workbench as wb

        wb.init(workers=workers, memory=f"{2 * megabytes + 200}MB")
        wb.register_joblib()
    search(np.ones((100, 100)), backend, workers)  # workers started, modules imported
    x = np.random.default_rng(0).random((megabytes * 1250, 100))
    if name == "stored":
        x = wb.get(wb.put(x))
    before = peak = memory()
    is_over = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not is_over.wait(EVERY):
            peak = max(peak, memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    search(x, backend, workers)
    seconds = time.perf_counter() - began
    is_over.set()
    watcher.join()
    print(before, peak, x.nbytes, seconds)


def main() -> None:
    megabytes, workers = ([int(n) for n in sys.argv[1:3]] + [1000, 4][len(sys.argv) - 1 :])[:2]
    needed = 0.0
    for name, text in RUNS.items():
        command = [sys.executable, __file__, "--run", name, str(megabytes), str(workers)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        before, peak, size, seconds = map(float, out.split()[-4:])
        more = (peak - before) / size
        if name == "alone":
            needed = more
            added = ""
        else:
            added = f"   added: {more - workers * needed:+.2f} x"
        print(
            f"{text:52} before {before / 1e6:6.0f} MB   more at most {more:5.2f} x the data"
            f"{added}   {seconds:.1f} s"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
