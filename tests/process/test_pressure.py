"""Memory that runs short: a task that takes too much ends before the kernel ends the notebook.

Who is ended, and what is tried again: `tests/unit/core/test_idleness.py`, `test_task_machine.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench as wb
from tests.leaks import eventually
from tests.patience import TIMEOUT
from workbench.errors import OutOfMemoryError
from workbench.system.machine import MemoryGauge

SPARE = 1_500_000_000
"""More than the other tests, which run beside this one, take or give back in between."""


@pytest.mark.extended
def test_a_task_that_takes_too_much_ends_and_says_so(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that has 1.5 GB to spare."""
    available, _ = MemoryGauge().read()
    monkeypatch.setenv("WORKBENCH_HEADROOM", str(available - SPARE))
    session = wb.init(workers=2, memory="64MB")
    tries = tmp_path / "tries"

    @wb.remote
    def takes() -> int:
        with tries.open("a") as file:
            file.write(".")
        return len([bytearray(b"x") * (1 << 24) for _ in range(360)])  # up to 6 GB

    with pytest.raises(OutOfMemoryError) as caught:
        wb.get(takes.remote(), timeout=TIMEOUT)
    text = str(caught.value)
    assert isinstance(caught.value, MemoryError)
    assert "ran short" in text
    assert "takes` " in text.split("in use: ")[1]
    assert "num_cpus" in text
    assert tries.stat().st_size == 1  # alone, it would end so again
    assert wb.get(wb.remote(lambda: "goes on").remote()) == "goes on"
    assert eventually(lambda: len(session.snapshot().workers) == 2)
    wb.shutdown()
