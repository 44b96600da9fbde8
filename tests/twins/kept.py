"""Random programs of cells in a kernel that keeps its variables: what is restored, by `%checkout`
and after the kernel was killed, is held against what was there."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.kernel.conftest import Kernel
from tests.twins.programs import IMPORTS, WORLDS, Program, program
from tests.twins.run import LOOKS

BEGIN = "%reset -f\n%load_ext workbench\n%workbench keep"
LOOK = (
    f"(__import__('sys').path.insert(0, {LOOKS!r}), "
    "print(__import__('json').dumps(__import__('looks').Look(globals()).variables())))[0]"
)
"""An expression: it leaves no variable."""

DONE = "%workbench keep"
"""It compares what else waits until the notebook is idle."""

CELL = re.compile(r"as of cell \[(\d+)\]")


class Kept:
    """A kernel of a notebook that keeps its variables."""

    def __init__(self, directory: str) -> None:
        path = str(Path(directory) / "kept.ipynb")
        environment = {"WORKBENCH_RUNTIME_DIR": directory, "WORKBENCH_WORKERS": "0"}
        self.kernel = Kernel({**environment, "JPY_SESSION_NAME": path})

    def variables(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.kernel.ok(LOOK).text())
        return found

    def differences(self, made: Program, kill: bool) -> list[str]:
        """Run a program; go to its cells in another order, then to the last after a kill; return
        what differs without a word."""
        chance, kernel = random.Random(made.seed), self.kernel
        kernel.ok(BEGIN)
        was: dict[int, dict[str, str]] = {}
        for source in (IMPORTS, *made.cells):
            number = int(kernel.run(source).number)
            was[number] = self.variables()
            if chance.random() < 0.5:
                kernel.run(DONE)
        found = []
        for number in chance.sample([*was], len(was)):
            said = kernel.ok(f"%checkout {number}").text()
            found += self._compare(f"%checkout {number}", said, was[number])
        if kill:
            last = max(was)
            kernel.ok(f"%checkout {last}")
            if chance.random() < 0.5:  # while it works
                kernel.start("kept_at = 1\n" + made.cells[-1])
            kernel.restart(now=True)
            said = kernel.ok("%load_ext workbench").text()
            if (cell := CELL.search(said)) and int(cell[1]) == last:
                found += self._compare("after a kill", said, was[last])
            kernel.ok("%workbench stop")
        return found

    def kinds(self) -> tuple[list[str], list[str], list[str]]:
        """Have a variable of each kind in kinds.txt, and kill the kernel. Return the lines of those
        that come back, of those that don't and are named, and of those that came back otherwise."""
        self.kernel.ok(BEGIN)
        lines = dict(enumerate(Path(__file__).with_name("kinds.txt").read_text().splitlines()))
        for n, line in lines.items():
            self.kernel.run(line.replace("\\n", "\n") + f"\nv{n} = a")
        self.kernel.run("del a")
        self.kernel.run(DONE)
        was = self.variables()
        self.kernel.restart(now=True)
        self.kernel.ok("%load_ext workbench")
        now = self.variables()
        lost = self.kernel.ok("%workbench lost").results()[0].split()
        back = [line for n, line in lines.items() if now.get(f"v{n}") == was[f"v{n}"]]
        named = [line for n, line in lines.items() if f"v{n}" not in now and f"v{n}" in lost]
        self.kernel.ok("%workbench stop")
        return back, named, [x for x in lines.values() if x not in back and x not in named]

    def _compare(self, where: str, said: str, was: dict[str, str]) -> list[str]:
        now = self.variables()
        return [
            f"{where}: {name}\n    was {was.get(name)}\n    is  {now.get(name)}\n    said {said}"
            for name in sorted({*was, *now})
            if name[:2] != "__"  # `%reset` leaves some
            and was.get(name) != now.get(name)
            and f"`{name}`" not in said
        ]

    def stop(self) -> None:
        self.kernel.run("%workbench stop")
        self.kernel.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.twins.kept", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--kills", type=int, default=10, help="a kill after so many programs")
    options = parser.parse_args()
    counted: Counter[str] = Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kept-") as directory:
        os.environ.setdefault("IPYTHONDIR", directory)
        kept = Kept(directory)
        try:
            back, named, others = kept.kinds()
            print(f"{len(back)} kinds of variable come back.", "Named:", *named, sep="\n  ")
            print("Otherwise:", *others, sep="\n  ")
            for seed in range(options.seed, options.seed + options.count):
                made = program(seed, tuple(options.worlds.split(",")))
                found = kept.differences(made, seed % options.kills == 0)
                counted["differ" if found else "same"] += 1
                if found:
                    print(f"-- {seed}", *made.cells, *found, sep="\n\n", flush=True)
        finally:
            kept.stop()
    print(f"{options.count} programs in {time.monotonic() - began:.0f} s: {dict(counted)}")
    return int(counted["differ"] > 0)


if __name__ == "__main__":
    sys.exit(main())
