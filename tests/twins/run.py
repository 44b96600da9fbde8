"""Runs programs in both kernels, and holds the twins against each other."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.kernel.conftest import Cell, Kernel
from tests.twins.programs import IMPORTS, WORLDS, Program, program

LOOKS = str(Path(__file__).parent)
BEGIN = f"%reset -f\nimport sys\nsys.path.insert(0, {LOOKS!r})\nimport looks\n" + (
    "looks.begin()\ndel looks"
)
LOOK = "print(__import__('sys').modules['looks'].described(globals()))"


FAILS = "Nothing was sent|A cell that fails changes nothing|can't be serialized"
"""Words for all that a cell did before it failed: of that nothing reaches the notebook."""

STAYS = r"\w+ stays on the worker"
"""Words for a name that the notebook doesn't get: later cells have another object there."""

WARNED = r"\w*Warning: .*"


@dataclass
class Outcome:
    """What a twin has shown, and what it left."""

    shown: list[str] = field(default_factory=list)
    stderr: str = ""
    said: str = ""
    failures: str = ""
    notebook: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """Where the twins differ: names of variables and settings, numbers of cells."""

    names: dict[str, tuple[str, str]]
    cells: dict[int, tuple[str, str]]
    said: str
    failures: str

    def __bool__(self) -> bool:
        return bool(self.names or self.cells)

    @property
    def is_silent(self) -> bool:
        """True if no word was said of a name that differs, or of any where only output does."""
        words = set(re.findall(r"\w+", self.said + self.failures))
        told = (bool(self.said) and not self.names) or not words.isdisjoint(self.names)
        told = told or bool(re.search(STAYS, self.said) or re.search(FAILS, self.failures))
        return bool(self) and not told


def shown_by(cell: Cell) -> str:
    """Return what a person sees of a cell beside its line: prints, values, the error."""
    parts = [cell.text(), *map(str, cell.results())]
    if cell.failure:
        # The traceback has the worker's frames, too: the error itself counts.
        parts.append(_error(cell.failure))
    parts += re.findall(WARNED, cell.text("stderr"))
    return re.sub(r" at 0x\w+", "", "\n".join(parts))


def _error(failure: str) -> str:
    """Return an error's own line. What isn't defined is said in other words by a remote cell."""
    kind, *lines = re.sub(r"TaskError\((\w+)\)", r"\1", failure).split("\n")
    qualified = re.compile(rf"(\w+\.)*({kind}:.*)")
    found = filter(None, map(qualified.fullmatch, reversed(lines)))
    said = next((each[2] for each in found), kind)
    if kind in ("NameError", "NotDefinedError"):
        return "NameError " + re.findall(r"['`](\w+)['`]", said)[0]
    return said


def in_background(kernel: Kernel, source: str) -> Cell:
    """Run a cell without waiting, and bring all that it says it made or changed."""
    cell = kernel.run(f"%%remote\n{source}")
    if not cell.lines:  # it never began: a syntax error
        return cell
    kernel.over(cell)
    if "failed" in cell.line:
        kernel.until(lambda: cell.failure)
    else:
        kernel.ok("%get --jobs")
        cell.lines[-1]["text/plain"] = re.sub(r".*`%get .*` brings .*", "", cell.line)
    return cell


def ran(kernel: Kernel, made: Program, remote: bool, waited: bool = True) -> Outcome:
    """Run the program from a notebook that is as new."""
    kernel.ok(BEGIN)
    if remote and not waited:  # what the last program made must not come back
        kernel.ok("%workbench stop\n%reload_ext workbench")
    kernel.ok(IMPORTS)
    outcome = Outcome()
    for source, is_remote in zip(made.cells, made.remote, strict=True):
        is_remote = is_remote and remote
        if is_remote and not waited:
            cell = in_background(kernel, source)
        else:
            cell = kernel.run("%%remote --wait\n" * is_remote + source)
        outcome.shown.append(shown_by(cell))
        outcome.stderr += re.sub(rf".*{WARNED}\n.*", "", cell.text("stderr"))
        if is_remote:
            outcome.said += re.sub(rf".*{WARNED}\n.*", "", cell.notes) + "\n"
            outcome.failures += cell.failure
    outcome.notebook = json.loads(kernel.ok(LOOK).text())
    return outcome


class Twins:
    """A plain kernel, and one with a session of one worker."""

    def __init__(self, directory: str, waited: bool = True) -> None:
        self.waited = waited
        environment = {"WORKBENCH_RUNTIME_DIR": directory, "WORKBENCH_WORKERS": "1"}
        self.plain = Kernel(environment)
        self.ours = Kernel(environment)
        self.ours.ok("%load_ext workbench")

    def differ(self, made: Program) -> Difference:
        """Run both, and compare."""
        plain, ours = ran(self.plain, made, False), ran(self.ours, made, True, self.waited)
        names = {
            name: (plain.notebook.get(name, "nothing"), ours.notebook.get(name, "nothing"))
            for name in {**plain.notebook, **ours.notebook}
            if plain.notebook.get(name) != ours.notebook.get(name)
            and (self.waited or "random" not in name)  # a background cell has its own stream
        }
        cells = {
            n: (one, two)
            for n, (one, two) in enumerate(zip(plain.shown, ours.shown, strict=True))
            if one != two
        }
        logged = plain.stderr.splitlines()
        if missing := [line for line in logged if line not in ours.stderr.splitlines()]:
            cells[len(plain.shown)] = "\n".join(missing), "not on stderr"
        said = "\n".join(
            line
            for line in ours.said.splitlines()
            if not re.match(r"\W*(cell|\d)", line) and line not in logged
        )
        return Difference(names, cells, said.strip(), ours.failures)

    def smallest(self, made: Program) -> Program:
        """Return a program of as few cells as still differ without a word."""
        for fewer in made.smaller():
            if self.differ(fewer).is_silent:
                return self.smallest(fewer)
        return made

    def close(self) -> None:
        """Shut both down."""
        self.ours.run("%workbench stop")
        for kernel in (self.plain, self.ours):
            kernel.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.twins.run", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--smaller", action="store_true", help="make each difference smaller")
    parser.add_argument("--background", action="store_true", help="without waiting, then %%get")
    options = parser.parse_args()
    counted: Counter[str] = Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="twins-") as directory:
        os.environ.setdefault("IPYTHONDIR", directory)
        twins = Twins(directory, not options.background)
        try:
            for seed in range(options.seed, options.seed + options.count):
                made = program(seed, tuple(options.worlds.split(",")))
                found = twins.differ(made)
                kind = "silent" if found.is_silent else "told" if found else "same"
                if not found and found.said:
                    kind = "words for nothing"
                counted[kind] += 1
                if kind in ("silent", "words for nothing"):
                    if kind == "silent" and options.smaller:
                        made = twins.smallest(made)
                        found = twins.differ(made)
                    print(f"-- {seed}: {kind}\n{made}\n   said: {found.said!r}", flush=True)
                    for name, (one, two) in found.names.items():
                        print(f"   {name}: {one}\n        {two}")
                    for n, (one, two) in found.cells.items():
                        print(f"   cell {n} showed {one!r}\n                {two!r}", flush=True)
        finally:
            twins.close()
    print(f"{options.count} programs in {time.monotonic() - began:.0f} s: {dict(counted)}")
    return int(counted["silent"] > 0)


if __name__ == "__main__":
    sys.exit(main())
