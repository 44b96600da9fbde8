"""Runs the contestants in turn, each time in a fresh process, and keeps what they measured.

In rounds (A B C A B C ...), because a shared machine is faster in one minute than in the next.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import peers
import psutil
from pools import Effort, Sample
from values import VALUES

HERE = Path(__file__).parent
PATIENCE = 300
"""Seconds one contestant may take for one round."""

POOL_ROWS = (
    "put_warm", "put_cold", "get", "dict", "empty", "burst", "by_ref", "returns", "start", "memory",
)  # fmt: skip
MANY = ("fan_out", "wait", "queued")
"""Rows of those that have tasks, but no references to pass on ..."""

MORE = (*MANY, "actor", "async_actor", "actors", "tree", "waiting")
"""... and of those that have them, and actors."""


@dataclass(frozen=True)
class Contestant:
    """Who is measured for which rows. ``environment``: see `peers`; empty for our own."""

    rows: tuple[str, ...]
    environment: str = ""
    every: int = 1  # in each so-many-th round: the slow ones, which differ by more than noise


CONTESTANTS = {
    "sockets": Contestant(("empty",)),
    "pickle": Contestant(tuple(key for key in VALUES if key != "function")),
    "cloudpickle": Contestant(tuple(VALUES)),
    "workbench": Contestant((*POOL_ROWS, *MORE, "contains", *VALUES)),
    "memory": Contestant(("spill", "full", "crowd")),
    "notebook": Contestant(("start", "memory")),
    "checks": Contestant(("checks",)),
    "kernel": Contestant(("cell", "flood")),
    "page": Contestant(("views",)),
    "imports": Contestant(("import",)),
    "processpool": Contestant((*POOL_ROWS, *MANY), "peers"),
    "loky": Contestant((*POOL_ROWS, *MANY), "peers"),
    "joblib": Contestant(POOL_ROWS, "peers"),
    "ray": Contestant((*POOL_ROWS, *MORE, "contains", *VALUES), "peers", every=2),
    "dask": Contestant((*POOL_ROWS, *MORE), "peers", every=2),
    "ipyparallel": Contestant(POOL_ROWS, "peers-ipyparallel", every=2),
}

Samples = dict[str, dict[str, list[float]]]
"""Contestant → figure → one value a round."""


def run(rows: Collection[str], rounds: int, effort: Effort, scratch: Path) -> Samples:
    """All rounds. Who fails is reported and left out; the others go on."""
    playing = {name: c for name, c in CONTESTANTS.items() if set(c.rows) & set(rows)}
    for environment in sorted({c.environment for c in playing.values()} - {""}):
        try:
            peers.prepare(environment)
        except subprocess.CalledProcessError as error:
            _say(f"No .bench/{environment}, so its columns stay empty: {error}\n")
            playing = {n: c for n, c in playing.items() if c.environment != environment}
    samples: Samples = {}
    for number in range(rounds):
        _say(f"Round {number + 1} of {rounds}:")
        for name, contestant in playing.items():
            if number % contestant.every == 0:
                _say(f" {name}")
                sample = _run_one(name, sorted(set(contestant.rows) & set(rows)), effort, scratch)
                for figure, value in sample.items():
                    samples.setdefault(name, {}).setdefault(figure, []).append(value)
        _say("\n")
    return samples


def _run_one(name: str, rows: list[str], effort: Effort, scratch: Path) -> Sample:
    environment = CONTESTANTS[name].environment
    python = str(peers.interpreter(environment)) if environment else sys.executable
    file, log = scratch / "sample.json", scratch / f"{name}.log"
    file.unlink(missing_ok=True)
    command = [python, "-m", "contestants", name, str(file)]
    command += [str(effort.seconds), str(effort.divisor), *rows]
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, env=_environment(scratch), cwd=scratch, stdout=output, stderr=output
        )
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            _end(process)
    text = log.read_text(errors="replace")
    if process.returncode or "Traceback" in text:
        _say("".join(f"\n    {line}" for line in text.strip().splitlines()[-3:]) + "\n   ")
    sample: Sample = json.loads(file.read_text()) if file.exists() else {}
    return sample


def _environment(scratch: Path) -> dict[str, str]:
    """Workers find `tasks`; what the systems leave behind is left in the scratch directory."""
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "IPYTHONDIR": str(scratch / "ipython"),
        "RAY_TMPDIR": str(scratch),
        "RAY_USAGE_STATS_ENABLED": "0",
        "DASK_TEMPORARY_DIRECTORY": str(scratch),
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill it and all it has started."""
    try:
        below = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        below = []
    process.kill()
    for child in below:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            pass
    process.wait()


def _say(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)
