"""Who has an object of a cluster's session: each process says what it has, one asks all."""

from __future__ import annotations

from typing import Any, cast

from tests.patience import TIMEOUT
from workbench.core.descriptions import PinRecord
from workbench.core.events import Place
from workbench.core.snapshot import (
    ACTOR_PREFIX,
    ActorRecord,
    ClientRecord,
    ObjectRecord,
    Snapshot,
    WorkerRecord,
)
from workbench.engine.base import CellListener
from workbench.engines.cluster import holders
from workbench.engines.cluster.holders import HolderAnswer, Holders
from workbench.engines.cluster.inquiries import ASKED, MOST, Inquiries
from workbench.engines.cluster.keeper import Keeper, batch_of
from workbench.engines.cluster.store import ClusterStore
from workbench.report.why import why

OBJECT = 7

RECORD = ObjectRecord(OBJECT, "ready", ("df",), 8_000_000, "memory", None, (), None, 0, 0, age=None)


class Thing:
    """What keeps an object in a process, as a handle of it does."""


class Process:
    """One process's engine, which has the object or hasn't."""

    hosting: Any = None

    def __init__(self, prefix: int, thing: Thing | None) -> None:
        self.prefix = prefix
        self.thing = thing
        self.backend: Any = None

    def asked_by(self, system: System) -> ClusterStore:
        self.backend = system
        return cast(ClusterStore, self)

    def kept(self, id: int) -> dict[str, Any]:
        assert id == OBJECT
        return {} if self.thing is None else {"ref": self.thing}

    @property
    def listener(self) -> CellListener:
        return CellListener(roots=lambda: {"mine": self.thing})


class System:
    """A `Backend` with a keeper and other processes of the session, which are perhaps silent."""

    unasked = ("another system's",)

    def __init__(self, *others: Process, silent: bool = False) -> None:
        self.others = {} if silent else {other.prefix: other for other in others}
        self.keeper = Keeper(lambda: 0.0, self._came)
        for other in others:
            self.keeper.join(other.prefix, other.prefix, "", "far")

    def _came(self, listener: int) -> None:
        if listener in self.others:
            for message in batch_of(self.keeper.take(listener)):
                assert message.kind == ASKED
                holders.heard(self.others[listener].asked_by(self), message)

    def ask(self, question: str, *args: Any) -> Any:
        return self.keeper.ask(question, *args)

    tell = ask


def asked(system: System, me: Process, patience: float = TIMEOUT) -> Holders:
    system.keeper.join(me.prefix, me.prefix, "", "far")
    return holders.ask_all(me.asked_by(system), OBJECT, False, patience)


def test_all_are_asked_and_say_where_they_have_it() -> None:
    system = System(Process(2, Thing()), Process(3, None))
    found = asked(system, Process(1, Thing()))
    assert [answer.client.prefix for answer in found.answers] == [1, 2]
    (pin,) = found.answers[0].pins
    assert pin.reason == "ref"
    assert ("mine", "ref") in [(place.path, place.kind) for place in pin.places]
    assert found.silent == ("another system's",)


def test_who_says_nothing_in_time_is_named() -> None:
    system = System(Process(2, Thing()), silent=True)
    system.keeper.enroll(7, 5, "far")
    found = asked(system, Process(1, None), 0.1)
    assert found == Holders((), ("worker 1", "process 2 on far", "another system's"))


def test_old_questions_are_forgotten() -> None:
    kept = Inquiries(lambda driver, message: None)
    first = kept.inquire(b"", [])
    kept.answered(first, 1, b"yes")
    assert kept.answers(first) == {1: b"yes"}
    numbers = [kept.inquire(b"", []) for _ in range(MOST)]
    kept.answered(first, 1, b"late")
    assert kept.answers(first) == {}
    kept.answered(numbers[-1], 1, b"yes")
    assert kept.answers(numbers[-1], True) == {1: b"yes"}
    assert kept.answers(numbers[-1]) == {}


def told_of(found: Holders, *reasons: PinRecord, fetched: str = "") -> str:
    now = Snapshot(
        "name~1", None, None, None, None, None, (RECORD,), (),
        (ClientRecord(1, 1, "driver", "one.ipynb", 11, "far"),), engine="dask",
    )  # fmt: skip
    said = why(holders.account(now, RECORD, found, reasons, fetched), "df")
    assert not said.complete
    return " ".join(str(said).split())


def test_an_account_names_processes_and_actors_and_who_is_silent() -> None:
    def answer(kind: str, number: int, place: Place, pid: int, *what: Any) -> HolderAnswer:
        client = ClientRecord(number, pid, "worker" if what else "driver", "one.ipynb", 0, "far")
        return HolderAnswer((PinRecord(kind, number, places=(place,)),), client, *what)

    keeps = answer(
        "ref", 12, Place("ref", "Keeps.r", cut="del Keeps.r"), 5,
        WorkerRecord(4, 5, "idle", (), 9, host="far"),
        ActorRecord(9, "Keeps", (ACTOR_PREFIX + "hits",), "alive", 4, 0, 0),
    )  # fmt: skip
    place = Place("view", "cache.a", cut="del a")
    pool = answer("view", 13, place, 6, WorkerRecord(3, 6, "idle", (), host="far"))
    mine = answer("ref", 11, Place("ref", "x"), 1)
    said = told_of(Holders((mine, keeps, pool), ()), PinRecord("task", detail="fit", object=3))
    assert "ref in one.ipynb: `x`" in said
    assert "ref in Keeps 'hits': `Keeps.r`" in said
    assert "arrays in worker 3: `cache.a`" in said
    assert "end worker 3, process 6 on far" in said
    assert "needed by `fit`" in said
    assert said.endswith("not known here: whether it is inside other objects in the store")
    said = told_of(Holders((), ("worker 3",)), fetched="cell 7")
    assert "not known here: whether worker 3 has it: no answer in time" in said
    assert "cell 7" in said
