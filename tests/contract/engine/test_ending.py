"""Endings: nothing is left of a session that was left or whose notebook stopped it. Of its drivers,
slow ones stay, those that are killed go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.contract.engine.conftest import Books, Opens
from tests.contract.engine.systems import Cluster, System
from tests.kernel.gates import Gate
from tests.leaks import eventually
from tests.patience import TIMEOUT


def test_nothing_is_left_of_a_session(alone: Opens, gate: Gate) -> None:
    """No actor, data, process or file; whatever it was at."""
    book = alone()
    book.begin()
    book.ok("import workbench as wb\nimport numpy as np")
    book.ok("%put --name kept np.ones(200_000)")
    book.ok("""
        @wb.remote
        class Stays:
            def f(self): return 1
        stays = Stays.options(name="stays", lifetime="detached").remote()
        assert wb.get(stays.f.remote()) == 1
        refs = [wb.remote(lambda: np.ones(200_000)).remote() for _ in range(4)]
        wb.wait(refs, num_returns=4)
    """)
    cell = book.ok(f"%%remote\nprint('runs')\n{gate.wait}")
    book.until(cell.text)
    assert "over for this notebook" in book.ok("%workbench stop").text()
    if book.system.name != "local":
        assert "stopped" in book.over(cell)
    assert eventually(lambda: not book.system.left()), book.system.left()


SCRIPT = """
import os, sys, workbench as wb
if __name__ == "__main__":
    wb.init({options})
    ref = wb.put([1, 2], name="kept")
    assert wb.get(wb.remote(abs).remote(-3)) == 3
    if "killed" in sys.argv:
        os.kill(os.getpid(), 9)
"""


@pytest.mark.extended
@pytest.mark.parametrize("how", ["ends", "killed"])
def test_nothing_of_scripts_is_left(books: Books, system: System, tmp_path: Path, how: str) -> None:
    """It says no goodbye; the session ends with it all the same, as nobody lingers."""
    books.end()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(options=system.options))
    environment = {**os.environ, **system.environment}
    done = subprocess.run([sys.executable, script, how], env=environment, timeout=TIMEOUT * 3)
    assert done.returncode == (-9 if how == "killed" else 0)
    assert eventually(lambda: not system.left()), system.left()


SILENT = 33.0
"""Seconds for which a lid is closed."""

THERE = "len(_context.get().snapshot().clients)"


def test_a_slow_driver_keeps_its_session(cluster: Cluster, alone: Opens) -> None:
    """Silence is no leave: neither while it is stopped, nor when another leaves meanwhile."""
    first, second = alone("shared.ipynb"), alone("shared.ipynb")
    for book in (first, second):
        book.begin()
        book.ok("import workbench as wb\nfrom workbench import context as _context")
    first.ok("%put --name kept [1, 2, 3]")
    assert second.value(THERE) == "2"
    pid = int(first.value("__import__('os').getpid()"))
    os.kill(pid, signal.SIGSTOP)
    try:
        threading.Event().wait(SILENT)
        assert second.value(THERE) == "2"
        second.ok("%workbench stop")
    finally:
        os.kill(pid, signal.SIGCONT)
    first.ok("%get kept")
    assert first.value("kept") == "[1, 2, 3]"


def test_a_killed_driver_has_gone(cluster: Cluster, alone: Opens) -> None:
    first, second = alone("shared.ipynb"), alone("shared.ipynb")
    for book in (first, second):
        book.begin()
        book.ok("from workbench import context as _context")
    assert second.value(THERE) == "2"
    os.kill(int(first.value("__import__('os').getpid()")), signal.SIGKILL)
    assert eventually(lambda: second.value(THERE) == "1")
