"""What only Dask has: a scheduler that may go away. With clusters of a test's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.contract.engine.conftest import Book
from tests.contract.engine.systems import Cluster
from tests.leaks import eventually


@pytest.fixture
def scheduler(cluster: Cluster, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of a scheduler without workers, and its process."""
    if cluster.name != "dask":
        pytest.skip("of Dask alone")
    place = tmp_path / "scheduler.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0",
         "--no-dashboard", "--scheduler-file", str(place)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=dict(os.environ), start_new_session=True,
    )  # fmt: skip
    try:
        assert eventually(lambda: place.exists() and place.stat().st_size)
        import json

        yield json.loads(place.read_text())["address"], process
    finally:
        psutil.Process(process.pid).kill()
        process.wait()


def test_who_waits_is_told_that_the_scheduler_has_died(
    another: Callable[..., Book], scheduler: tuple[str, subprocess.Popen[bytes]]
) -> None:
    address, process = scheduler
    book = another()
    book.ok("%load_ext workbench")
    book.ok(f"%workbench start --engine dask --address {address}")
    book.ok("""
        import workbench as wb
        ref = wb.remote(len).remote("abc")
        items = wb.remote(num_returns="streaming")(lambda: iter("ab")).remote()
        future = ref.future()
    """)
    cell = book.start("print('waits', flush=True)\nwb.get(ref)")
    book.until(cell.text)
    process.kill()
    book.until(lambda: cell.idle)
    assert "SessionError" in cell.failure
    assert "scheduler was lost" in cell.failure
    book.fails("future.result(60)", "SessionError", "scheduler was lost")
    book.fails("wb.get(next(items))", "SessionError")
    book.fails("wb.put(1)", "SessionError", "scheduler was lost")
