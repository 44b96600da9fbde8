"""The same commands in plain IPython, in a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.patience import TIMEOUT

SCRIPT = """
from IPython.terminal.interactiveshell import TerminalInteractiveShell

shell = TerminalInteractiveShell.instance(colors="NoColor")
for cell in (
    "%load_ext workbench",
    "x = list(range(5))\\n%put x",
    "%%remote -w\\nprint('summing', len(x))\\ny = sum(x)\\ny",
    "%get x --as z\\nprint('got', y, z)",
    "%%remote -w\\n1 / 0",
    "%put nothing_here",
    "%workbench keep",
    "%%remote -w\\n%time print('timed', len(x))\\nimport ipywidgets\\nipywidgets.HTML('a widget')",
    "%%remote -w\\ntry:\\n    from tqdm.auto import tqdm\\nexcept ImportError:\\n    tqdm = list\\n"
    "for _ in tqdm([1]): pass",
    "%unload_ext workbench",
    "%put x",
):
    shell.run_cell(cell)
"""


def test_the_magics_work_in_a_terminal(runtime_dir: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "WORKBENCH_RUNTIME_DIR": runtime_dir, "IPYTHONDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    for text in (
        "Workbench started session",
        "x: list (5)",
        "summing 5\n",
        "10\n",
        "got 10 [0, 1, 2, 3, 4]",
        "----> 2 1 / 0\n",
        "ZeroDivisionError: division by zero",
        "timed 5\nCPU times: ",
        "HTML(value='a widget')",
        "NotDefinedError: 'nothing_here'",
        "They end with this process, unless",
        "magic function `%put` not found",
    ):
        assert text in re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    assert "FloatProgress" not in done.stdout  # in a terminal, bars are text
