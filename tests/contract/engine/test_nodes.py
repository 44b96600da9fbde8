"""Several machines, of clusters alone: work on all of them, and one that dies; of Ray alone: large
data moves once to each, whoever reads it."""

from __future__ import annotations

import ast

import pytest

from tests.contract.engine.conftest import Book, Opens
from tests.contract.engine.systems import NODES, SLOTS, Cluster
from tests.kernel.conftest import Cell, Gates
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


SIZE = 100_000_000
"""Bytes."""

REST = SIZE // 10
"""Bytes that may move besides."""

NODE = "import ray\nnode = ray.get_runtime_context().get_node_id()"
"""Lines of a cell: its node's own name."""


def test_large_data_moves_once_to_each_node(cluster: Cluster, alone: Opens, gates: Gates) -> None:
    """Counted where it arrives. All nodes are at work at a time, with several tasks each; and
    again, as it is there now."""
    if cluster.name != "ray":
        pytest.skip("Dask moves data as it sees fit")
    book = alone()
    book.begin()
    book.ok("import numpy as np\nimport workbench as wb")
    book.ok(f"big = np.ones({SIZE // 8})\n%put big")
    before = cluster.ask("moved")
    count = NODES * SLOTS
    for moves in (NODES - 1, 0):
        gate = gates()
        cell = book.ok(
            f"%%remote --map part=range({count})\n{NODE}\n"
            f"total = float(big.sum())\nprint('read')\n{gate.wait}"
        )
        book.until(lambda cell=cell: len([p for p in cell.printed if "read" in p]) == count)
        gate.open(count)
        book.over(cell)
        assert book.value("{*wb.get(total)}") == repr({SIZE / 8})
        assert book.value("len({*wb.get(node)})") == str(NODES)
        now = cluster.ask("moved")
        assert moves * SIZE <= now - before < moves * SIZE + REST
        before = now
