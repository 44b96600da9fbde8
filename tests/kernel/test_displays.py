"""What a notebook shows of itself: the bar of a long wait. `tests/process/test_cards.py` has the
rest."""

from __future__ import annotations

from tests.kernel.conftest import Kernel

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
