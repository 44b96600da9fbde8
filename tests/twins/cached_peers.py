"""The edits of edits.txt with joblib.Memory and marimo's persistent_cache, each in its own way.

Run by a Python that has both, not by the suite: ``python -m tests.twins.cached_peers``.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from tests.twins.cached import HITS, IMPORTS, RESET, Edit, edits

SETUP = IMPORTS.replace("\n%load_ext workbench", "")

MARIMO = """\
import marimo
app = marimo.App()

@app.cell
def _():
{before}
    return ({names})

@app.cell
def _({read}):
    import contextlib, io, marimo, time as _time
    _began = _time.perf_counter()
    with marimo.persistent_cache(name="cell", save_path={cache!r}):
        with contextlib.redirect_stdout(io.StringIO()) as _shown:
{cell}
        text = _shown.getvalue()
    print("MS", 1000 * (_time.perf_counter() - _began), "TEXT", repr(text))
    return (text,)

app.run()
"""


def _read(cell: str) -> list[str]:
    return sorted({n.id for n in ast.walk(ast.parse(cell)) if isinstance(n, ast.Name)})


def _bound(code: str) -> list[str]:
    tree = ast.parse(code)
    found = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and type(n.ctx) is ast.Store}
    for node in tree.body:
        match node:
            case ast.FunctionDef(name) | ast.ClassDef(name) | ast.AsyncFunctionDef(name):
                found.add(name)
            case ast.Import(names) | ast.ImportFrom(names=names):
                found |= {each.asname or each.name.partition(".")[0] for each in names}
    return sorted(name for name in found if name[0] != "_")


class Joblib:
    """A notebook whose cell is a cached function: what it reads are arguments, or globals."""

    def __init__(self, directory: str) -> None:
        import joblib
        from IPython.core.interactiveshell import InteractiveShell

        self._shell = InteractiveShell()
        self._memory = joblib.Memory(f"{directory}/joblib", verbose=0)
        self._run(SETUP.format(f"{directory}/files"))

    def _run(self, code: str) -> None:
        self._shell.run_cell(code, silent=True).raise_error()  # type: ignore[no-untyped-call]

    def look(self, before: str, cell: str) -> tuple[str, str]:
        """What the cached function gives, and what the function itself gives."""
        here, given = self._made(before, cell)
        got = self._memory.cache(here["cell"])(*[here[name] for name in given])
        self._run(RESET + before)
        return got, here["cell"](*[here[name] for name in given])

    def times(self, before: str, cell: str) -> list[float]:
        """Milliseconds in which a result is found, several times."""
        here, given = self._made(before, cell)
        cached, found = self._memory.cache(here["cell"]), []
        for _ in range(4):
            began = time.perf_counter()
            cached(*[here[name] for name in given])
            found.append(1000 * (time.perf_counter() - began))
        return found[1:]

    def _made(self, before: str, cell: str) -> tuple[dict[str, Any], list[str]]:
        """The notebook, and the names of the function's arguments."""
        self._run(RESET + before)
        here: dict[str, Any] = self._shell.user_ns
        code = ModuleType, FunctionType, BuiltinFunctionType, type
        given = [n for n in _read(cell) if n in here and not isinstance(here[n], code)]
        body = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as shown:\n"
        body += textwrap.indent(cell, "    ") + "\nreturn shown.getvalue()"
        self._run(f"def cell({', '.join(given)}):\n{textwrap.indent(body, '    ')}")
        return here, given


class Marimo:
    """A notebook that is run anew after each edit."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._took = 0.0

    def look(self, before: str, cell: str) -> tuple[str, str]:
        return self._text(before, cell, "kept"), self._text(before, cell, tempfile.mkdtemp())

    def times(self, before: str, cell: str) -> list[float]:
        """Milliseconds in which a result is found, several times."""
        took = []
        for _ in range(4):
            self._text(before, cell, "kept")
            took.append(self._took)
        return took[1:]

    def _text(self, before: str, cell: str, cache: str) -> str:
        before = SETUP.format(f"{self._directory}/files") + "\n" + before
        bound = _bound(before)
        text = MARIMO.format(
            before=textwrap.indent(before, "    "),
            names="".join(f"{name}, " for name in bound),
            read=", ".join(name for name in _read(cell) if name in bound),
            cache=str(Path(self._directory, cache)),
            cell=textwrap.indent(cell, " " * 12),
        )
        file = Path(self._directory, "notebook.py")
        file.write_text(text)
        done = subprocess.run(
            [sys.executable, file], capture_output=True, text=True, check=False, timeout=100
        )
        told, found, shown = done.stdout.partition("TEXT ")
        if not found:
            raise RuntimeError(done.stderr[-300:])
        self._took = float(told.split()[-1])
        return str(ast.literal_eval(shown.strip()))


def outcome(tool: Joblib | Marimo, edit: Edit) -> str:
    """Whether a tool gives what a run gives, after each of the edits and back at the first."""
    for value in (*edit.values, edit.values[0]):
        before, cell = edit.with_value(value)
        try:
            got, ran = tool.look(before, cell)
        except Exception as error:
            return f"error ({type(error).__name__})"
        if got != ran:
            return "stale"
    return "right"


def main() -> None:
    counted: dict[str, Counter[str]] = {"joblib": Counter(), "marimo": Counter()}
    with tempfile.TemporaryDirectory(prefix="peers-") as directory:
        Path(directory, "files").mkdir()
        tools = {"joblib": Joblib(directory), "marimo": Marimo(directory)}
        for row, (before, cell) in HITS.items():
            if "%" not in before:
                for name, tool in tools.items():
                    took = " ".join(f"{ms:.1f}" for ms in tool.times(before, cell))
                    print(f"{row} is found by {name} in {took} ms", flush=True)
        for edit in edits():
            if edit.claimed and "%" not in edit.before and "await" not in edit.cell:
                said = {name: outcome(tool, edit) for name, tool in tools.items()}
                print(f"{edit.kind}: {said}", flush=True)
                for name, each in said.items():
                    counted[name][each.partition(" ")[0]] += 1
        os.chdir("/")  # IPython asks for it at its end
    print({name: dict(each) for name, each in counted.items()})


if __name__ == "__main__":
    main()
