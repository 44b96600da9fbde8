"""Memory and processes that go back: of a session that nobody uses, and where memory runs short.

Who is ended, and what is tried again: `tests/unit/core/test_idleness.py`, `test_task_machine.py`.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from tests.process.processes import Processes
from workbench.errors import OutOfMemoryError
from workbench.system.machine import MemoryGauge


def test_workers_and_free_memory_go_back_and_come_again(
    runtime: str, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One walk through real processes of what `tests/unit/core/test_idleness.py` tells."""
    monkeypatch.setenv("WORKBENCH_IDLE", "0.5")
    wb.init(workers=2, memory="256MB")

    @wb.remote
    def makes(n: int) -> np.ndarray:
        return np.full(n, 7.0)

    @wb.remote
    class Kept:
        def pid(self) -> int:
            return os.getpid()

    kept = Kept.remote()
    pid = wb.get(kept.pid.remote())
    assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"  # Linux ends workers first
    made = makes.remote(1_000_000)
    wb.get([makes.remote(2_000_000) for _ in range(4)])
    wb.get(wb.put(np.ones(4_000_000)))

    def whole() -> bool:
        """Each time a task is asked for: who looks too late would find nobody again."""
        assert wb.get(makes.remote(3)).tolist() == [7.0, 7.0, 7.0]
        return len(processes.workers()) == 3

    for _ in range(2):
        assert eventually(lambda: [worker.pid for worker in processes.workers()] == [pid])
        assert eventually(lambda: processes.touched() < 9_000_000), processes.touched()
        assert eventually(whole)
    assert wb.get(made).sum() == 7_000_000  # what they had made stays


SPARE = 1_500_000_000
"""More than the other tests, which run beside this one, take or give back in between."""


@pytest.mark.extended
def test_a_task_that_takes_too_much_has_its_error_at_its_line(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that has 1.5 GB to spare. Its worker is ended only if others take that."""
    available, _ = MemoryGauge().read()
    monkeypatch.setenv("WORKBENCH_HEADROOM", str(available - SPARE))
    session = wb.init(workers=2, memory="64MB")
    tries = tmp_path / "tries"

    @wb.remote
    def takes() -> int:
        with tries.open("a") as file:
            file.write(".")
        return len([bytearray(b"x") * (1 << 24) for _ in range(360)])  # up to 6 GB

    with pytest.raises(MemoryError) as caught:
        wb.get(takes.remote(), timeout=TIMEOUT)
    is_ended = isinstance(caught.value, OutOfMemoryError)
    said = "ran short" if is_ended else "for _ in range(360)"
    assert said in "".join(traceback.format_exception(caught.value))
    assert tries.stat().st_size == 1
    assert wb.get(wb.remote(lambda: "goes on").remote()) == "goes on"
    assert eventually(lambda: len(session.snapshot().workers) == 2)
