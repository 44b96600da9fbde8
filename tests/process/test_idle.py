"""A session that nobody uses: its processes and its free memory go back, and are there again."""

from __future__ import annotations

import os

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.processes import Processes


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
    del made
    wb.shutdown()
