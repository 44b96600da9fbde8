"""Random edits of what a cell depends on: with `--cache`, each has to give what a run gives."""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.kernel.conftest import Kernel

IMPORTS = (
    "import collections, dataclasses, datetime, decimal, enum, functools, glob, importlib, os, "
    "pathlib, random, re, shutil, sqlite3, sys, time, warnings\n"
    "import numpy as np, pandas as pd\nTMP = {!r}\nsys.path.insert(0, TMP)\n"
    "PATH, ERRORS, PRINTS = [*sys.path], np.geterr(), np.get_printoptions()\n"
    "FILTERS, LIMIT = [*warnings.filters], sys.getrecursionlimit()\n"
    "%load_ext workbench"
)

RESET = (
    "os.chdir(TMP); sys.path[:] = PATH; np.seterr(**ERRORS); np.set_printoptions(**PRINTS)\n"
    "pd.set_option('display.precision', 6); decimal.getcontext().prec = 28\n"
    "warnings.filters[:] = FILTERS; sys.setrecursionlimit(LIMIT)\n"
    "for _ in ('K', 'WBX', 'TZ'): os.environ.pop(_, None)\n"
    "time.tzset(); random.seed(0); np.random.seed(0)\n"
    "for _ in [n for n in sys.modules if n[:3] == 'own']: del sys.modules[_]\n"
)
"""Puts back what edits set, so that one edit is looked at at a time."""


HITS = {
    "a small value": ("x = {'k': [1]}", "y = x['k'][0]"),
    "1 GB of the notebook's": ("x = np.random.default_rng(0).random(125_000_000)", "y = x[5]"),
    "1 GB in the store": ("x = np.random.default_rng(1).random(125_000_000)\n%put x", "y = x[5]"),
    "a frame of 80 MB": (
        "x = pd.DataFrame(np.random.default_rng(0).random((10**6, 10)))",
        "y = x[0][3]",
    ),
}
"""By row of a table: what the notebook has, and a cell that is found."""

TIMED = (
    "_began = time.perf_counter()\nget_ipython().run_cell_magic('remote', {!r}, {!r})\n"
    "print(1000 * (time.perf_counter() - _began))"
)


class Edit(NamedTuple):
    """A kind of edit; if it isn't ``claimed``, nobody sees it, and the cell's line says so."""

    kind: str
    values: list[str]
    before: str
    cell: str
    claimed: bool

    def with_value(self, value: str) -> tuple[str, str]:
        """What the notebook runs, and the cell, with one of the values."""
        before, cell = (re.sub(r"\bV\b", lambda _: value, t) for t in (self.before, self.cell))
        return before, cell

    @property
    def is_outside(self) -> bool:
        """True if it is in a file."""
        return "TMP" in self.before or "tmp" in self.before


def edits() -> list[Edit]:
    lines = Path(__file__).with_name("edits.txt").read_text().splitlines()
    return [_edit(line) for line in lines if line and line[0] != "#"]


def _edit(line: str) -> Edit:
    kind, values, *code = line.split(" :: ")
    before, cell = (_newlines(each) for each in code)
    return Edit(kind.lstrip("? "), values.split(" | "), before, cell, kind[0] != "?")


def _newlines(text: str) -> str:
    """Have `\\n` begin a line; `\\\\n` is one in a text."""
    return text.replace("\\\\n", "\0").replace("\\n", "\n").replace("\0", "\\n")


class Seen(NamedTuple):
    """One edit, looked at: ``stale`` if the cell was found and would have shown something else."""

    is_found: bool
    is_stale: bool
    is_said: bool
    text: str


class Notebook:
    """A kernel in which cells run with `--cache`, then without. Cells find ``files`` as TMP."""

    def __init__(self, directory: str, files: str) -> None:
        self.files = files
        environment = {"WORKBENCH_RUNTIME_DIR": directory, "XDG_CACHE_HOME": f"{files}-cache"}
        self.kernel = Kernel({**environment, "WORKBENCH_WORKERS": "2"})
        self.kernel.ok(IMPORTS.format(files))

    def look(self, edit: Edit, value: str) -> Seen:
        before, cell = edit.with_value(value)
        made = self.kernel.run(RESET + before)
        if made.failure:
            raise AssertionError(f"{edit.kind}: {made.failure}")
        found = self.kernel.run(f"%%remote --cache --wait\n{cell}")
        self.kernel.run(RESET + before)
        ran = self.kernel.run(f"%%remote --wait\n{cell}")
        is_found = "found, not run" in found.notes
        differs = _shown(found) != _shown(ran)
        text = f"{edit.kind}: {value}\n  {_shown(found)}\n  {_shown(ran)}\n  {found.notes}"
        return Seen(is_found, differs, "Not checked" in found.notes, text)

    def times(self, before: str, cell: str) -> list[float]:
        """Milliseconds in which a cell is found, several times."""
        self.kernel.ok(RESET + before)
        timed = TIMED.format("--cache --wait -q", cell)
        return [float(self.kernel.ok(timed).text().split()[-1]) for _ in range(6)][1:]

    def stop(self) -> None:
        self.kernel.run("%workbench stop")
        self.kernel.stop()


def _shown(cell: object) -> str:
    text: str = cell.text() + cell.failure.partition("\n")[0]  # type: ignore[attr-defined]
    return text


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.twins.cached", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default="", help="only those with this in their names")
    options = parser.parse_args()
    chance, counted, missed = random.Random(options.seed), Counter[str](), Counter[str]()
    needless: Counter[str] = Counter()
    kinds = [each for each in edits() if options.kinds in each.kind]
    seen: set[tuple[str, str]] = set()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cached-") as directory:
        os.environ.setdefault("IPYTHONDIR", directory)
        files = Path(directory, "files")
        files.mkdir()
        notebook = Notebook(directory, str(files))
        try:
            for _ in range(options.count):
                edit = chance.choice(kinds)
                value = chance.choice(edit.values)
                looked = notebook.look(edit, value)
                counted["edits"] += 1
                counted["found"] += looked.is_found
                if edit.is_outside:  # only the last result is kept
                    seen -= {(edit.kind, other) for other in edit.values if other != value}
                if (edit.kind, value) in seen and not looked.is_found:
                    missed[edit.kind] += 1
                    if options.kinds:
                        print("MISSED", looked.text)
                seen.add((edit.kind, value))
                if looked.is_stale and looked.is_found and not looked.is_said:
                    counted["stale"] += 1
                    print("STALE", looked.text, flush=True)
                elif looked.is_stale and edit.claimed:
                    counted["differ"] += 1
                    print("DIFFERS", looked.text, flush=True)
                elif looked.is_found and looked.is_said and edit.claimed:
                    counted["said for nothing"] += 1
                    needless[edit.kind] += 1
            for row, made in HITS.items() if not options.kinds else ():
                print(f"{row} is found in", *(f"{ms:.1f}" for ms in notebook.times(*made)), "ms")
        finally:
            notebook.stop()
    print(f"{len(kinds)} kinds in {time.monotonic() - began:.0f} s: {dict(counted)}")
    print("said for nothing:", dict(needless))
    print("not found although seen before:", dict(missed))
    return int(counted["stale"] > 0)


if __name__ == "__main__":
    sys.exit(main())
