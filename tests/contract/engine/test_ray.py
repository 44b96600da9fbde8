"""What is of Ray alone: which of its Rays a session takes, and what that means for it."""

from __future__ import annotations

import pytest

from tests.contract.engine.conftest import Book, Opens
from tests.contract.engine.ray_cluster import ATTEMPTS
from tests.contract.engine.systems import Cluster


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
