"""The same commands in plain IPython, in a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.patience import TIMEOUT
from tests.tables import tables

SCRIPT = """
import sys
from IPython.terminal.interactiveshell import TerminalInteractiveShell
shell = TerminalInteractiveShell.instance(colors="NoColor")
for cell in sys.argv[1:]: shell.run_cell(cell)
"""
CELLS = tables(__file__)[""]


def test_the_magics_work_in_a_terminal(runtime_dir: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *(cell for _, cell, *_ in CELLS)],
        env={**os.environ, "WORKBENCH_RUNTIME_DIR": runtime_dir, "IPYTHONDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    for name, _, *texts in CELLS:
        for text in texts:
            assert re.search(text, shown, re.MULTILINE), name
    assert "FloatProgress" not in done.stdout  # in a terminal, bars are text
