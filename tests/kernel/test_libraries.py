"""Executors and joblib in a real kernel: known without a word, under their own cell, stopped; the
bar of a long wait."""

from __future__ import annotations

import re

from tests.kernel.conftest import Kernel
from tests.kernel.gates import Gate


def test_joblib_knows_the_pool_once_it_is_imported(session: Kernel) -> None:
    session.ok("from joblib import Parallel, delayed, parallel_config\nimport os")
    here = "with parallel_config('workbench'):\n    "
    session.ok(f"{here}pids = Parallel()(delayed(os.getpid)() for _ in 'ab')")
    assert session.value("os.getpid() in pids") == "False"
    session.ok(f"%%remote -w\n{here}n = Parallel()([delayed(len)('ab')])")
    assert session.value("n") == "[2]"


WAITS = [
    "list(wb.Executor().map(waits, range(6), chunksize=1))",
    "[f.result() for f in [wb.Executor().submit(waits, n) for n in range(6)]]",
    "joblib.Parallel(backend='workbench')(joblib.delayed(waits)(n) for n in range(6))",
]
SOON = "import workbench.engine.tally; workbench.engine.tally.EVERY = 0.05"


def test_a_line_tells_how_many_calls_are_done(session: Kernel, gate: Gate) -> None:
    session.ok(f"import joblib\n{SOON}\ndef waits(n):\n    {gate.wait}\n    return n")
    for waits in WAITS:
        cell = session.start(f"results = {waits}")
        # joblib submits the next ones as some end, so nobody knows how many there will be.
        told = "calls done" if "joblib" in waits else "of 6 calls done"
        session.until(lambda cell=cell, told=told: f"0 {told}" in cell.told)  # type: ignore[misc]
        gate.open(2)
        session.until(lambda cell=cell, told=told: f"2 {told}" in cell.told)  # type: ignore[misc]
        gate.open(4)
        session.until(lambda cell=cell: cell.idle)  # type: ignore[misc]
        assert re.fullmatch(r"6 calls done in .* m?s", cell.told[-1])
        assert session.value("results") == "[0, 1, 2, 3, 4, 5]"
        assert session.ok("results").told == []


def test_an_interrupted_cell_says_how_far_it_came(session: Kernel, gate: Gate) -> None:
    session.ok(f"{SOON}\ndef waits(n):\n    {gate.wait}")
    cell = session.start("list(wb.Executor().map(waits, range(6), chunksize=1))")
    gate.open()
    session.until(lambda: any(text.startswith("1 of ") for text in cell.told))
    session.interrupt()
    session.until(lambda: cell.idle)
    assert re.fullmatch(r"1 of 6 calls done after .* m?s", cell.told[-1])


def test_the_line_of_a_background_cell_tells_it(session: Kernel, gate: Gate) -> None:
    """Its own calls, not those that these make."""
    session.ok("import workbench.ipython.joblines; workbench.ipython.joblines.RENEWAL = 0.05")
    session.ok(f"""
        def waits(n):
            from workbench import Executor
            list(Executor().map(abs, range(100)))
            {gate.wait}
            return n
    """)
    cell = session.start(
        f"%%remote\n{SOON}\nimport workbench\n"
        "results = list(workbench.Executor().map(waits, range(6), chunksize=1))"
    )
    session.until(lambda: "0 of 6 calls done" in cell.line)
    gate.open(2)
    session.until(lambda: "2 of 6 calls done" in cell.line)
    gate.open(4)
    session.until(lambda: "done in" in cell.line)
    assert "calls" not in cell.line
    assert cell.told == []
    assert session.value("wb.get(results)") == "[0, 1, 2, 3, 4, 5]"


def test_a_program_that_runs_the_notebook_is_shown_none(session: Kernel) -> None:
    code = "from workbench import context\nprint(context.get().listener.tally() is None)"
    assert session.run(code, headless=True).text() == "True\n"
    assert session.run(code).text() == "False\n"


BAR = "application/vnd.jupyter.widget-view+json"


def test_a_bar_under_the_cell_that_waits(session: Kernel) -> None:
    cell = session.ok("print(wb.map(len, ['a', 'bc'], progress=True))")
    assert cell.text() == "[1, 2]\n"
    assert cell.results(BAR)
    assert not cell.text("stderr")
    with session.patient("workbench.api.gathering"):
        quick = session.ok("print(wb.gather([wb.put(1)]))")
    assert quick.text() == "[1]\n"
    assert not quick.results(BAR)
