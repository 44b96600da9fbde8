"""`make faults`: makes a hundred faults in copies of the package, one at a time, spread over its
rooms, and counts those that the tests find which `make quick` would choose for the file.

It judges the suite, not the code. Each fault is one that a person could make in an edit: a
condition the wrong way round, a call or an assignment left out, a result that isn't returned. Which
ones is settled by the seed; the same code has the same faults each time.

What runs on clusters alone, which `make clusters` tests, is left out.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.touched import ROOT, touched_by

LEFT_OUT = ("engines/ray/", "engines/dask/", "engines/cluster/")

HARMLESS = {
    'core/job_manager.py::JobManager.on_task_ended: how == "done" -> '
    "(how != 'done')": "what isn't kept as an end is kept as an object",
    "host/process_state.py::ProcessState.clean: ended + min(SHARE * (ended - started), LONGEST) -> "
    "((ended) - (min(SHARE * (ended - started), LONGEST)))": "it costs time alone",
    "serialization/alternatives.py::_matrix: len(some) * columns > LOOKED_AT -> "
    "not (len(some) * columns > LOOKED_AT)": "it costs time alone",
}
"""Faults that change nothing anybody could see, by what `Fault.key` says, and why."""

TIERS = {"make test": "not slow and not extended", "make test-all": "extended and not slow"}
LONGEST = 900.0
"""Seconds for one fault's tests in one tier. What hangs longer is found."""

OLD = "\0"
"""Where an edit keeps the text that was there."""

OPPOSITE: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: ">=", ast.GtE: "<", ast.Gt: "<=", ast.LtE: ">",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """One edit: ``old`` at this place of the file becomes ``new``."""

    path: str
    """Below `workbench`."""
    function: str
    line: int
    start: int
    """Where the edit begins, in bytes of the file's text."""
    old: str
    new: str

    @property
    def room(self) -> str:
        return self.path.split("/")[0] if "/" in self.path else "(top)"

    @property
    def key(self) -> str:
        """The same wherever the function stands in the file."""
        return f"{self.path}::{self.function}: {_one_line(self.old)} -> {_one_line(self.new)}"

    def made_in(self, text: bytes) -> bytes:
        """Return the file's text with this fault."""
        end = self.start + len(self.old.encode())
        assert text[self.start : end].decode() == self.old
        return text[: self.start] + self.new.encode() + text[end:]


def _one_line(code: str) -> str:
    return textwrap.shorten(code, 90, placeholder=" …")


def _faults(path: str, text: str) -> Iterator[Fault]:
    """Yield all faults of one file that this script can make."""
    encoded = text.encode()
    lines = [0, *accumulate(map(len, encoded.splitlines(keepends=True)))]

    def place(node: Any) -> slice:
        return slice(
            lines[node.lineno - 1] + node.col_offset,
            lines[node.end_lineno - 1] + node.end_col_offset,
        )

    def visit(node: ast.AST, within: tuple[str, ...]) -> Iterator[Fault]:
        inside: Iterable[ast.AST] = ast.iter_child_nodes(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name == "__repr__" or any(map(_is_typing, node.decorator_list)):
                return
            inside = node.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            within = (*within, node.name)
        edits = _edits(node, within[-1:] == ("__init__",))
        for each, new in edits if within and edits else ():
            old = encoded[place(each)].decode()
            new = new.replace(OLD, old)
            yield Fault(path, ".".join(within), each.lineno, place(each).start, old, new)
        for child in inside if edits is not None else ():
            yield from visit(child, within)

    return visit(ast.parse(text), ())


def _edits(node: ast.AST, is_init: bool) -> list[tuple[ast.expr | ast.stmt, str]] | None:
    """Return parts and what they become, `OLD` being their text; None: look at nothing inside."""
    text = ast.unparse
    match node:
        case ast.Assert() | ast.Raise():  # it is for readers and mypy; the words of an error
            return None
        case ast.If(test):
            return [(test, f"not ({OLD})")] if "TYPE_CHECKING" not in text(test) else None
        case ast.IfExp(test):
            return [(test, f"(not ({OLD}))")]
        case ast.Compare(left, [op], [right]):
            return [(node, f"({text(left)} {OPPOSITE[type(op)]} {text(right)})")]
        case ast.BoolOp(op, values):
            sign = " or " if isinstance(op, ast.And) else " and "
            return [(node, f"({sign.join(f'({text(each)})' for each in values)})")]
        case ast.BinOp(left, ast.Add() | ast.Sub() as op, right) if not _is_text(node):
            return [(node, f"(({text(left)}) {'-+'[isinstance(op, ast.Sub)]} ({text(right)}))")]
        case ast.Expr(value):
            return [(node, "pass")] if isinstance(value, ast.Call | ast.Await) else None
        case ast.Assign(targets) if not is_init:
            is_state = all(isinstance(each, ast.Attribute | ast.Subscript) for each in targets)
            return [(node, "pass")] if is_state else []
        case ast.Return(value):
            is_plain = value is None or isinstance(value, ast.Constant)
            return None if is_plain else [(node, "return None")]
    return []


def _is_typing(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).rpartition(".")[2] in ("overload", "abstractmethod")


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr | ast.List)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def chosen(count: int, seed: int) -> list[Fault]:
    """Return that many faults: of each room by its length, and two at least; of a function one."""
    package = ROOT / "workbench"
    lines: Counter[str] = Counter()
    rooms: dict[str, list[Fault]] = {}
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if name.startswith(LEFT_OUT):
            continue
        text = path.read_text()
        found = [each for each in _faults(name, text) if each.key not in HARMLESS]
        if found:
            rooms.setdefault(found[0].room, []).extend(found)
            lines[found[0].room] += text.count("\n")
    shares = {room: max(2.0, count * lines[room] / lines.total()) for room in rooms}
    while (over := round(sum(map(int, shares.values())) - count)) != 0:
        step = -1 if over > 0 else 1
        largest = max(shares, key=lambda room: shares[room] % 1 if step > 0 else shares[room])
        shares[largest] = int(shares[largest]) + step
    return [each for room in sorted(rooms) for each in _drawn(rooms[room], int(shares[room]), seed)]


