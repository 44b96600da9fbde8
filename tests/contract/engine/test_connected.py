"""Sessions on a cluster that the notebook is connected to already; of clusters alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.engine.conftest import Opens
from tests.contract.engine.systems import Cluster
from tests.patience import TIMEOUT

CONNECTS = {
    "ray": "import ray as target\ntarget.init({!r}, log_to_driver=False)",
    "dask": "from distributed import Client\ntarget = Client({!r})",
}


def test_several_sessions_over_one_connection(cluster: Cluster, alone: Opens) -> None:
    """The same processes may serve them: what they show, import and have is each session's own."""
    book = alone()
    book.ok(CONNECTS[cluster.name].format(cluster.address))
    book.ok("%load_ext workbench")
    count = 2 * cluster.workers
    for module in ("colorsys", "netrc", "sched"):
        book.ok(f"import workbench as wb\nwb.init(target, session={module!r})")
        assert book.value("wb.snapshot().objects") == "()"
        cell = book.ok(f"""
            %%remote -w -n {count}
            import os, {module}
            os.environ["SEEN"] = os.environ.get("SEEN", "") + "{module} "
            print("{module}")
            os.system("echo from a program")
            seen = os.environ["SEEN"].split()
        """)
        shown = [line.partition("] ")[2] for line in cell.printed]
        assert shown.count(module) == shown.count("from a program") == count, shown
        assert book.value("seen") == repr([[module]] * count)
        book.ok("%workbench stop")


def test_variables_that_workers_cannot_get_are_told(cluster: Cluster, alone: Opens) -> None:
    """A cluster that this process is connected to has started its workers, with what they have."""
    book = alone()
    book.ok(CONNECTS[cluster.name].format(cluster.address))
    cell = book.ok("""
        import workbench as wb
        session = wb.init(target, runtime_env={"env_vars": {"TOLD": "1"}})
    """)
    assert "runtime_env: a cluster that runs already has its own" in cell.text("stderr")


SCRIPT = """
import numpy as np, workbench as wb
with wb.init("dask", workers=3) as session:
    print(session.workers)
    ref = wb.put(np.ones(200_000))
    total = wb.remote(lambda array: float(array.sum()))
    print(wb.get(wb.remote(lambda: wb.get(total.remote(ref))).remote()))
"""


def test_dask_on_this_machine_needs_no_guard_in_a_script(cluster: Cluster, tmp_path: Path) -> None:
    """Processes that Dask starts itself import the script, which would start them again."""
    if cluster.name != "dask":
        pytest.skip("Ray starts its processes otherwise, and of one machine there is one Ray")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, **cluster.environment}
    done = subprocess.run(
        [sys.executable, script], env=environment, timeout=TIMEOUT, capture_output=True, text=True
    )
    assert done.stdout.split() == ["3", "200000.0"], done.stderr
