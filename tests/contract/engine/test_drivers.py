"""Drivers of one session: slow ones stay, those that are killed go."""

from __future__ import annotations

import os
import signal
import threading

from tests.contract.engine.conftest import Opens
from tests.contract.engine.systems import Cluster
from tests.leaks import eventually

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