def _drawn(faults: list[Fault], count: int, seed: int) -> Iterator[Fault]:
    """By hashes, so that an edit elsewhere changes no choice."""

    def rank(fault: Fault) -> bytes:
        return hashlib.sha256(f"{seed} {fault.key}".encode()).digest()

    functions: set[tuple[str, str]] = set()
    for fault in sorted(faults, key=rank):
        if len(functions) == count:
            return
        if (fault.path, fault.function) not in functions:
            functions.add((fault.path, fault.function))
            yield fault


@dataclass
class Verdict:
    """What became of a fault: which tests found it, in which tier."""

    fault: Fault
    tier: str | None = None
    found_by: str = ""
    lucky: list[str] = field(default_factory=list)
    """Tests that fail without the fault, too, or that fail with it only once: no finding."""


class Copy:
    """The whole project in a folder of its own, where one fault at a time is made."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("workbench", "tests", "notebooks", "docs", "binder"):
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        for path in [*ROOT.glob("*.toml"), *ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "LICENSE"]:
            shutil.copy(path, folder)
        self._edits = 0

    def judge(self, fault: Fault, tests: list[str]) -> Verdict:
        """Run the tests, tier by tier, until one fails with the fault twice, and not without."""
        path = self._folder / "workbench" / fault.path
        sound = path.read_bytes()
        verdict = Verdict(fault)
        for tier, marks in TIERS.items():
            left_out: list[str] = []
            while True:
                self._write(path, fault.made_in(sound))
                failed = self._run(["-m", marks, *tests, *(f"--deselect={x}" for x in left_out)])
                again = failed and ("::" not in failed or self._run(["-m", "", failed]))
                self._write(path, sound)
                if failed is None:
                    break
                if again and ("::" not in failed or not self._run(["-m", "", failed])):
                    verdict.tier, verdict.found_by = tier, failed
                    return verdict
                verdict.lucky.append(failed)
                left_out.append(failed)
        return verdict

    def _write(self, path: Path, text: bytes) -> None:
        """With a time of its own: Python compiles anew what has another time, in seconds."""
        path.write_bytes(text)
        self._edits += 1
        os.utime(path, (1e9 + self._edits, 1e9 + self._edits))

    def _run(self, arguments: list[str]) -> str | None:
        """Return what failed: a test's name, or what else went wrong; None if nothing did."""
        command = [sys.executable, "-m", "pytest", "-qx", "-n0", "-p", "no:cacheprovider"]
        environ = {**os.environ, "PYTHONPATH": str(self._folder), "PATIENCE": "0.5"}
        process = subprocess.Popen(
            [*command, "--timeout", "120", *arguments], cwd=self._folder, env=environ,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return "it hangs"
        if process.returncode in (0, 5):  # 5: there were no tests
            return None
        if process.returncode == 4 and "ImportError while loading conftest" not in said:
            raise RuntimeError(said)
        failed = re.search(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)(?: - |$)", said, re.MULTILINE)
        return failed[1] if failed else f"pytest ended with {process.returncode}"


def _tests(fault: Fault) -> list[str]:
    found = touched_by(f"workbench/{fault.path}")
    return [each for each in dict.fromkeys(found) if (ROOT / each).exists()]


def judged(faults: list[Fault], streams: int) -> Iterator[Verdict]:
    """Yield each fault's verdict as it comes."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(streams):
            copies.put(Copy(Path(folder) / str(number)))

        def judge(fault: Fault) -> Verdict:
            copy = copies.get()
            try:
                return copy.judge(fault, _tests(fault))
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(streams) as pool:
            yield from pool.map(judge, faults)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="how many faults (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other faults")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: 2)")
    parser.add_argument("--only", default="", help="those alone whose line has this text in it")
    parser.add_argument("--list", action="store_true", help="only say which faults")
    options = parser.parse_args()
    faults = [each for each in chosen(options.count, options.seed) if options.only in each.key]
    if options.list:
        print(*(f"{each.path}:{each.line} {each.key}" for each in faults), sep="\n")
        return 0
    found: Counter[str | None] = Counter()
    for number, verdict in enumerate(judged(faults, options.jobs), 1):
        found[verdict.tier] += 1
        said = f"{verdict.tier}: {verdict.found_by}" if verdict.tier else "NOT FOUND"
        print(f"{number:3} {verdict.fault.key}\n      {said}", flush=True)
        for each in verdict.lucky:
            print(f"      by luck: {each}", flush=True)
    quick, both = found["make test"], found.total() - found[None]
    print(f"Of {len(faults)} faults make test finds {quick}, make test-all {both}.")
    return int(found[None] > 0 or quick < 0.95 * len(faults))


if __name__ == "__main__":
    sys.exit(main())
