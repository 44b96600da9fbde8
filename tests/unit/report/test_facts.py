"""Facts in words, each contradiction that there once was by name; what is said of a stored variable
that a cell reads, and of a slip of the fingers."""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser
from typing import Any

import msgspec
import pytest

from tests.unit.widgets.snapshots import MB, NOTEBOOK, SCRIPT, WORKER, a_session, an_object, usual
from workbench.core.events import ID_BITS, About
from workbench.core.snapshot import ActorRecord, ClientRecord, MemoryRecord, Snapshot, WorkerRecord
from workbench.report import facts, page, reasons, text, view_texts
from workbench.report.freshness import Unknown, changed_text, held_text, unknown_texts
from workbench.report.mistyped import did_you_mean, of_arguments
from workbench.report.processes import Processes, actor_name, owners_of

ACTOR = 4


def with_actor(**more: Any) -> Snapshot:
    """A session in which this process is a notebook, and which has an actor."""
    clients = (
        ClientRecord(NOTEBOOK, os.getpid(), "driver", "/home/ada/first-steps.ipynb"),
        ClientRecord(SCRIPT, 900_000_002, "driver", "work/train.py"),
        ClientRecord(WORKER, 900_000_003, "worker", ""),
        ClientRecord(ACTOR, 900_000_005, "worker", ""),
    )
    actors = (ActorRecord(77, "Counter", ("actor:hits",), "alive", 3, 0, 0),)
    return msgspec.structs.replace(usual(), clients=clients, actors=actors, **more)


def test_processes_have_one_name_each() -> None:
    processes = Processes(with_actor())
    names = [processes.name(number) for number in (NOTEBOOK, SCRIPT, WORKER, ACTOR)]
    assert names == ["this notebook", "train.py", "worker 1", "Counter 'hits'"]
    assert processes.name(99) == "a process that left"
    now = with_actor(workers=(WorkerRecord(3, 900_000_003, "idle", ()),))
    assert Processes(now).name(WORKER) == "worker 3"  # its number there
    assert processes.several([WORKER, SCRIPT, NOTEBOOK]) == "this notebook, train.py and worker 1"


def test_an_actor_has_one_name_and_owns_its_segment() -> None:
    now = with_actor()
    (here, *others) = now.segments or ()
    segments = msgspec.structs.replace(here, owner=ACTOR), *others
    owners = owners_of(msgspec.structs.replace(now, segments=segments))
    assert {*owners.values()} == {"Counter 'hits'", "worker 1", "disk", "the server"}
    assert actor_name(ActorRecord(1, "Counter", (), "alive", 1, 0, 0)) == "Counter"
    assert actor_name(ActorRecord(1, "Namespace", ("actor:db",), "alive", 1, 0, 0)) == "actor db"


def test_objects_are_called_as_people_know_them() -> None:
    held = {1: (("blocks[3]", "ref"), ("x", "view"))}
    for more, said in [
        ({"names": ("df", "actor:db")}, "df, actor db"),
        ({"key": "part 1"}, "blocks[3], x"),
    ]:
        assert facts.title_of(an_object(1, MB, **more), held) == said
    assert facts.title_of(an_object(1, MB, key="part 1")) == "part 1"
    assert facts.title_of(an_object(1, MB)) == "from cell 3, line 2"
    assert facts.title_of(an_object(1, MB, about=None)) == "0000000000000001"


def test_a_list_says_whose_an_object_is_and_small_ones_without_a_name_share_a_line() -> None:
    now = with_actor()
    others = msgspec.structs.replace(now.clients[1], prefix=9)
    processes = Processes(msgspec.structs.replace(now, clients=(now.clients[0], others)))
    large = [an_object(1, MB), an_object(9 << ID_BITS | 2, MB, about=None, type="list")]
    small = [an_object(n, 100, about=None) for n in range(10, 16)]
    objects = [*large, *small, an_object(20, 90, names=("x",))]
    shown = str(text.objects(objects, processes=processes)).splitlines()
    starts = ("00000001 from cell 3", "00000002 of train.py", "x ", "6 small ones, 600 B")
    assert all(map(str.startswith, shown[1:], starts)), shown
    assert len(shown) == 5
    assert len(str(text.objects(objects, "*")).splitlines()) == 1 + len(objects)
    assert page.row_of(large[1], processes, {}, None).title == "a task's result of train.py"


