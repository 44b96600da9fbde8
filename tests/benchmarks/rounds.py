"""Runs the contestants in turn, each time in a fresh process, and keeps what they measured.

In rounds (A B C A B C ...), because a shared machine is faster in one minute than in the next.
"""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from pools import Effort, Sample
from values import VALUES

import workbench

HERE = Path(__file__).parent
PEERS = HERE.parents[1] / ".bench" / "peers"
"""The peers' environment, in the checkout."""

PEERS_PYTHON = PEERS / "bin" / "python"
"""It exists once `prepare_peers` has returned."""

PATIENCE = 300
"""Seconds one contestant may take for one round."""

POOL_ROWS = (
    "put_warm", "put_cold", "get", "dict", "empty", "burst", "by_ref", "returns", "start", "memory",
)  # fmt: skip
CALLS = ("empty", "burst", "by_ref")
"""Rows that are told with every core busy as well; and of who has actors these ..."""

ACTOR_CALLS = ("actor", "async_actor")

REFS = (*ACTOR_CALLS, "tree", "wait", "contains")
"""... and these, if what it has can be referred to in values."""


@dataclass(frozen=True)
class Contestant:
    """Who is measured for which rows.

    ``target``: see `contestants.__main__`; without one, its own module's ``measure``. ``peer``: it
    runs in the environment `PEERS`. ``every``: in each so-many-th round: the slow ones, which
    differ by more than noise.
    """

    rows: tuple[str, ...]
    target: str = ""
    peer: bool = False
    every: int = 1


OURS, RAY, EXECUTOR = "remotes.Workbench", ("remotes.Ray", True, 2), ("executors.processpool", True)

CONTESTANTS = {
    "floor": Contestant(("empty",)),
    "pickle": Contestant(tuple(VALUES.keys() - {"function"}), "serializers.Pickle"),
    "cloudpickle": Contestant(tuple(VALUES), "serializers.Cloudpickle"),
    "workbench": Contestant((*POOL_ROWS, *REFS, *VALUES), OURS),
    "floor-busy": Contestant(("empty",), "floor.measure"),
    "workbench-busy": Contestant((*CALLS, *ACTOR_CALLS), OURS),
    "workbench-one": Contestant(("paced",), OURS),
    "workbench-cores": Contestant(("cores",), OURS),
    "memory": Contestant(("spill", "full")),
    "many": Contestant(("crowd", "waiting", "queued")),
    "notebook": Contestant(("start", "memory")),
    "checks": Contestant(("checks",)),
    "kernel": Contestant(("cell", "flood")),
    "page": Contestant(("views",)),
    "imports": Contestant(("import",)),
    "processpool": Contestant(POOL_ROWS, *EXECUTOR),
    "processpool-busy": Contestant(CALLS, *EXECUTOR),
    "processpool-one": Contestant(("paced",), *EXECUTOR),
    "loky": Contestant(POOL_ROWS, "executors.loky", True),
    "ray": Contestant((*POOL_ROWS, *REFS, *VALUES), *RAY),
    "ray-busy": Contestant((*CALLS, *ACTOR_CALLS), *RAY),
    "ray-cores": Contestant(("cores",), *RAY),
    "dask": Contestant((*POOL_ROWS, *ACTOR_CALLS, "tree"), "dask.Dask", True, 2),
}
"""By name. Its end says where. ``-one``: all processes have one core. ``-busy``: another process
computes on each core. ``-cores``: there are as many workers as cores, not `pools.WORKERS`."""

Samples = dict[str, dict[str, list[float]]]
"""Contestant → figure → one value a round."""


def run(rows: Collection[str], rounds: int, effort: Effort, scratch: Path) -> Samples:
    """All rounds. Who fails is reported and left out; the others go on."""
    playing = {name: c for name, c in CONTESTANTS.items() if set(c.rows) & set(rows)}
    if any(c.peer for c in playing.values()):
        try:
            prepare_peers()
        except subprocess.CalledProcessError as error:
            _say(f"No .bench/peers, so their columns stay empty: {error}\n")
            playing = {name: c for name, c in playing.items() if not c.peer}
    # As pip has done it for the peers: without, a start compiles each module anew where nobody may
    # write what was compiled (PYTHONDONTWRITEBYTECODE).
    compileall.compile_dir(Path(workbench.__path__[0]), quiet=1)
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


def prepare_peers() -> None:
    """Make it from ``peers.txt``, unless it was made from that, and with this Python.

    Raises
    ------
    CalledProcessError
        If it can't be made: pip has said why.
    """
    requirements = HERE / "peers.txt"
    stamp = PEERS / "made-from"
    made_from = f"{sys.version}\n{requirements.read_text()}"
    if stamp.exists() and stamp.read_text() == made_from:
        return
    print("Making .bench/peers (once) ...", file=sys.stderr)
    shutil.rmtree(PEERS, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
    pip = [str(PEERS_PYTHON), "-m", "pip", "install", "--quiet", "-r", str(requirements)]
    subprocess.run(pip, check=True)
    stamp.write_text(made_from)


def _run_one(name: str, rows: list[str], effort: Effort, scratch: Path) -> Sample:
    contestant, where = CONTESTANTS[name], name.partition("-")[2]
    python = str(PEERS_PYTHON) if contestant.peer else sys.executable
    file, log = scratch / "sample.json", scratch / f"{name}.log"
    file.unlink(missing_ok=True)
    command = [python, "-m", "contestants", contestant.target or f"{name}.measure", str(file)]
    command += [str(effort.seconds), str(effort.divisor), *rows]
    cores = sorted(os.sched_getaffinity(0))
    if where == "one":
        command = ["taskset", "--cpu-list", str(cores[-1]), *command]
    told = _environment(scratch)
    if where == "cores":
        told["BENCH_WORKERS"] = str(len(cores))
    with _others(cores if where == "busy" else []), open(log, "wb") as output:
        process = subprocess.Popen(command, env=told, cwd=scratch, stdout=output, stderr=output)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            _end(process)
    text = log.read_text(errors="replace")
    if process.returncode or "Traceback" in text:
        _say("".join(f"\n    {line}" for line in text.strip().splitlines()[-3:]) + "\n   ")
    sample: Sample = json.loads(file.read_text()) if file.exists() else {}
    return sample


@contextmanager
def _others(cores: Sequence[int]) -> Iterator[None]:
    """A process that computes on each of these cores, meanwhile."""
    code = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-S", "-c", code, str(core)]) for core in cores]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def _environment(scratch: Path) -> dict[str, str]:
    """Workers find `tasks`, our own contestants what the tests have; what the systems leave behind
    is left in the scratch directory."""
    paths = [str(HERE), os.environ.get("PYTHONPATH"), str(HERE.parents[1])]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "IPYTHONDIR": str(scratch / "ipython"),
        "RAY_TMPDIR": str(scratch),
        "RAY_USAGE_STATS_ENABLED": "0",
        "DASK_TEMPORARY_DIRECTORY": str(scratch),
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill it and all it has started."""
    below = psutil.Process(process.pid).children(recursive=True)  # it hasn't been waited for
    process.kill()
    for child in below:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    process.wait()


def _say(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)
