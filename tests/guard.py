"""`make guard`: runaway cells of many kinds, in a kernel of JupyterLab, in memory cgroups and on
the bare machine. Each must end as an error at its line, with the kernel and all other processes
alive.

Prints a table of kinds and places. Cgroups need root, and a memory controller that is writable; on
the bare machine a ballast leaves little memory, so that a cell takes seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Empty

from jupyter_client.blocking.client import BlockingKernelClient

from workbench.config import MOST_HEADROOM
from workbench.system.machine import MemoryGauge, command_lines, started_by
from workbench.system.sizes import parse_bytes

KINDS = {
    "list": "xs = []\nwhile True:\n    xs.append(len(xs))  # !",
    "dict": "d = {}\nfor i in range(10**10):\n    d[i] = i  # !",
    "set": "s = set()\nfor i in range(10**10):\n    s.add(i)  # !",
    "text doubled": "s = 'x' * 1000\nwhile True:\n    s += s  # !",
    "bytes extended": "b = bytearray()\nwhile True:\n    b.extend(b'x' * 10**6)  # !",
    "joined": "' '.join(str(i) * 9 for i in range(10**9))  # !",
    "ones": "import numpy as np\na = np.ones(5 * 10**8)  # !",
    "outer": "import numpy as np\na = np.outer(np.arange(25_000), np.arange(25_000))  # !",
    "random": "import numpy as np\na = np.random.rand(5 * 10**8)  # !",
    "small arrays": "import numpy as np\nxs = []\nwhile True:\n    xs.append(np.ones(1000))  # !",
    "concatenated": "import numpy as np\na = np.ones(1000)\nwhile True:\n"
    "    a = np.concatenate([a, a])  # !",
    "zeros, then filled": "import numpy as np\nxs = []\nwhile True:\n"
    "    xs.append(np.zeros(3 * 10**6))  # !\n    xs[len(xs) // 2][:] = 1",
    "product": "from itertools import product\nxs = list(product(range(1000), repeat=3))  # !",
    "sorted": "xs = sorted(range(10**10))  # !",
    "comprehension": "xs = [[i] * 10 for i in range(10**9)]  # !",
    "generator": "def numbers():\n    i = 0\n    while True:\n        yield str(i)  # !\n"
    "        i += 1\nxs = list(numbers())  # !",
    "instances": "class P:\n    def __init__(self, x):\n        self.x = [x]  # !\nxs = []\n"
    "while True:\n    xs.append(P(1))  # !",
    "deepcopy": "from copy import deepcopy\nxs = [[i] for i in range(1000)]\nwhile True:\n"
    "    xs = deepcopy(xs) + xs  # !",
    "json": "import json\nt = [list(range(1000))]\nwhile True:\n"
    "    t = json.loads(json.dumps(t + t))  # !",
    "pickle": "import pickle\nxs = list(range(10**5))\nwhile True:\n"
    "    xs = xs + pickle.loads(pickle.dumps(xs))  # !",
    "four threads": "from concurrent.futures import ThreadPoolExecutor\ndef grow(n):\n    xs = []\n"
    "    while True:\n        xs.append(str(len(xs)))  # !\n"
    "list(ThreadPoolExecutor(4).map(grow, range(4)))  # !",
    "recursion": "def deeper(n):\n    return [n] * 10**6, deeper(n + 1)  # !\nimport sys\n"
    "sys.setrecursionlimit(10**6)\ndeeper(0)  # !",
    "pandas concat": "import pandas as pd\nd = pd.DataFrame({'a': range(1000)})\nwhile True:\n"
    "    d = pd.concat([d, d])  # !",
    "pandas merge": "import pandas as pd\nd = pd.DataFrame({'k': [1] * 30_000})\n"
    "m = d.merge(d, on='k')  # !",
    "get_dummies": "import pandas as pd\nd = pd.get_dummies(pd.Series(range(80_000)))  # !",
    "pandas text": "import pandas as pd\nd = pd.DataFrame({'t': ['some words'] * 1000})\n"
    "while True:\n    d['t'] = d['t'] + d['t']  # !",
    "distances": "import numpy as np\nfrom sklearn.metrics import pairwise_distances\n"
    "p = pairwise_distances(np.random.rand(25_000, 2))  # !",
    "sparse to dense": "from scipy.sparse import eye\na = eye(30_000).toarray()  # !",
    "arrow": "import pyarrow as pa\nxs = []\nwhile True:\n"
    "    xs.append(pa.array(range(10**5)))  # !",
    "figures": "import matplotlib.pyplot as plt, numpy as np\nwhile True:\n"
    "    plt.figure().gca().imshow(np.random.rand(1000, 1000))  # !",
}
"""Cells by kind. The error comes at one of the lines that end with ``# !``."""

