"""The peers' environments, under `.bench/` in the checkout: made here, entered by `rounds`.

One a requirements file beside this module. An environment is made anew when its file, or the
Python it was made with, has changed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent / ".bench"


def interpreter(name: str) -> Path:
    """The environment's Python. It exists once `prepare` has returned."""
    return ROOT / name / "bin" / "python"


def prepare(name: str) -> None:
    """Make environment ``name`` from ``name.txt``, unless it is there.

    Raises
    ------
    CalledProcessError
        If it can't be made: pip has said why.
    """
    requirements = HERE / f"{name}.txt"
    stamp = ROOT / name / "made-from"
    made_from = f"{sys.version}\n{requirements.read_text()}"
    if stamp.exists() and stamp.read_text() == made_from:
        return
    print(f"Making {stamp.parent.relative_to(ROOT.parent)} (once) ...", file=sys.stderr)
    shutil.rmtree(stamp.parent, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(stamp.parent)], check=True)
    pip = [str(interpreter(name)), "-m", "pip", "install", "--quiet", "-r", str(requirements)]
    subprocess.run(pip, check=True)
    stamp.write_text(made_from)