def test_of_many_variables_the_first_are_named_each_once() -> None:
    noted = ("df, as it was at 12:00:00", "ref")
    assert facts.title_of(an_object(1, MB), {1: (("df", "view"), noted)}) == "df"
    assert facts.title_of(an_object(1, MB), {1: (noted,)}) == noted[0]
    outputs = {"__ x _26 Out[26]": "x", "_ _26 Out[26][0]": "Out[26][0]", "_x": "_x"}
    for names, said in outputs.items():
        assert facts.variables_of([(name, "ref") for name in names.split()]) == said
    places = tuple((f"big[{n}]", "view") for n in range(1000))
    said = facts.title_of(an_object(1, MB), {1: places})
    assert said == "big[0], big[1], big[2], big[3], …"
    assert facts.title_of(an_object(1, MB), {1: places[:4]}) == "big[0], big[1], big[2], big[3]"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "yes"),
        ({"pinned": "cell 3", "viewers": (1, 2)}, "no: pinned, arrays"),
        ({"in_use": True, "tasks": 1}, "no: a running task"),
        ({"state": "freed"}, "freed, still shown"),
        ({"viewers": None}, "–"),
    ],
)
def test_whether_an_object_can_move_to_disk_and_why_not(more: dict[str, Any], said: str) -> None:
    assert facts.moves_text(an_object(1, MB, **more)) == said


def everything(**more: Any) -> Any:
    """An object with every reason there is."""
    return an_object(
        1, MB, names=("x",), pinned="cell 5", job="cell 4", holders=(NOTEBOOK, WORKER), tasks=2,
        parents=1, escapes=("cell 6",), viewers=(SCRIPT,), **more,
    )  # fmt: skip


def test_each_reason_has_a_chip_and_a_phrase() -> None:
    record = everything()
    assert [code for code, _ in reasons.counts(record)] == list(reasons.REASONS)
    assert reasons.chips(record) == [
        "named", "pinned", "result not fetched", "2 refs", "2 tasks", "inside another",
        "pickled ref", "arrays",
    ]  # fmt: skip
    processes = Processes(with_actor())
    pins = list(facts.pins_of(record, processes, [("x", "ref"), ("y", "view")]))
    assert [pin.text for pin in pins if pin.here] == ["ref in this notebook: `x`"]
    assert facts.why_text(record, processes) == (
        "named `x`, pinned at cell 5, result of cell 4, not fetched, refs in this notebook and "
        "worker 1, needed by 2 tasks, inside 1 object, ref pickled at cell 6, arrays in train.py"
    )
    assert facts.why_text(an_object(1, MB, holders=()), processes) == "nothing"
    assert facts.why_text(an_object(1, MB, holders=(), viewers=None), processes) == "not known here"


def test_what_would_break() -> None:
    said = facts.what_breaks(everything(), Processes(with_actor()), [("x", "ref")])
    assert said == (
        "It is still used by `x`, refs in 1 other process, 2 tasks and 1 object it is inside of: "
        "reading it there will fail."
    )


def test_who_uses_a_session() -> None:
    now = a_session((), clients=(), linger=120.0)
    assert facts.users_text(now) == "no notebook; ends within 2 min"
    assert facts.users_text(msgspec.structs.replace(with_actor(), linger=120.0)) == (
        "first-steps.ipynb and train.py; kept for 2 min after the last notebook leaves"
    )


