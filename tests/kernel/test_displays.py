"""What a notebook shows of refs, actors, sessions and tables; and the bar of a long wait."""

from __future__ import annotations

import re

from tests.kernel.conftest import Cell, Kernel

BAR = "application/vnd.jupyter.widget-view+json"


def page(cell: Cell) -> str:
    """The HTML under the cell, which no script or style comes with."""
    (found,) = cell.results("text/html")
    assert "<script" not in found
    assert "<style" not in found
    return str(found)


def test_a_ref_shows_itself_under_its_cell(session: Kernel) -> None:
    session.ok("import numpy as np")
    cell = session.ok("x = wb.put(np.eye(300), name='<b>'); x")
    assert "ndarray float64 (300, 300)" in page(cell)
    assert "&lt;b&gt;" in page(cell)
    assert "[1. 0. 0. ... 0. 0. 0.]" in page(cell)
    assert f"Cell In[{cell.number}], line 1" in page(cell)
    (plain,) = cell.results("text/plain")
    assert plain.startswith("ObjectRef ")
    assert session.value("[x]").count("\n") == 0  # inside something it is one line
    cell = session.ok(
        "from threading import Event\n"
        "r = wb.remote(lambda: Event().wait()).remote(); r"
    )  # fmt: skip
    assert re.search(r"● ?</span> (queued|running)", page(cell))  # it isn't waited for
    session.ok("wb.cancel(r)")


def test_sessions_and_tables_have_a_text_and_a_page(session: Kernel) -> None:
    session.ok("import numpy as np; kept = wb.put(np.eye(300), name='x')")
    for code, shown in {
        "wb.init(ignore_reinit_error=True)": "2 workers",
        "wb.objects()": "ndarray",
        "wb.why('x', deep=True)": "del kept",
        "wb.inspect_serializability(lambda: wb)": "can be stored.",
        "wb.explain_cost([1] * 5000)": "copied directly",
    }.items():
        cell = session.ok(code)
        assert shown in page(cell), code
        assert shown in cell.results("text/plain")[0], code
    cell = session.ok("%%remote --wait\nimport workbench as wb\nwb.put([1, 2, 3])")
    assert "[1, 2, 3]" in page(cell)  # on a worker, too


def test_a_bar_under_the_cell_that_waits(session: Kernel) -> None:
    cell = session.ok("print(wb.map(len, ['a', 'bc'], progress=True))")
    assert cell.text() == "[1, 2]\n"
    assert cell.results(BAR)
    assert not cell.text("stderr")
    with session.patient("workbench.api.gathering"):
        quick = session.ok("print(wb.gather([wb.put(1)]))")
    assert quick.text() == "[1]\n"
    assert not quick.results(BAR)


def test_interrupting_map_leaves_nothing_running(session: Kernel) -> None:
    cell = session.start(
        "from threading import Event\n"
        "def item():\n"
        "    print('begun', flush=True)\n"
        "    yield 1\n"
        "wb.map(lambda _: Event().wait(), item())"
    )
    session.until(lambda: "begun" in cell.text())
    session.interrupt()
    session.until(lambda: cell.idle)
    assert "KeyboardInterrupt" in cell.failure
    session.ok(
        "from workbench.core.snapshot import Snapshot\n"
        "while (s := wb.snapshot()).running or s.queued: pass"
    )


def test_as_completed_in_a_cell_with_top_level_await(session: Kernel) -> None:
    cell = session.ok(
        "refs = [wb.remote(len).remote('x' * n) for n in range(3)]\n"
        "seen = [await ref async for ref in wb.as_completed(refs)]\n"
        "print(sorted(seen))"
    )
    assert cell.text() == "[0, 1, 2]\n"
