"""Large data on several machines, of Ray alone: it moves once to each, whoever reads it."""

from __future__ import annotations

import pytest

from tests.contract.engine.conftest import Opens
from tests.contract.engine.systems import NODES, SLOTS, Cluster
from tests.kernel.conftest import Gates

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
