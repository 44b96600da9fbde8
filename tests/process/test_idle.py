"""A session that nobody uses: its processes and its free memory go back, and are there again."""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.processes import Processes
from workbench.errors import StoreFullError


def test_workers_and_free_memory_go_back_and_come_again(
    runtime: str, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_IDLE", "0.5")
    wb.init(workers=2, memory="256MB")

    @wb.remote
    def makes(n: int) -> np.ndarray:
        return np.full(n, 7.0)

    @wb.remote
    class Counter:
        count = 0

        def next(self) -> int:
            self.count += 1
            return self.count

    counter = Counter.remote()
    assert wb.get(counter.next.remote()) == 1
    kept = makes.remote(1_000_000)
    wb.get([makes.remote(2_000_000) for _ in range(4)])
    wb.get(wb.put(np.ones(4_000_000)))

    def whole() -> bool:
        """Each time a task is asked for: who looks too late would find nobody again."""
        assert wb.get(makes.remote(3)).tolist() == [7.0, 7.0, 7.0]
        return len(processes.workers()) == 3

    for _ in range(2):
        assert eventually(lambda: len(processes.workers()) == 1), "the actor's alone"
        assert eventually(lambda: processes.touched() < 9_000_000), processes.touched()
        assert eventually(whole)
    assert wb.get(kept).sum() == 7_000_000  # what they had made stays
    assert wb.get(counter.next.remote()) == 2
    del kept
    wb.shutdown()


def test_the_machine_has_the_last_word_on_memory(
    runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HEADROOM", "15TB")
    wb.init(workers=1, memory="256MB")
    with pytest.raises(StoreFullError, match="The machine has too little memory left"):
        wb.put(np.ones(1_000_000))
    assert wb.get(wb.put([1])) == [1]
    wb.shutdown()
