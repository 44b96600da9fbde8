"""Several machines, of clusters alone: work on all of them, and one that dies."""

from __future__ import annotations

import ast

import pytest

from tests.contract.engine.conftest import Book
from tests.contract.engine.systems import NODES, Cluster
from tests.kernel.conftest import Cell
from tests.kernel.gates import Gate


def test_a_cell_for_each_item_runs_on_all_nodes(book: Book, cluster: Cluster, gate: Gate) -> None:
    count = book.system.workers
    book.ok("%%remote -n 12\npass")
    cell = book.ok(f"%%remote -n {count}\nimport os\nprint('here')\n{gate.wait}\npid = os.getpid()")
    book.until(lambda: len([line for line in cell.printed if "here" in line]) >= count)
    gate.open(count)
    book.over(cell)
    assert book.value("len(set(wb.get(pid)))") == str(count)


@pytest.mark.parametrize("retries", [3, 0])
def test_what_runs_on_a_node_that_dies_runs_again_elsewhere_if_it_may(
    book: Book, cluster: Cluster, gate: Gate, retries: int
) -> None:
    if not retries:
        book.needs("once")
    count = book.system.workers
    cell = book.ok(f"%%remote --retries {retries} -n {count}\nprint('ran')\n{gate.wait}\nx = index")
    book.until(lambda: _begun(cell) >= count)
    cluster.ask("kill_node")
    gate.open(2 * count)
    over = book.over(cell)
    if retries:
        assert book.value("wb.get(x)") == repr(list(range(count)))
        return
    assert "failed" in over
    assert _begun(cell) == count
    book.ok("""
        def found(ref):
            try: return str(wb.get(ref))
            except wb.exceptions.WorkerCrashedError as error: return type(error).__name__
        values = [found(ref) for ref in x]
    """)
    values = ast.literal_eval(book.value("values"))
    assert values.count("WorkerCrashedError") == count // NODES, values


def _begun(cell: Cell) -> int:
    """Tasks that have said so; a line that was sent in two pieces has a place of its own."""
    return len([line for line in cell.printed if "ran" in line])