def test_who_has_less_memory_is_named() -> None:
    memory = MemoryRecord(16_000 * MB, 8_000 * MB)
    now = msgspec.structs.replace(usual(), memory=memory)
    assert view_texts.machine_bar(now).label == "This machine"
    now = now.replace(memory=msgspec.structs.replace(memory, container=True))
    assert view_texts.machine_bar(now).label == "This container"
    assert view_texts.machine_bar(now.replace(memory=None)).label == "Memory"


def test_of_many_puts_the_largest_are_shown_and_the_sum() -> None:
    puts = [(f"v{n}", About("ndarray", 0, n * 1000, 1, 0.0, n * 1e-3), "") for n in range(1, 61)]
    few = text.put_text([*puts[:1], (*puts[1][:2], "pinned")])
    assert [line.split(": ")[0] for line in few.splitlines()] == ["v1", "v2"]
    assert few.endswith("buffer; pinned")
    (slow,) = text.put_text([("v", About("list", 9, 0, 0, 0.6, 0.0), "")]).splitlines()
    assert slow.endswith("; `%cost v` shows what takes so long")
    _, *rows, last = text.put_text(puts).splitlines()
    assert rows[0].split() == ["v60", "ndarray", "60", "kB", "60", "ms"]
    assert [row.split()[0] for row in rows[1:]] == [f"v{n}" for n in range(59, 50, -1)]
    assert last == "60 objects, 1.83 MB in 1.83 s; 50 smaller ones, 1.27 MB in 1.27 s"


def test_what_a_cells_line_says() -> None:
    assert changed_text("df", "%put", 0.008, "") == "df changed since %put: stored again, 8 ms"
    assert changed_text("mine", "%get", 2.0, "config") == (
        "mine changed since %get: stored again, 2 s; 'config' in the store stays as it was"
    )
    late = Unknown("x", 0.5, 0.06, others=0.2)
    assert unknown_texts([Unknown("df", 200.0, 1.23)]) == [
        "df as stored 3 min ago, not compared (1.23 s); `%put df` renews it"
    ]
    assert unknown_texts([late]) == [
        "x as stored just now, not compared (60 ms, after 200 ms for others); `%put x` renews it"
    ]
    assert unknown_texts([late, Unknown("y", 9.0, 0.0, "it is on disk")]) == [
        "x and y as stored earlier, not compared (60 ms; it is on disk); `%put x y` renews them"
    ]


def test_what_stands_behind_a_variable_that_keeps_an_object() -> None:
    now = time.time()
    clock = time.strftime("%H:%M:%S", time.localtime(now))
    assert held_text("%put", now, "same") == ", the stored object itself"
    changed = held_text("%put", now, "changed")
    assert changed.startswith(f", changed since %put: the store has what it was at {clock}")
    assert held_text("%put", now, "").startswith(f", as it was at {clock}")
    assert held_text("%put", now, "not compared").endswith(", not compared")
    assert held_text("%put", now - 1e6, "").count(", ") == 2  # with the day


@pytest.mark.parametrize(
    ("word", "known", "is_meant"),
    [
        ("stauts", "status", True),
        ("wieghts", "weights", True),
        ("32176-02075", "32176-020758", True),  # a session's name can be digits alone
        ("32176-a2075", "32176-a20758", True),
        ("cell 9", "cell 4", False),
        ("x_1 2", "x_1 11", False),
    ],
)
def test_a_slip_is_found_and_another_number_is_none(word: str, known: str, is_meant: bool) -> None:
    assert did_you_mean(word, [known, 7]) == f" Did you mean {known!r}?" * is_meant


@pytest.mark.parametrize(("word", "meant"), [("-wait", "--wait"), ("--wiat", "--wait"), ("-w", "")])
def test_an_option_that_was_meant(word: str, meant: str) -> None:
    parser = ArgumentParser()
    parser.add_argument("-w", "--wait")
    said = of_arguments(parser, [word], f"unrecognized arguments: {word}")
    assert said == (f" Did you mean {meant!r}?" if meant else "")
