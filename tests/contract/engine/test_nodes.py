"""Several machines, of clusters alone: work on all of them, data moved once, one that dies."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tests.contract.engine.conftest import Book
from tests.contract.engine.systems import NODES, Cluster
from tests.kernel.conftest import Cell
from tests.kernel.gates import Gate

WHERE = """
def where():
    '''The node: of Ray its id, of Dask the nanny that started the worker.'''
    import sys
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        return sys.modules["ray"].get_runtime_context().get_node_id()
    import distributed
    return distributed.get_worker().address
"""


def test_a_cell_for_each_item_runs_on_all_nodes(
    book: Book, cluster: Cluster, gates: Callable[[], Gate]
) -> None:
    gate = gates()
    count = book.system.workers
    book.ok("%%remote -n 12\npass")
    cell = book.ok(f"%%remote -n {count}\nimport os\nprint('here')\n{gate.wait}\npid = os.getpid()")
    book.until(lambda: len([line for line in cell.printed if "here" in line]) >= count)
    gate.open(count)
    book.over(cell)
    assert book.value("len(set(wb.get(pid)))") == str(count)


def test_large_data_is_put_once_and_read_on_every_node(book: Book, cluster: Cluster) -> None:
    book.ok("""
        big = np.ones(100_000_000 // 8)
        ref = wb.put(big)
        sums = wb.get([wb.remote(lambda a: float(a.sum())).remote(ref) for _ in range(12)])
        assert sums == [12_500_000.0] * 12
    """)
    book.ok("wb.get([wb.remote(lambda a: a.flags.writeable).remote(ref) for _ in range(6)])")
    assert book.value("wb.get(wb.remote(lambda a: a.flags.writeable).remote(ref))") == "False"


def test_what_runs_on_a_node_that_dies_runs_again_elsewhere(
    book: Book, cluster: Cluster, gates: Callable[[], Gate]
) -> None:
    gate = gates()
    count = book.system.workers
    cell = book.ok(f"%%remote --retries 3 -n {count}\nprint('began')\n{gate.wait}\nx = index")
    book.until(lambda: _begun(cell) >= count)
    cluster.ask("kill_node")
    gate.open(2 * count)
    book.over(cell)
    assert book.value("wb.get(x)") == repr(list(range(count)))
    assert NODES == 3


def test_what_may_not_run_again_says_that_its_node_has_died(
    book: Book, cluster: Cluster, gates: Callable[[], Gate]
) -> None:
    gate = gates()
    count = book.system.workers
    cell = book.ok(f"%%remote --retries 0 -n {count}\nprint('began')\n{gate.wait}\nx = index")
    book.until(lambda: _begun(cell) >= count)
    cluster.ask("kill_node")
    gate.open(2 * count)
    assert "failed" in book.over(cell)
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
    return len([line for line in cell.printed if "began" in line])
