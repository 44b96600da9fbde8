"""run: has a notebook executed, tells a terminal of each cell, and keeps what was done."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell

from workbench.cli.execution import Execution
from workbench.cli.parameters import INJECTED, inject, read_values, source_of, value_of
from workbench.errors import WorkbenchError
from workbench.report import notebook_run as words

STATUS = {"done": 0, "failed": 1, "stopped": 130}


def run(given: Namespace) -> int:
    """Execute a notebook; return the exit status: 2 if it can't begin as it was typed."""
    source = Path(given.notebook)
    target = Path(given.output or source.with_name(f"{source.stem}.executed.ipynb"))
    try:
        notebook = _read(source)
        values = read_values(Path(given.parameters)) if given.parameters else {}
        if values := values | {name: value_of(word) for name, word in given.p}:
            cell = new_code_cell(source_of(values), id=INJECTED, metadata={"tags": [INJECTED]})
            if (notebook.nbformat, notebook.nbformat_minor) < (4, 5):
                del cell["id"]
            inject(notebook.cells, cell)
        execution = _Shown(notebook, source.resolve().parent, os.environ, given.timeout)
        execution.target, execution.verbose = target.resolve(), given.verbose
        execution.save()
    except WorkbenchError as error:
        print(f"workbench: {error}", file=sys.stderr)
        return 2
    state, problem, reached, seconds = execution.run()
    execution.set_widgets_metadata()
    execution.save()
    place = f"{reached} of {len(execution.cells)}"
    text = words.ended_text(state, problem, place, seconds, str(target))
    print(text, file=sys.stdout if state == "done" else sys.stderr)
    return STATUS[state]


def _read(path: Path) -> Any:
    try:
        return nbformat.read(path, as_version=4)
    except Exception as error:  # each version of nbformat has its own
        why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise WorkbenchError(words.unusable_text(str(path), why)) from None


class _Shown(Execution):
    """Writes a line for each cell. One that will be replaced appears only where it can be."""

    target: Path
    verbose = False

    def save(self) -> None:
        """Write the notebook as it is now: all of it or nothing."""
        beside = self.target.with_name(f".{self.target.name}.{os.getpid()}")
        try:
            nbformat.write(self.nb, beside)
            os.replace(beside, self.target)
        except OSError as error:
            why = error.strerror or str(error)
            raise WorkbenchError(words.unusable_text(str(self.target), why)) from None
        finally:
            with suppress(OSError):
                beside.unlink()

    def on_cell(self, number: int, seconds: float | None, is_good: bool) -> None:
        place, is_replaced = f"{number}/{len(self.cells)}", sys.stdout.isatty() and not self.verbose
        line = words.cell_line(place, self.cells[number - 1].source, seconds, is_good)
        if is_replaced:
            columns = shutil.get_terminal_size().columns - 1
            line = f"\r\x1b[K{words.fitted(line, columns)}"
        if seconds is not None or is_replaced or self.verbose:
            is_open = is_replaced and seconds is None
            print(line, end="" if is_open else "\n", flush=True)
        if seconds is not None:
            self.save()

    def on_wait(self, names: list[str]) -> None:
        print(words.waiting_line(names), flush=True)

    def output(self, outs: list[Any], msg: dict[str, Any], *rest: Any) -> Any:
        if self.verbose and msg["parent_header"]["msg_id"] == self.running:
            print(msg["content"].get("text", ""), end="", flush=True)
        return super().output(outs, msg, *rest)
