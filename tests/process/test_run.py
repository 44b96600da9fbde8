"""`workbench run`, in a process of its own, with a kernel of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import notebooks
from tests.patience import TIMEOUT
from tests.process.gates import Gate
from tests.process.test_cli import run
from workbench.cli.parameters import value_of

ROOT = Path(__file__).parents[2]
LOAD = "%load_ext workbench"


class Running:
    """A run of a notebook that has these cells, and what it has left."""

    def __init__(self, directory: Path, cells: Sequence[str], *arguments: str) -> None:
        notebooks.write(directory / "a.ipynb", cells, ["parameters"])
        self._directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-m", "workbench", "run", str(directory / "a.ipynb"), *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT), "WORKBENCH_WORKERS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def lines(self) -> Iterator[str]:
        assert self.process.stdout is not None
        return iter(self.process.stdout.readline, "")

    def ended(self) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, errors

    def close(self) -> None:
        self.process.kill()  # its kernel ends then
        self.process.communicate()

    def shown(self) -> list[str]:
        """What stands under each cell now."""
        return ["\n".join(map(str, cell.outputs)) for cell in self.cells()]

    def cells(self) -> list[Any]:
        assert sorted(os.listdir(self._directory)) == ["a.executed.ipynb", "a.ipynb"]
        cells: list[Any] = notebooks.read(self._directory / "a.executed.ipynb").cells
        return cells


Starts = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starts]:
    with ExitStack() as started:
        yield lambda *what: started.enter_context(closing(Running(tmp_path, *what)))


def at(gate: Gate, where: str = "%%remote") -> str:
    """A cell that stops at the gate, and prints the word it gets there."""
    return f"{where}\nfrom tests.process.gates import stopper\nprint(stopper({gate.path!r})())"


def test_a_background_cells_output_is_under_it_however_late(start: Starts, gate: Gate) -> None:
    cells = ["n = 'default'", LOAD, at(gate), "print('there', n + 1)"]
    running = start(cells, "-p", "n", "6")
    visitor = gate.next()
    assert any("waiting for cell 4" in line for line in running.lines())
    assert "there 7" in running.shown()[-1]  # as it would be after a kill
    assert "late" not in running.shown()[3]
    visitor.let_on("late")
    assert running.ended() == (0, "")
    _, injected, *_ = running.cells()
    assert injected.source == "# Parameters\nn = 6"
    assert injected.metadata.tags == ["injected-parameters"]
    *_, background, foreground = running.shown()
    assert "late" in background
    assert "done in" in background
    assert "late" not in foreground


@pytest.mark.parametrize("cells", [["1 / 0", "print('never')"], ["%%remote\n1 / 0"]])
def test_the_first_failure_ends_it(cells: list[str], start: Starts) -> None:
    endless = "%%remote --actor apart\nimport signal\nsignal.pause()"
    running = start([LOAD, endless, *cells])
    status, errors = running.ended()
    assert status == 1
    assert re.search(r"ZeroDivisionError[\s\S]*\ncell 3.* failed", errors)
    _, background, failed, *rest = running.shown()
    assert "stopped" in background
    assert "ZeroDivisionError" in failed
    assert not any(rest)


def test_ctrl_c_stops_all_and_keeps_what_was_done(start: Starts, gate: Gate) -> None:
    running = start([LOAD, at(gate), "print('kept')", at(gate, "# here"), "1"])
    stopped = [gate.next().pid, gate.next().pid]  # the worker, the kernel
    running.process.send_signal(signal.SIGINT)
    assert running.ended()[0] == 130
    assert not any(map(psutil.pid_exists, stopped[1:]))
    _, background, kept, interrupted, rest = running.shown()
    assert "stopped" in background
    assert "kept" in kept
    assert "KeyboardInterrupt" in interrupted
    assert rest == ""


def test_parameters_of_a_file_and_a_cell_that_takes_too_long(
    start: Starts, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("values") / "values.json"
    file.write_text('{"n": [1, {"m": NaN, "t": true}], "k": 2}')
    cells = ["n = k = 0", "print(n[1]['t'], k)", "import threading; threading.Event().wait()"]
    running = start(cells, "-f", str(file), "-p", "k", "3", "--timeout", "2", "--verbose")
    assert "True 3\n" in running.lines()  # as the cell prints it
    status, errors = running.ended()
    assert status == 1
    assert "longer than 2" in errors
    assert running.cells()[1].source == (
        "# Parameters\nn = [1, {'m': float(\"nan\"), 't': True}]\nk = 3"
    )


def test_what_can_not_begin(tmp_path: Path) -> None:
    notebooks.write(tmp_path / "a.ipynb", ["1"])
    for words in (
        ["none.ipynb"],
        ["a.ipynb", "-p", "a-b", "1"],
        ["a.ipynb", "-o", "no/b.ipynb"],
        ["a.ipynb", "-f", "none"],
    ):
        done = run("run", str(tmp_path / words[0]), *words[1:])
        assert (done.status, done.output) == (2, "")
        assert any(word in done.errors for word in words)
    assert list(map(value_of, ["None", "1", "1.5", "x"])) == [None, 1, 1.5, "x"]
