"""Views of a real Dask cluster: what it tells, and that what it doesn't tell is never a zero.

Scheduler and worker are threads of this process, which listens to nobody but itself.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
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
from workbench import api, context
from workbench.engines import observed
from workbench.engines.dask import observed as dask
from workbench.engines.observed import id_of
from workbench.errors import SessionError
from workbench.plots.axes import plot_costs, plot_occupancy, plot_pins, plot_timeline
from workbench.plots.pictures import picture
from workbench.report.html import PARTS, Still
from workbench.report.page import key_of
from workbench.widgets import views
from workbench.widgets.actions import ACTIONS, perform
from workbench.widgets.feed import Feed, feed_of

distributed = pytest.importorskip("distributed")

# Slow, though it isn't: distributed's tblib changes for good how exceptions of this process pickle.
pytestmark = pytest.mark.slow

SIZE = 1 << 20
UNKNOWN = "not known here"


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
    with distributed.Client(cluster) as client:  # threads that stay, and fonts
        client.submit(len, client.scatter(np.ones(SIZE))).result()
        picture(Still(PARTS, wb.snapshot(client)))
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


# -- what is told ----------------------------------------------------------------------------------


def test_what_dask_tells_and_what_it_does_not(client: Any) -> None:
    array = client.scatter(np.ones(SIZE))
    result = client.submit(len, array)
    assert result.result() == SIZE
    world = feed_of(client).world()
    assert world["engine"] == "dask"
    assert world["session"] == f"Dask at {client.scheduler.address}"
    scattered = world["objects"][key_of(id_of(array.key))]
    computed = world["objects"][key_of(id_of(result.key))]
    assert scattered["size"] == SIZE * 8
    assert computed["kind"] == "int"
    assert abs(world["now"] - computed["born"]) < 60
    for each in (scattered, computed):
        assert each["where"] == "memory"
        assert each["movable"] == "yes"
        assert [(pin["reason"], pin["here"]) for pin in each["pins"]] == [("ref", True)]
        unknown = ("owner", "pickle", "copy", "load", "inband", "outband", "buffers", "repeats")
        assert [each[fact] for fact in unknown] == [None] * len(unknown)
    assert scattered["kind"] is scattered["born"] is None
    store, machine = (dict(bar["parts"]) for bar in world["bars"])
    assert "of 4 GB" in world["bars"][0]["figure"]
    assert store["live"] >= SIZE * 8
    assert 0 < store["available"] < 4_000_000_000 - store["live"]
    assert store["reusable"] is None
    assert machine.keys() == {"workers"}
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
        held.clear()
        page.until(lambda: len(page.world["objects"][key]["pins"]) == 1)
        del theirs
        gc.collect()
        page.until(lambda: key not in page.world["objects"])
    puts, frees, spills = page.world["timeline"][-1][3:]
    assert puts == frees >= 1
    assert spills is None


def test_what_is_waited_for_and_what_waits(client: Any, page: Page) -> None:
    on = distributed.Event("on")
    data = client.scatter([1], hash=False)[0]

    def reads(data: Any, on: Any) -> Any:
        on.wait()
        return data

    result = client.submit(reads, data, on, pure=False)
    page.until(lambda: page.world["workers"][0]["does"] == "reads")
    page.until(lambda: reasons(row(page, data)) == ["ref", "task"])
    assert page.world["workers"][0]["state"] == "busy"
    pending = row(page, result)
    assert (pending["state"], pending["size"], pending["born"]) == ("pending", None, None)
    on.set()
    page.until(lambda: row(page, result)["state"] == "ready")
    page.until(lambda: reasons(row(page, data)) == ["ref"])
    page.until(lambda: page.world["workers"][0]["state"] == "idle")


def test_what_failed_has_no_size(client: Any, page: Page) -> None:
    def fails() -> None:
        raise ValueError

    future = client.submit(fails, pure=False)
    page.until(lambda: row(page, future).get("state") == "failed")
    assert row(page, future)["size"] is row(page, future)["where"] is None


def test_variables_that_hold_it_by_name(
    client: Any, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    import __main__

    future = client.submit(list, pure=False)
    monkeypatch.setitem(vars(__main__), "mine", future)
    page.until(lambda: "mine, " in f"{row(page, future).get('held')}, ")
    assert row(page, future)["name"] == ""
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
    assert feed_of(client) is feed
    page = Page(feed)
    feed.shown(page, True)
    client.close()
    page.until(lambda: page.world["ended"])
    assert "closed" in page.world["ended"]
    with pytest.raises(SessionError, match="isn't connected"):
        wb.snapshot(client)
    with pytest.raises(SessionError, match="closed"):
        feed.engine.snapshot()
    with distributed.Client(cluster) as other:
        assert feed_of(other) is not feed
        assert feed_of(other).world()["ended"] is None


def test_the_scheduler_needs_no_workbench() -> None:
    """What runs there is made where nothing of ours can be imported."""
    code = (
        "import pickle, sys\n"
        "sys.modules['workbench'] = None\n"
        "see = pickle.loads(sys.stdin.buffer.read())\n"
        "class Nothing: tasks = {}; workers = {}; clients = (); transition_log = ()\n"
        "print(see(most=1, since=0.0, dask_scheduler=Nothing)['count'])\n"
    )
    sent = cloudpickle.dumps(dask._seer())
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True)
    assert done.stdout.strip() == b"0", done.stderr.decode()


# -- what is shown and done ------------------------------------------------------------------------


def test_stills_and_plots_say_what_is_not_known(client: Any) -> None:
    future = client.submit(np.ones, SIZE, pure=False)
    distributed.wait(future)
    found = wb.snapshot(client)
    still = Still(PARTS, found)
    text = repr(still)
    for said in (
        f"reusable {UNKNOWN}",
        f"Memory: {UNKNOWN}",
        f"The last two minutes are {UNKNOWN}.",
        f"Where objects lie is {UNKNOWN}.",
        f"What serialization costs is {UNKNOWN}.",
        f"Background cells are {UNKNOWN}.",
    ):
        assert said in text
        assert said in re.sub("<[^>]*>", "", still.html().replace("\xa0", " "))
    assert "8.39 MB of 4 GB" in text
    assert "on disk 0 B" in text  # that, Dask knows
    assert not re.search(r"\b0 (B|s)\b", text.replace("on disk 0 B", ""))
    assert "%" not in re.sub(r"\d %", "", text)  # no magic that isn't there
    assert text.endswith(f"Dask at {found.session}, {still.caption().rpartition(', ')[2]}")
    assert picture(still)
    assert wb.Snapshot.from_json(found.to_json()) == found

    from matplotlib.figure import Figure

    for plot, says in (
        (plot_occupancy, f"Where objects lie is {UNKNOWN}."),
        (plot_pins, f"type {UNKNOWN}" if found.objects[0].type is None else "ndarray"),
        (plot_costs, f"What serialization costs is {UNKNOWN}."),
        (plot_timeline, f"The last two minutes are {UNKNOWN}."),
    ):
        ax = plot(found, Figure((8, 6)).add_subplot())
        assert any(says in text.get_text() for text in ax.texts)


@pytest.mark.parametrize("action", ACTIONS)
def test_its_buttons_say_why_not(client: Any, action: str) -> None:
    answer = perform(api.observed(client), {"do": action, "id": "1"})
    assert not answer["ok"]
    assert "read-only view of a Dask cluster" in answer["text"]
    assert "client.cancel" in answer["text"]


def test_every_view_is_of_what_it_is_given(client: Any) -> None:
    for make in (views.Occupancy, views.Pins, views.Costs, views.Jobs, views.dashboard):
        view = make(client)
        assert view.feed is feed_of(client)
        assert view.world is None or view.world["engine"] == "dask"
        assert "Dask at" in view._repr_mimebundle_()[0]["text/plain"]
        view.close()
    assert context.get() is None  # none of our sessions was begun for that


def test_a_client_that_cannot_be_waited_for_is_refused(cluster: Any) -> None:
    async def ask() -> None:
        async with distributed.Client(cluster.scheduler_address, asynchronous=True) as client:
            with pytest.raises(SessionError, match="asynchronous"):
                wb.snapshot(client)

    asyncio.run(ask())


@pytest.mark.parametrize("of", [3, "dask", distributed, np])
def test_of_something_else_there_is_no_view(of: object) -> None:
    with pytest.raises(TypeError, match=r"distributed\.Client"):
        wb.dashboard(of)
    with pytest.raises(TypeError, match=r"distributed\.Client"):
        wb.snapshot(of)
