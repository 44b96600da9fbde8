"""A session on a cluster, in words: names, unknown figures, machines, what can't be done there."""

from __future__ import annotations

import os
import platform
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tests.unit.widgets import snapshots
from workbench.core.descriptions import Account, PinRecord
from workbench.core.events import Place
from workbench.core.snapshot import ActorRecord, ClientRecord, ObjectRecord, Snapshot, WorkerRecord
from workbench.engine.base import Abilities, SessionFacts
from workbench.format import UNKNOWN
from workbench.report import cards, facts, html, json, page, sessions, text, view_texts, why
from workbench.report.processes import Processes
from workbench.widgets.actions import perform

LACK = "Dask has no streams. Its tasks have one result. Submit a task for each item."

OBJECT = ObjectRecord(
    7, "ready", ("df",), 8_000_000, "worker", None, (), None, 0, 0, age=None, type=None
)


def on_a_cluster(**more: Any) -> Snapshot:
    """A session of ours there, of which next to nothing is known."""
    usual = Snapshot(
        "my.analysis-1.2~1a2b", None, None, None, None, None, (OBJECT,), (), (), count=1,
        spilled=None, segments=None, history=None, engine="dask",
    )  # fmt: skip
    return usual.replace(**more)


def test_a_session_has_its_name_and_what_runs_it() -> None:
    assert facts.session_name(on_a_cluster()) == "my.analysis-1.2 on Dask"
    assert facts.session_name(on_a_cluster(session="lab.v2~9", engine="local")) == "lab.v2"
    observed = on_a_cluster(session="tcp://10.0.0.1:8786")
    assert observed.is_observed
    assert facts.session_name(observed) == "Dask at tcp://10.0.0.1:8786"
    assert facts.short_name("plain.name") == "plain.name"


def test_what_is_not_known_is_said_and_is_no_zero() -> None:
    now = on_a_cluster()
    card, listed = cards.of_snapshot(now), str(text.objects(now.objects))
    assert "None" not in f"{card}{card._repr_html_()}" + listed + str(html.Still(html.PARTS, now))
    assert "8 MB" in listed
    assert facts.tasks_text(now) == f"how many tasks run or wait is {UNKNOWN}"
    assert facts.store_text(now) == f"sizes and capacity {UNKNOWN} in 1 object"
    assert facts.type_of(OBJECT) == UNKNOWN
    assert facts.where_text(OBJECT) == "in a worker's memory"
    assert why.why(Account(OBJECT, (), ()), "df").what.startswith(f"{UNKNOWN} 'df', 8 MB")
    assert json.of_session(now)["tasks"] == {"running": None, "queued": None}


def test_its_jobs_and_workers_are_told_and_an_observed_ones_are_unknown() -> None:
    def told(snapshot: Snapshot) -> page.PageSession:
        processes = Processes(snapshot)
        return page.session_of(
            snapshot, processes, {}, Abilities(), bins={}, rest=[], hues={"types": {}, "owners": {}}
        )

    ours, theirs = told(on_a_cluster()), told(on_a_cluster(session="tcp://10.0.0.1:8786"))
    assert (ours.jobs, ours.workers) == ([], [])
    assert (theirs.jobs, theirs.workers) == (None, None)
    assert view_texts.nothing(on_a_cluster())["jobs"] == facts.NO_JOBS
    assert UNKNOWN in view_texts.nothing(on_a_cluster())["segments"]


def client(number: int, pid: int, host: str, role: str = "driver", label: str = "") -> ClientRecord:
    return ClientRecord(number, pid, role, label, host=host)


def test_the_same_pid_on_another_machine_is_another_process() -> None:
    me = client(1, os.getpid(), platform.node(), label="a.ipynb")
    there = client(2, os.getpid(), "node7")
    worker = client(3, 40, "node7", "worker")
    twin = client(4, 40, "node8", "worker")
    workers = tuple(WorkerRecord(n, 40, "idle", (), host=f"node{n + 6}") for n in (1, 2))
    now = on_a_cluster(clients=(me, there, worker, twin), workers=workers)
    processes = Processes(now)
    assert [processes.is_here(n) for n in (1, 2)] == [True, False]
    assert processes.name(1) == "this notebook"
    assert processes.name(2) == f"process {os.getpid()} on node7"
    assert [processes.name(n) for n in (3, 4)] == ["worker 1", "worker 2"]
    held = msgspec.structs.replace(OBJECT, names=(), holders=(2,))
    assert sessions.lost_text(now.replace(objects=(held,), count=1)) == ""
    mine = msgspec.structs.replace(held, holders=(1,))
    assert "1 object" in sessions.lost_text(now.replace(objects=(mine,), count=1))


def test_nobody_is_told_to_kill_another_machines_process() -> None:
    worker = WorkerRecord(1, 40, "idle", (), host="node7")
    pin = PinRecord("ref", 3, places=(Place("ref", "cache[3]", cut="x = None"),))
    record = msgspec.structs.replace(OBJECT, holders=(3,))
    for host in ("node7", platform.node()):
        there = msgspec.structs.replace(worker, host=host)
        account = Account(record, (pin,), (client(3, 40, host, "worker"),), (there,))
        (reason,) = why.why(account, "df").reasons
        assert "kill" not in reason.action + reason.code
        assert f"process 40 on {host}" in reason.action