CLEAR = """for _name in set(globals()) - _kept: del globals()[_name]
import gc, sys; sys.last_value = sys.last_exc = sys.last_traceback = None; Out.clear()
if 'matplotlib' in sys.modules: sys.modules['matplotlib.pyplot'].close('all')
del _name
_ = gc.collect()"""

START = """%load_ext workbench
import workbench, numpy, pandas, sklearn.metrics, scipy.sparse, matplotlib.pyplot, pyarrow
_kept = {*globals(), '_kept', '_'}"""

PATIENCE = 300.0  # seconds for a cell; then it is interrupted


class Place:
    """A memory cgroup, v1 or v2, with JupyterLab in it; 0 bytes: no group of its own."""

    def __init__(self, size: int) -> None:
        self.size, self.group = size, None
        if size:
            self.group = _group() / f"guard-{os.getpid()}-{size}"
            self.group.mkdir()
            name = "memory.max" if (self.group / "memory.max").exists() else "memory.limit_in_bytes"
            (self.group / name).write_text(str(size))

    def enter(self) -> None:
        if self.group is not None:
            (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def kills(self) -> int:
        """Return how many processes Linux has killed here because memory ran out."""
        if self.group is None:
            text = Path("/proc/vmstat").read_text()
        else:
            files = self.group / "memory.events", self.group / "memory.oom_control"
            text = next(each for each in files if each.exists()).read_text()
        found = re.search(r"^oom_kill (\d+)", text, re.MULTILINE)
        return int(found[1]) if found else 0

    def close(self) -> None:
        while self.group is not None and self.group.exists():
            with contextlib.suppress(OSError):  # processes of it are just ending
                self.group.rmdir()


def _group() -> Path:
    """Return the memory cgroup of this process."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    groups = [line.split(":", 2)[1:] for line in lines]
    first = [f"memory{path}" for names, path in groups if "memory" in names.split(",")]
    return Path("/sys/fs/cgroup") / (first or [groups[-1][1].lstrip("/")])[0]


@contextlib.contextmanager
def lab(place: Place, directory: str) -> Iterator[tuple[BlockingKernelClient, tuple[int, int]]]:
    """JupyterLab in a place, and a client of a kernel that it has started; pids of both."""
    environ = {**os.environ, "JUPYTER_RUNTIME_DIR": directory, "JUPYTER_TOKEN": "guard"}
    environ["WORKBENCH_IDLE"] = "0"  # else idle workers end
    command = f"jupyterlab --no-browser --allow-root --port=0 --notebook-dir={directory}".split()
    with (Path(directory) / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", *command], stderr=log, env=environ, preexec_fn=place.enter
        )
    try:
        while not (told := list(Path(directory).glob("jpserver-*.json"))):
            assert server.poll() is None, (Path(directory) / "log").read_text()
        while not (text := told[0].read_text()).endswith("}"):
            pass
        asked = urllib.request.Request(
            json.loads(text)["url"] + "api/kernels", b"{}", {"Authorization": "token guard"}
        )
        while True:
            with contextlib.suppress(OSError):  # it doesn't listen yet
                kernel = json.loads(urllib.request.urlopen(asked).read())["id"]
                break
        file = str(Path(directory) / f"kernel-{kernel}.json")
        client = BlockingKernelClient(connection_file=file)
        client.load_connection_file()
        client.start_channels()
        pid = next(pid for pid, line in command_lines().items() if file in line)
        yield client, (server.pid, pid)
        client.stop_channels()
    finally:
        server.terminate()
        server.wait()


def run(client: BlockingKernelClient, pid: int, code: str) -> str:
    """Run a cell; return the errors that it shows. Empty if the kernel has died."""
    asked, shown = client.execute(code), list[str]()
    until = time.monotonic() + PATIENCE
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > until:
            os.kill(pid, signal.SIGINT)
            until += PATIENCE
        with contextlib.suppress(Empty):
            message = client.get_iopub_msg(timeout=1)
            if message["parent_header"].get("msg_id") != asked:
                continue
            content = message["content"]
            if message["msg_type"] == "error":
                shown += content["traceback"] or [content["ename"]]
            elif content.get("execution_state") == "idle":
                return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(shown))
    raise Empty


def judge(code: str, text: str) -> str:
    """Return '' if the cell ended as it should, else what it showed."""
    loops = "while ", "for "  # a cell that is stopped may be there
    numbered = enumerate(code.splitlines(), 1)
    lines = {n for n, line in numbered if line.endswith("# !") or line.startswith(loops)}
    shown = re.findall(r"^-+> (\d+) |ipykernel_.*?, line (\d+)", text, re.MULTILINE)
    at = {int(n or m) for n, m in shown}
    refused = re.search("MemoryError|Unable to allocate|can't start new thread", text)
    return "" if refused and at & lines else text[-1500:] or "no error"


def rounds(place: Place, kinds: Sequence[str], count: int) -> Iterator[tuple[str, str, float]]:
    """Yield how often each kind was run: its name, what went wrong, the seconds."""
    left = [kind for _ in range(count) for kind in kinds]
    while left:
        with tempfile.TemporaryDirectory() as directory, lab(place, directory) as (client, pids):
            assert not (said := run(client, pids[1], START)), said
            session = started_by(pids[1])
            while left:
                kind, began, kills = left.pop(0), time.monotonic(), place.kills()
                try:
                    wrong = judge(KINDS[kind], run(client, pids[1], KINDS[kind]))
                    wrong += run(client, pids[1], CLEAR)
                except Empty:
                    wrong = "the kernel died"
                seconds = time.monotonic() - began
                killed = place.kills() - kills
                gone = [pid for pid in (*pids, *session) if not Path(f"/proc/{pid}").exists()]
                if killed or gone:
                    wrong += f" {len(gone)} processes gone, {killed} killed for memory"
                yield kind, wrong, seconds
                if killed or gone:
                    break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", nargs="+", default=["450MB", "2GB", "0"], help="0: no cgroup")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--left", default="1500MB", help="what the ballast leaves without a cgroup")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # JupyterLab shall end, too
    total: Counter[str] = Counter()
    for size in args.places:
        nbytes = 0 if size == "0" else parse_bytes(size)
        more = MemoryGauge().read()[0] - parse_bytes(args.left) - MOST_HEADROOM
        place, ballast = Place(nbytes), b"x" * (0 if nbytes else max(more, 0))
        try:
            for kind, wrong, seconds in rounds(place, args.kinds, args.rounds):
                total[size] += 1
                total[f"{size} wrong"] += bool(wrong)
                print(f"{size:6} {kind:20} {seconds:6.1f} s  {wrong or 'ok'}", flush=True)
        finally:
            del ballast
            place.close()
    for size in args.places:
        print(f"{size:6} {total[size]} cells, {total[f'{size} wrong']} not as they should")


if __name__ == "__main__":
    main()
