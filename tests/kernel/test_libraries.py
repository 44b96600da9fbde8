"""Executors and joblib in a real kernel: known without a word, under their own cell, stopped."""

from __future__ import annotations

import pytest

from tests.kernel.conftest import Kernel
from tests.kernel.test_remote import FOREVER


def test_joblib_knows_the_pool_once_it_is_imported(session: Kernel) -> None:
    session.ok("from joblib import Parallel, delayed, parallel_config\nimport os")
    here = "with parallel_config('workbench'):\n    "
    session.ok(f"{here}pids = Parallel()(delayed(os.getpid)() for _ in 'ab')")
    assert session.value("os.getpid() in pids") == "False"
    session.ok(f"%%remote -w\n{here}n = Parallel()([delayed(len)('ab')])")
    assert session.value("n") == "[2]"


def test_what_calls_print_is_under_the_cell_that_submitted_them(session: Kernel) -> None:
    session.ok("executor = wb.Executor()\ndef say(n):\n    print('call', n)\n    return n")
    assert "call 7" in session.ok("future = executor.submit(say, 7)\nfuture.result()").text()
    said = session.ok("results = list(executor.map(say, range(30)))").text()
    assert sum(line.endswith("call 29") for line in said.splitlines()) == 1
    session.ok("executor.shutdown()")


@pytest.mark.parametrize(
    "waits",
    [
        "list(wb.Executor().map(long, range(5)))",
        "wb.Pool().map(long, range(5))",
        "joblib.Parallel(backend='workbench')(joblib.delayed(long)(n) for n in range(5))",
    ],
)
def test_an_interrupt_stops_the_calls(session: Kernel, waits: str) -> None:
    session.ok(f"import joblib\ndef long(n):\n    print('there')\n    {FOREVER}")
    cell = session.start(waits)
    session.until(cell.text)
    session.interrupt()
    session.until(lambda: cell.idle)
    assert "KeyboardInterrupt" in cell.failure
    assert session.value("(wb.snapshot().running, wb.snapshot().queued)") == "(0, 0)"
    session.ok("import gc; gc.collect()")
