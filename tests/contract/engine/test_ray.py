"""Sessions on a cluster that the notebook is connected to already; of clusters alone. What is of
Ray alone: which of its Rays a session takes, and what that means for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.engine.conftest import Book, Opens
from tests.contract.engine.ray_cluster import ATTEMPTS
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


@pytest.fixture
def ray(cluster: Cluster) -> Cluster:
    if cluster.name != "ray":
        pytest.skip("it is about Ray")
    return cluster


def test_a_connected_ray_is_asked_what_it_has(ray: Cluster, alone: Opens) -> None:
    """It needs the same Python and the same Workbench."""
    book = alone()
    book.ok(f"""
        import ray, workbench as wb
        from workbench.engines.ray import backend
        here = backend.here()
        ray.init(address={ray.address!r}, log_to_driver=False)
    """)
    book.ok("backend.here = lambda: here._replace(python='3.9.1')")
    book.fails("wb.init(ray)", "3.9.1", "can't travel")
    book.ok("backend.here = lambda: here._replace(workbench='9.9')")
    book.fails("wb.init(ray)", "have Workbench 0.", "pip install ipyworkbench==9.9")
    assert book.value("ray.is_initialized()") == "True"
    book.ok("backend.here = lambda: here\nwb.init(ray)")
    book.ok("assert wb.get(wb.remote(abs).remote(-3)) == 3")


def test_a_session_lives_on_the_head(ray: Cluster, book: Book) -> None:
    """Which is there as long as the cluster is: a session doesn't end with any other node."""
    book.ok("""
        import ray
        from ray.util import state
        (head,) = [n["NodeID"] for n in ray.nodes() if "node:__internal_head__" in n["Resources"]]
        actors = state.list_actors(filters=[("class_name", "=", "Supervisor")])
        places = {actor.node_id for actor in actors if actor.state == "ALIVE"}
    """)
    assert book.value("places == {head}") == "True", book.value("(places, head)")


def test_a_ray_of_its_own_ends_with_the_kernel(ray: Cluster, alone: Opens) -> None:
    book = alone()
    book.ok("%load_ext workbench")
    for _ in range(ATTEMPTS):
        started = book.run("%workbench start --engine ray --address local --workers 1")
        if started.error is None:
            break
    ends = "Names and background cells end with this kernel."
    assert ends in started.text()
    book.fails("%workbench start --keep 1h", ends)


def test_tasks_of_ray_keep_their_output(ray: Cluster, alone: Opens) -> None:
    """Ours take the output of the processes that they run in: those are their own."""
    book = alone()
    book.ok(f"""
        import ray, sys, builtins, workbench as wb
        ray.init({ray.address!r}, log_to_driver=False)
        wb.init(ray)
        def where():
            return type(sys.stdout).__module__, getattr(builtins.input, "__module__", "")
        ours = wb.get([wb.remote(where).remote() for _ in range(8)])
        theirs = ray.get([ray.remote(where).remote() for _ in range(30)])
    """)
    assert "workbench" in book.value("str(ours)")
    assert "workbench" not in book.value("str(theirs)")
