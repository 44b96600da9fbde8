"""The peers' environment, `.bench/peers` in the checkout: made here, entered by `rounds`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1] / ".bench" / "peers"

PYTHON = ROOT / "bin" / "python"
"""It exists once `prepare` has returned."""


def prepare() -> None:
    """Make it from ``peers.txt``, unless it was made from that, and with this Python.

    Raises
    ------
    CalledProcessError
        If it can't be made: pip has said why.
    """
    requirements = HERE / "peers.txt"
    stamp = ROOT / "made-from"
    made_from = f"{sys.version}\n{requirements.read_text()}"
    if stamp.exists() and stamp.read_text() == made_from:
        return
    print("Making .bench/peers (once) ...", file=sys.stderr)
    shutil.rmtree(ROOT, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(ROOT)], check=True)
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "-r", str(requirements)]
    subprocess.run(pip, check=True)
    stamp.write_text(made_from)
