"""A Dask cluster of three nodes on this machine: run as a process, asked by lines on its stdin.

    python -m tests.contract.engine.dask_cluster DIRECTORY

Each node is a `dask worker` with its nanny, in processes of their own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Any

import psutil

from tests.contract.engine.serving import serve
from tests.contract.engine.systems import NODES, SLOTS
from tests.leaks import eventually


class DaskCluster:
    def __init__(self, directory: str) -> None:
        from distributed import Client

        self._directory = directory
        place = os.path.join(directory, "scheduler.json")
        self._scheduler = self._run(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
            "--scheduler-file", place,
        )  # fmt: skip
        assert eventually(lambda: os.path.exists(place) and os.path.getsize(place))
        with open(place) as file:
            import json

            self.address: str = json.load(file)["address"]
        self._nodes: list[subprocess.Popen[bytes]] = []
        self._client = Client(self.address, set_as_default=False)
        for _ in range(NODES):
            self._add()

    def _add(self) -> None:
        self._nodes.append(
            self._run(
                "worker", self.address, "--nworkers", "1", "--nthreads", str(SLOTS),
                "--memory-limit", "1GB", "--no-dashboard", "--death-timeout", "60",
                "--local-directory", os.path.join(self._directory, "dask"),
            )
        )  # fmt: skip
        self._client.wait_for_workers(len(self._nodes))

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def left(self) -> list[str]:
        """Data that somebody keeps, published datasets, our plugins, children of the workers."""

        def on_scheduler(dask_scheduler: Any) -> list[str]:
            keys = [f"key {key}" for key in map(str, dask_scheduler.tasks)]
            datasets = dask_scheduler.extensions["publish"].datasets
            plugins = [n for n in dask_scheduler.plugins if "workbench" in n.lower()]
            return [*keys, *(f"dataset {d}" for d in datasets), *(f"plugin {p}" for p in plugins)]

        found: list[str] = self._client.run_on_scheduler(on_scheduler)
        for node in self._nodes:
            for child in psutil.Process(node.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):  # it ends just now
                    line = child.cmdline()
                    if any("workbench" in word for word in line):
                        found.append(f"process {child.pid}: {' '.join(line)[:80]}")
        return found

    def kill_node(self) -> None:
        """End one as if its machine had lost its power; another comes."""
        _kill(self._nodes.pop())
        workers = self._client.nthreads
        assert eventually(lambda: len(workers()) == len(self._nodes)), "it isn't missed"
        self._add()

    def close(self) -> None:
        self._client.close()
        for process in (*self._nodes, self._scheduler):
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """It and all that it has started."""
    with_it = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    for child in with_it:
        try:
            child.kill()
        except psutil.Error:
            pass
    process.wait()


if __name__ == "__main__":
    serve(DaskCluster)