def test_memory_of_this_machine_is_nobody_elses() -> None:
    usual = snapshots.usual()
    memory = msgspec.structs.replace(usual.memory, processes=((40, 1000),))
    here = WorkerRecord(1, 40, "idle", ())
    there = WorkerRecord(2, 40, "idle", (), host="node7")
    now = usual.replace(memory=memory, workers=(here, there))
    assert view_texts.worker_memory(here, now) == 1000
    assert view_texts.worker_memory(there, now) is None


def test_workers_that_start_as_they_are_needed_are_counted_beside_those_there_can_be() -> None:
    pool = tuple(WorkerRecord(n, n, "busy", ()) for n in (1, 2))
    actor = WorkerRecord(3, 3, "idle", (), actor=9)
    for slots, workers, said, heading in (
        (1, (), "0 of 1 worker started", "Workers · 0 of 1 started"),
        (6, pool, "2 of 6 workers started (2 busy)", "Workers · 2 of 6 started"),
        (2, (*pool, actor), "2 workers (2 busy)", "Workers · 2 · 1 of an actor"),
        (1, pool, "2 workers (2 busy)", "Workers · 2"),
        (None, (*pool, actor, actor), "2 workers (2 busy)", "Workers · 2 · 2 of actors"),
        (None, (), f"workers {UNKNOWN}", "Workers"),
    ):
        now = on_a_cluster(workers=workers, slots=slots)
        assert facts.workers_text(now) == said
        assert facts.workers_heading(now) == heading


def test_what_a_view_tells_of_stands_whole_where_it_is_about_objects() -> None:
    scope = "what this process holds, " * 9 + "and nothing else"
    now = on_a_cluster(scope=scope, taken=1e9)
    pins = str(html.Still(("pins",), now))
    assert scope in " ".join(pins.split())
    assert max(map(len, pins.splitlines())) <= html.COLUMNS
    assert scope not in " ".join(str(html.Still(("jobs",), now)).split())


def test_what_it_can_t_is_listed_a_line_each() -> None:
    lacks = Abilities(streams=LACK, spill="Read-only.").lacking()
    assert facts.lacks_text(lacks.values()) == "Read-only.\nDask has no streams."
    assert facts.lacks_text(Abilities().lacking().values()) == ""
    card = str(cards.of_snapshot(on_a_cluster(), [("can't", facts.lacks_text(lacks.values()))]))
    first, second = (line for line in card.splitlines() if "Read-only" in line or "streams" in line)
    assert first.index("Read-only.") == second.index("Dask has no streams.")
    assert not second[: second.index("Dask")].strip()


def test_a_pin_promises_no_memory_where_the_engine_gives_none() -> None:
    pin = SimpleNamespace(can=Abilities(), borrow=int, pin=lambda *_: None)
    request = {"do": "pin", "id": "1"}
    assert "in memory" in perform(cast(Any, pin), request)["text"]
    lack = "It may move to disk. The store is another's. Make it larger."
    pin.can = Abilities(resident=lack)
    assert (
        perform(cast(Any, pin), request)["text"]
        == "Pinned until it is unpinned. It may move to disk."
    )
    assert view_texts.lessons(pin.can)["pins"][-1] == lack
    assert not [first for first, *_ in view_texts.lessons(pin.can).values() if ". " in first]


def test_the_line_that_says_what_was_started() -> None:
    here = "Workbench started session a.b: 2 workers, store of 64 MB."
    there = "Workbench started session a.b on Ray: 2 workers."
    for system, replaced, line in (
        ("ray", "", there),
        ("ray", "local", f"{there} It replaces the session on this machine; nothing is lost."),
        ("local", "dask", f"{here} It replaces the session on Dask; nothing is lost."),
        ("local", "local", f"{here} It replaces the session before it; nothing is lost."),
    ):
        before: Any = SimpleNamespace(facts=SessionFacts(replaced)) if replaced else None
        engine = SimpleNamespace(
            facts=SessionFacts(system, joined=False), session="a.b~1", workers=2, can=Abilities(),
            ask=lambda query: 64_000_000,
        )  # fmt: skip
        assert text.started_line(cast(Any, engine), before) == line


def test_what_a_joined_session_keeps_says_how_it_ends_there() -> None:
    stays = {"workers": ("2", "4")}
    assert "`workbench stop lab` in a shell" in sessions.stays_text("lab~1", stays)
    assert "`%workbench stop` in each" in sessions.stays_text("lab~1", stays, "ray")
    assert sessions.cluster_text(["workers", "memory"]).startswith("workers and memory: a cluster")


@pytest.mark.parametrize(("state", "lost"), [("alive", "1 actor: Kept"), ("dead", "")])
def test_an_actor_that_has_ended_is_no_loss(state: str, lost: str) -> None:
    actor = ActorRecord(7, "Kept", (), state, 0, 0, 0)
    now = on_a_cluster(actors=(actor,), jobs=(), objects=(), count=1, names=0)
    assert sessions.lost_text(now).partition(" (")[0] == lost
