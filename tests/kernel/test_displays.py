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


def test_a_bar_under_the_cell_that_waits(session: Kernel) -> None:
    cell = session.ok("print(wb.map(len, ['a', 'bc'], progress=True))")
    assert cell.text() == "[1, 2]\n"
    assert cell.results(BAR)
    assert not cell.text("stderr")
    with session.patient("workbench.api.gathering"):
        quick = session.ok("print(wb.gather([wb.put(1)]))")
    assert quick.text() == "[1]\n"
    assert not quick.results(BAR)
