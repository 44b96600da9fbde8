"""Views of a real Dask cluster: what it tells, and that what it doesn't tell is never a zero.

Scheduler and worker are threads of this process, which listens to nobody but itself.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import cloudpickle
import numpy as np
import pytest

import workbench as wb
from tests.process.conftest import Sessions
from tests.process.pages import Page, Row
from workbench.engines import observed
from workbench.engines.dask import observed as dask
from workbench.engines.observed import id_of
from workbench.errors import SessionError
from workbench.report.page import key_of
from workbench.widgets.feed import Feed, feed_of

distributed = pytest.importorskip("distributed")

# Slow, though it isn't: distributed's tblib changes for good how exceptions of this process pickle.
pytestmark = pytest.mark.slow

SIZE = 1 << 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One worker of one thread. What it leaves behind in this process is for all clusters."""
    cluster = distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address="127.0.0.1:0",
        local_directory=str(tmp_path_factory.mktemp("dask")),
        silence_logs=logging.CRITICAL,
        memory_limit="4GB",
    )
    with distributed.Client(cluster) as client:  # threads that stay
        client.submit(len, client.scatter(np.ones(SIZE))).result()
        wb.snapshot(client)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def sessions(cluster: Any, sessions: Sessions) -> Sessions:
    """What the cluster leaves behind is there before anybody looks what is left."""
    return sessions


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    with distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def feed(client: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feed]:
    """That looks as often as it likes."""
    monkeypatch.setattr(observed, "PACE", 0.01)
    monkeypatch.setattr(observed, "SHARE", 1)
    feed = feed_of(client)
    yield feed
    feed.close()


def row(page: Page, future: Any) -> Row:
    return dict(page.world["objects"].get(key_of(id_of(future.key)), {}))


def reasons(row: Row) -> list[str]:
    return [pin["reason"] for pin in row.get("pins", ())]


def test_what_dask_tells_and_what_it_does_not(client: Any) -> None:
    array = client.scatter(np.ones(SIZE))
    result = client.submit(len, array)
    assert result.result() == SIZE
    world = feed_of(client).world()
    assert world["session"] == f"Dask at {client.scheduler.address}"
    scattered = world["objects"][key_of(id_of(array.key))]
    computed = world["objects"][key_of(id_of(result.key))]
    assert scattered["size"] == SIZE * 8
    assert computed["kind"] == "int"
    for each in (scattered, computed):
        assert (each["where"], each["movable"]) == ("memory", "yes")
        assert [(pin["reason"], pin["here"]) for pin in each["pins"]] == [("ref", True)]
        unknown = ("owner", "pickle", "copy", "load", "inband", "outband", "buffers", "repeats")
        assert [each[fact] for fact in unknown] == [None] * len(unknown)
    assert scattered["kind"] is scattered["born"] is computed["born"] is None
    store, machine, _ = (dict(bar["parts"]) for bar in world["bars"])
    assert "of 4 GB" in world["bars"][0]["figure"]
    assert store["live"] >= SIZE * 8
    assert 0 < store["available"] < 4_000_000_000 - store["live"]
    assert store["reusable"] is None
    assert machine["workers"] > 10 << 20
    assert world["segments"] is world["jobs"] is world["speed"] is None
    (worker,) = world["workers"]
    assert (worker["number"], worker["state"]) == (0, "idle")


def test_what_comes_changes_and_goes_is_told(client: Any, page: Page) -> None:
    held = {"future": client.submit(np.ones, SIZE, key="shared")}
    key = key_of(id_of(held["future"].key))
    page.until(lambda: page.world["objects"].get(key, {}).get("state") == "ready")
    with distributed.Client(client.cluster) as other:
        theirs = other.submit(np.ones, SIZE, key="shared")
        page.until(lambda: len(page.world["objects"][key]["pins"]) == 2)
        assert other.id in str(page.world["objects"][key]["pins"])
        del theirs
        held.clear()
        gc.collect()
        page.until(lambda: key not in page.world["objects"])
    puts, frees, spills = page.world["timeline"][-1][3:]
    assert puts == frees >= 1
    assert spills is None


def test_what_is_waited_for_and_what_waits(client: Any, page: Page) -> None:
    on = distributed.Event("on")
    data = client.scatter([1], hash=False)[0]

    def fails(data: Any, on: Any) -> Any:
        on.wait()
        raise ValueError

    result = client.submit(fails, data, on, pure=False)
    page.until(lambda: page.world["workers"][0]["does"] == "fails")
    page.until(lambda: reasons(row(page, data)) == ["ref", "task"])
    assert page.world["workers"][0]["state"] == "busy"
    pending = row(page, result)
    assert (pending["state"], pending["size"], pending["born"]) == ("pending", None, None)
    on.set()
    page.until(lambda: row(page, result)["state"] == "failed")
    assert row(page, result)["size"] is row(page, result)["where"] is None
    page.until(lambda: reasons(row(page, data)) == ["ref"])
    page.until(lambda: page.world["workers"][0]["state"] == "idle")


def test_variables_that_hold_it(client: Any, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    import __main__

    future = client.submit(list, pure=False)
    monkeypatch.setitem(vars(__main__), "mine", future)
    page.until(lambda: "mine, " in f"{row(page, future).get('held')}, ")
    monkeypatch.delitem(vars(__main__), "mine")
    page.until(lambda: "mine, " not in f"{row(page, future)['held']}, ")


def test_of_very_many_the_largest_are_told(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "MOST", 10)
    futures = client.map(bytes, range(100, 120), pure=False)
    distributed.wait(futures)
    found = wb.snapshot(client)
    assert found.count == 20
    assert {record.key for record in found.objects} == {f.key for f in futures[10:]}


def test_the_end_is_told_and_the_next_one_begins_anew(cluster: Any) -> None:
    client = distributed.Client(cluster)
    feed = feed_of(client)
    page = Page(feed)
    feed.set_shown(page, True)
    client.close()
    page.until(lambda: page.world["ended"])
    assert "closed" in page.world["ended"]
    for look in (lambda: wb.snapshot(client), feed.engine.snapshot):
        with pytest.raises(SessionError, match=r"isn't connected|closed"):
            look()
    with distributed.Client(cluster) as other:
        assert feed_of(other) is feed_of(other) is not feed
        assert feed_of(other).world()["ended"] is None


def test_the_scheduler_needs_no_workbench() -> None:
    """What runs there is made where nothing of ours can be imported."""
    code = (
        "import pickle, sys\n"
        "sys.modules['workbench'] = None\n"
        "see = pickle.loads(sys.stdin.buffer.read())\n"
        "class Nothing: tasks = {}; workers = {}; clients = ()\n"
        "print(see(most=1, dask_scheduler=Nothing)['count'])\n"
    )
    sent = cloudpickle.dumps(dask._seer())
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True)
    assert done.stdout.strip() == b"0", done.stderr.decode()


def test_a_client_that_cannot_be_waited_for_is_refused(cluster: Any) -> None:
    async def ask() -> None:
        async with distributed.Client(cluster.scheduler_address, asynchronous=True) as client:
            with pytest.raises(SessionError, match="asynchronous"):
                wb.snapshot(client)

    asyncio.run(ask())
