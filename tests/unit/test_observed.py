"""What has changed between two looks at a session of another system, and when the next one is."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tests.patience import TIMEOUT
from workbench import api, context
from workbench.core.snapshot import Change, ObjectRecord, Snapshot
from workbench.engines import observed
from workbench.engines.base import Abilities, Lack, acting_on
from workbench.engines.observed import PolledChanges, SeenHistory, difference, id_of
from workbench.errors import SessionError, WorkbenchError
from workbench.report.page import BUTTONS
from workbench.widgets.actions import ACTIONS


def a_record(id: int, **more: Any) -> ObjectRecord:
    record = ObjectRecord(id, "ready", (), 8, "", None, (1,), None, 0, 0, age=None, type=None)
    return msgspec.structs.replace(record, **more)


def a_snapshot(*objects: ObjectRecord, **more: Any) -> Snapshot:
    snapshot = Snapshot(
        "there", None, sum(r.size for r in objects), None, None, None, objects, (), (),
        segments=None, history=None, spilled=None, engine="ray",
    )  # fmt: skip
    return msgspec.structs.replace(snapshot, **more)


def told(change: Change | None) -> tuple[list[int], tuple[int, ...]]:
    assert change is not None
    return [record.id for record in change.objects], change.gone


# -- differences -----------------------------------------------------------------------------------


def test_the_first_one_is_all_new() -> None:
    assert told(difference(None, a_snapshot(a_record(1), a_record(2)))) == ([1, 2], ())
    assert told(difference(None, a_snapshot())) == ([], ())


def test_then_only_what_came_changed_or_went() -> None:
    before = a_snapshot(a_record(1), a_record(2), a_record(3))
    after = a_snapshot(a_record(4), a_record(3), a_record(2, holders=(1, 2)))
    change = difference(before, after)
    assert told(change) == ([4, 2], (1,))
    assert change is not None
    assert change.session.objects == ()
    assert change.session.live == 24


def test_that_time_went_by_is_no_change() -> None:
    before = a_snapshot(a_record(1, age=3.0), a_record(2), taken=1.0)
    assert difference(before, a_snapshot(a_record(1, age=4.0), a_record(2), taken=2.0)) is None
    # But that the age is known now is one.
    after = a_snapshot(a_record(1, age=4.0), a_record(2, age=1.0), taken=2.0)
    assert told(difference(before, after)) == ([2], ())


def test_a_session_may_change_without_its_objects() -> None:
    before = a_snapshot(a_record(1))
    assert told(difference(before, a_snapshot(a_record(1), running=2))) == ([], ())


def test_what_came_and_went_is_counted_from_the_first_look_on() -> None:
    seen = SeenHistory()

    def last(*ids: int) -> list[tuple[object, ...]]:
        history = seen.noted(a_snapshot(*map(a_record, ids))).history
        assert history is not None
        return [msgspec.structs.astuple(sample) for sample in history]

    assert last(1, 2) == [(0.0, 16, None, 0, 0, None)]  # those were there before
    assert last(1, 2) == []
    assert last(2, 3, 4) == [(0.0, 24, None, 2, 1, None)]
    assert last() == [(0.0, 0, None, 2, 4, None)]


def test_where_nobody_knows_how_full_it_is_there_is_no_course() -> None:
    assert SeenHistory().noted(a_snapshot(live=None)).history is None


def test_keys_have_ids_of_their_own_that_travel() -> None:
    assert len({id_of(f"key {n}") for n in range(1000)}) == 1000
    assert 0 < id_of("a") < 2**64
    assert id_of("a") == 0x40F89E395B66422F


# -- looks -----------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed, "PACE", 0.0)
    monkeypatch.setattr(observed, "SHARE", 0)


def the_looks(*answers: Snapshot | Exception) -> tuple[PolledChanges, list[int]]:
    """They see these, one after another; and what says how often they have looked."""
    coming: Iterator[Snapshot | Exception] = iter(answers)
    made: list[int] = []

    def look() -> Snapshot:
        made.append(1)
        answer = next(coming)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return PolledChanges(look, lambda: False), made


@pytest.mark.usefixtures("quick")
def test_each_look_tells_what_is_new() -> None:
    looks, made = the_looks(
        a_snapshot(a_record(1)), a_snapshot(a_record(1)), a_snapshot(a_record(2))
    )
    assert told(looks.next()) == ([1], ())
    assert looks.next() is None  # nothing: whoever waits may see to other things
    assert told(looks.next()) == ([2], (1,))
    assert len(made) == 3


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is, to be set."""
    clock = [100.0]
    monkeypatch.setattr(observed, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    return clock


@pytest.mark.parametrize(("takes", "rest"), [(0.0, 1.0), (0.001, 1.0), (2.0, 40.0)])
def test_nobody_is_asked_too_often(clock: list[float], takes: float, rest: float) -> None:
    made: list[int] = []

    def look() -> Snapshot:
        made.append(1)
        clock[0] += takes
        return a_snapshot(a_record(len(made)))

    looks = PolledChanges(look, lambda: False)
    assert made == []  # nor before somebody wants to know
    assert told(looks.next(0.0)) == ([1], ())
    clock[0] += rest - 0.01
    assert looks.next(0.0) is None
    assert len(made) == 1
    clock[0] += 0.02
    assert told(looks.next(0.0)) == ([2], (1,))


def test_who_is_hurried_looks_at_once(clock: list[float]) -> None:
    looks, made = the_looks(a_snapshot(), a_snapshot(a_record(1)), a_snapshot())
    looks.next(0.0)
    looks.hurry()
    assert told(looks.next(0.0)) == ([1], ())
    assert looks.next(0.0) is None  # once
    assert len(made) == 2


@pytest.mark.usefixtures("quick")
def test_no_answer_is_no_change() -> None:
    looks, _ = the_looks(
        a_snapshot(a_record(1)), SessionError("busy"), a_snapshot(a_record(1), a_record(2))
    )
    assert looks.next() is not None
    assert looks.next() is None
    assert told(looks.next()) == ([2], ())


@pytest.mark.parametrize("end", [PolledChanges.interrupt, PolledChanges.close])
def test_who_waits_can_be_roused(end: Callable[[PolledChanges], None]) -> None:
    looks, made = the_looks(a_snapshot())
    looks.next()
    looks._due += 3600.0
    heard: list[Change | None] = []
    thread = threading.Thread(target=lambda: heard.append(looks.next()))
    thread.start()
    end(looks)
    thread.join(TIMEOUT)
    assert heard == [None]
    assert len(made) == 1


@pytest.mark.usefixtures("quick")
def test_whoever_was_roused_before_waits_not_at_all() -> None:
    looks, made = the_looks(a_snapshot())
    looks.interrupt()
    assert looks.next() is None
    assert made == []
    assert looks.next() is not None


@pytest.mark.usefixtures("quick")
def test_when_it_is_over_nobody_is_asked() -> None:
    over: list[int] = []

    def look() -> Snapshot:
        raise AssertionError

    looks = PolledChanges(look, lambda: bool(over))
    assert not looks.is_over
    over.append(1)
    assert looks.is_over
    assert looks.next() is None


def test_what_goes_with_a_session_is_made_once_and_anew_when_that_is_over() -> None:
    made: list[list[str]] = []
    of = object()

    def beside() -> list[str]:
        return context.beside(of, lambda: made.append([]) or made[-1], bool)

    assert beside() is beside()
    beside().append("over")
    assert beside() is made[1]
    beside().append("over")
    context.beside(object(), lambda: ["over"], bool)  # it forgets those that are over
    assert of not in context._beside


@pytest.mark.parametrize("of", [1, "ray", threading, object, [], lambda: None])
def test_what_is_no_session_is_refused(of: object) -> None:
    with pytest.raises(TypeError, match=r"distributed\.Client"):
        api.observed(of)


def test_what_an_engine_lacks_is_said_and_nothing_is_done() -> None:
    watched = SimpleNamespace(can=replace(Abilities.none("Read-only."), why=""))
    assert acting_on(cast(Any, watched), "why") is watched
    with pytest.raises(WorkbenchError, match=r"^Read-only\.$"):
        acting_on(cast(Any, watched), "free")


def test_a_lack_is_the_text_of_its_three_sentences() -> None:
    lack = Lack("Dask has no streams.", "Its tasks have one result.", "Submit one task an item.")
    assert lack == f"{lack.what} {lack.why} {lack.instead}"
    assert Abilities(streams=lack).lacking() == {"streams": lack}
    copy = pickle.loads(pickle.dumps(lack))
    assert (copy, copy.instead) == (lack, "Submit one task an item.")


def test_every_button_names_what_it_needs() -> None:
    assert set(BUTTONS.values()) < {field.name for field in fields(Abilities)}
    assert BUTTONS.keys() == ACTIONS.keys()
