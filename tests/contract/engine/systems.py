"""What the notebooks run on: one machine's workers, a Ray cluster, a Dask cluster. No tests.

A cluster is started by a process of its own (`cluster`), is one of three nodes with two processors
each, on this machine, and ends with the suite.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from typing import Any

from tests.leaks import eventually, processes_of

ENGINES = ("local", "ray", "dask")
"""All there are."""

NODES, SLOTS = 3, 2
"""Of a cluster: machines, and processors of each."""


class System(ABC):
    """One engine's surroundings. As many tasks run at a time as there are ``workers``.

    ``start`` is the one line in which notebooks differ: what stands behind `%workbench start`;
    ``again`` is the same where a notebook's session is found again, ``options`` for `init`.
    """

    name: str
    workers: int
    start: str
    again: str
    options: str

    def __init__(self) -> None:
        self.directory = tempfile.mkdtemp(prefix="wb-")

    @property
    def environment(self) -> dict[str, str]:
        """Of a notebook's kernel, and of what it starts."""
        return {
            "WORKBENCH_RUNTIME_DIR": self.directory,
            "WORKBENCH_HEADROOM": "0",
            "WORKBENCH_SPILL_DIR": "none",
            "XDG_CONFIG_HOME": self.directory,
        }

    @abstractmethod
    def left(self) -> list[str]:
        """What a session that is over has left behind, each by name."""

    def close(self) -> None:
        """End what was started for it."""
        shutil.rmtree(self.directory)


class Local(System):
    name = "local"
    workers = 2
    start = "--workers 2 --memory 64MB"
    again = ""  # `%load_ext` has found it
    options = "workers=2, memory='64MB'"

    def left(self) -> list[str]:
        files = [name for name in os.listdir(self.directory) if ".workbench" in name]
        return files + [f"process {p.pid}" for p in processes_of(self.directory)]


class Cluster(System):
    """A cluster in a process of its own, which is asked for things line by line."""

    workers = NODES * SLOTS

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"tests.contract.engine.{name}_cluster", self.directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **self.environment, "PYTHONWARNINGS": "ignore"},
            start_new_session=True,  # a Ctrl-C that ends the suite leaves it to `close`
        )
        try:
            self.address: str = self._answer()
        except AssertionError:  # what it said is on stderr
            self.close()
            raise
        self.start = self.again = f"--engine {self.name} --address {self.address}"
        self.options = f"engine={self.name!r}, address={self.address!r}"

    def ask(self, what: str, *arguments: Any) -> Any:
        """Have the cluster's process do something: the function of that name there."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([what, *arguments]).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"> "):  # what it prints besides is the system's own talk
                return json.loads(line[2:])
            assert not line.startswith(b"! "), json.loads(line[2:])
        raise AssertionError(f"the {self.name} cluster has gone")

    def left(self) -> list[str]:
        found: list[str] = self.ask("left")
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert eventually(lambda: self._process.poll() is not None), "it doesn't end"
        assert self._process.stdout is not None
        self._process.stdout.close()
        super().close()


def system_of(name: str) -> System:
    """The one of that name, started."""
    return Local() if name == "local" else Cluster(name)
