"""Views of a real Ray cluster with its dashboard: what it tells, and that what it doesn't tell is
never a zero. Slow: Ray takes ten seconds to begin; `make slow` installs it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.pages import Page, Row
from workbench import api
from workbench.engines.observed import id_of
from workbench.engines.ray import observed as ours
from workbench.errors import SessionError
from workbench.report.page import key_of
from workbench.widgets.feed import Feed

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

SIZE = 1 << 20
STORE = 100 << 20


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_record_ref_creation_sites", "1")
    import ray

    before = set(psutil.Process().children(recursive=True))
    ray.init(
        num_cpus=1,
        include_dashboard=True,
        object_store_memory=STORE,
        logging_level="error",
        log_to_driver=False,
    )
    ray.get(ray.remote(lambda: 1).remote())
    yield ray
    ray.shutdown()
    patch.undo()
    assert eventually(lambda: not set(psutil.Process().children(recursive=True)) - before)
    with pytest.raises(SessionError, match="comes first"):
        wb.snapshot(ray)


@pytest.fixture(autouse=True)
def runtime() -> None:
    """Ray's own sockets and workers come and go: what is left is looked at when it has ended."""


@pytest.fixture
def feed(ray: Any) -> Iterator[Feed]:
    feed = Feed(api.observed(ray))
    yield feed
    feed.close()


def row(page: Page, ref: Any) -> Row:
    return dict(page.world["objects"].get(key_of(id_of(ref.hex())), {}))


def reasons(row: Row) -> set[str]:
    return {pin["reason"] for pin in row.get("pins") or ()}


def test_what_ray_tells_and_what_it_does_not(ray: Any, page: Page) -> None:
    ref = ray.put(np.ones(SIZE))
    page.until(lambda: row(page, ref))
    world, found = page.world, row(page, ref)
    assert world["engine"] == "ray"
    assert world["session"].startswith("Ray at ")
    assert world["scope"] == ""
    assert found["size"] > SIZE * 8
    assert reasons(found) == {"ref"}
    assert found["movable"] == "yes"
    assert found["site"].startswith("test_ray_views.py, line")
    unknown = (
        "kind", "born", "owner", "pickle", "copy", "load", "inband", "outband", "buffers",
        "repeats",
    )  # fmt: skip
    assert [found[fact] for fact in unknown] == [None] * len(unknown)
    page.until(lambda: (dict(page.world["bars"][0]["parts"])["live"] or 0) > SIZE * 8)
    store, machine, _ = (dict(bar["parts"]) for bar in page.world["bars"])
    assert store["live"] + store["available"] == STORE
    assert store["reusable"] is store["spilled"] is None
    assert machine == {}
    assert world["segments"] is world["jobs"] is world["speed"] is None
    assert world["workers"]


def test_to_look_takes_no_object_from_anybody(ray: Any) -> None:
    """Nor does it keep one."""
    counts = ray._private.worker.global_worker.core_worker.get_all_reference_counts
    refs = [ray.put(np.full(SIZE, n)) for n in range(3)]
    before = counts()
    look = ours.Ray(ray)
    for _ in range(5):
        look.snapshot()
    gc.collect()
    assert counts() == before
    assert [int(ray.get(ref)[0]) for ref in refs] == [0, 1, 2]


def test_tasks_and_actors(ray: Any, page: Page, feed: Feed) -> None:
    @ray.remote
    class Gate:
        def __init__(self) -> None:
            import asyncio

            self.open = asyncio.Event()

        async def wait(self) -> None:
            await self.open.wait()

        async def let_on(self) -> None:
            self.open.set()

    @ray.remote
    def reads(array: Any, gate: Any) -> int:
        ray.get(gate.wait.remote())
        return len(array)

    gate = Gate.options(num_cpus=0).remote()
    ref = ray.put(np.ones(SIZE))
    result = reads.remote(ref, gate)
    page.until(lambda: row(page, result))
    assert (row(page, result)["state"], row(page, result)["size"]) == ("pending", None)
    page.until(lambda: "arrays in worker" in str(row(page, ref)["pins"]))
    page.until(lambda: any("reads" in w["does"] for w in page.world["workers"]))
    page.until(lambda: any("Gate" in w["does"] for w in page.world["workers"]))
    assert (feed.snapshot().running or 0) >= 1
    ray.get(gate.let_on.remote())
    page.until(lambda: row(page, result)["state"] == "ready")
    page.until(lambda: reasons(row(page, ref)) == {"ref"})
