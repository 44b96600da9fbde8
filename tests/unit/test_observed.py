"""What has changed between two looks at a session of another system, and when the next one is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tests.patience import TIMEOUT
from workbench import api, context
from workbench.core.snapshot import Change, ObjectRecord, Sample, Snapshot
from workbench.engine.base import Abilities, acting_on
from workbench.engines.observed import PolledChanges, id_of
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


class Looks:
    """What it sees, look by look; each takes so many seconds of a clock of its own."""

    def __init__(self, *answers: Snapshot | Exception, takes: float = 0.0) -> None:
        self.now = 100.0
        self.made = 0
        self.is_over = False
        self._answers = answers
        self._takes = takes
        self.changes = PolledChanges(self._look, lambda: self.is_over, lambda: self.now)

    def _look(self) -> Snapshot:
        self.made += 1
        self.now += self._takes
        answer = self._answers[self.made - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def later(self, seconds: float = 3600.0) -> Change | None:
        self.now += seconds
        return self.changes.next(0.0)


def changes(*snapshots: Snapshot) -> list[Change | None]:
    """What each look tells."""
    looks = Looks(*snapshots)
    return [looks.later() for _ in snapshots]


def test_the_first_one_is_all_new_and_then_only_what_came_changed_or_went() -> None:
    before = a_snapshot(a_record(1), a_record(2), a_record(3))
    assert told(changes(a_snapshot())[0]) == ([], ())
    first, second = changes(before, a_snapshot(a_record(4), a_record(3), a_record(2, tasks=1)))
    assert told(first) == ([1, 2, 3], ())
    assert told(second) == ([4, 2], (1,))
    assert [(each.session.objects, each.session.live) for each in (second,) if each] == [((), 24)]


def test_that_time_went_by_is_no_change() -> None:
    before = a_snapshot(a_record(1, age=3.0), a_record(2), taken=1.0)
    later = a_snapshot(a_record(1, age=4.0), a_record(2), taken=2.0)
    assert changes(before, later)[1] is None
    # But that the age is known now is one.
    later = a_snapshot(a_record(1, age=4.0), a_record(2, age=1.0), taken=2.0)
    assert told(changes(before, later)[1]) == ([2], ())
    assert told(changes(before, before.replace(running=2))[1]) == ([], ())


def test_what_came_and_went_is_counted_from_the_first_look_on() -> None:
    one, two, *more = (a_record(id) for id in range(1, 5))
    looks = changes(a_snapshot(one, two), a_snapshot(one, two), a_snapshot(two, *more))
    seen = [each and each.session.history for each in looks]
    assert seen == [(Sample(0, 16, None, 0, 0, None),), None, (Sample(0, 24, None, 2, 1, None),)]
    # Nobody knows how full that one is.
    assert [each.session.history for each in changes(a_snapshot(live=None)) if each] == [None]
    assert id_of("a") == 0x40F89E395B66422F  # as on any machine


def test_each_look_tells_what_is_new_and_no_answer_is_no_change() -> None:
    same, busy = a_snapshot(a_record(1)), SessionError("busy")
    looks = Looks(same, same, busy, a_snapshot(a_record(2)))
    assert told(looks.later()) == ([1], ())
    assert looks.later() is looks.later() is None
    assert told(looks.later()) == ([2], (1,))
    assert looks.made == 4


@pytest.mark.parametrize(("takes", "rest"), [(0.0, 1.0), (0.001, 1.0), (2.0, 40.0)])
def test_nobody_is_asked_too_often(takes: float, rest: float) -> None:
    looks = Looks(a_snapshot(a_record(1)), a_snapshot(a_record(2)), takes=takes)
    assert looks.made == 0  # nor before somebody wants to know
    assert told(looks.changes.next(0.0)) == ([1], ())
    assert looks.later(rest - 0.01) is None
    assert looks.made == 1
    assert told(looks.later(0.02)) == ([2], (1,))


def test_who_is_hurried_looks_at_once_but_only_once() -> None:
    looks = Looks(a_snapshot(), a_snapshot(a_record(1)), a_snapshot())
    looks.changes.next(0.0)
    looks.changes.hurry()
    assert told(looks.changes.next(0.0)) == ([1], ())
    assert looks.changes.next(0.0) is None


@pytest.mark.parametrize("end", [PolledChanges.interrupt, PolledChanges.close])
def test_who_waits_can_be_roused(end: Callable[[PolledChanges], None]) -> None:
    looks = Looks(a_snapshot(), takes=3600.0)
    looks.changes.next()
    heard: list[Change | None] = []
    thread = threading.Thread(target=lambda: heard.append(looks.changes.next()))
    thread.start()
    end(looks.changes)
    thread.join(TIMEOUT)
    assert heard == [None]
    assert looks.made == 1


def test_whoever_was_roused_before_waits_not_at_all_and_when_it_is_over_nobody_is_asked() -> None:
    looks = Looks(a_snapshot())
    looks.changes.interrupt()
    assert looks.later() is None
    assert looks.made == 0
    assert looks.later() is not None
    assert not looks.changes.is_over
    looks.is_over = True
    assert looks.changes.is_over
    assert looks.later() is None


def test_what_goes_with_a_session_is_made_once_and_anew_when_that_is_over() -> None:
    made: list[list[str]] = []
    of = object()

    def beside() -> list[str]:
        return context.beside(of, lambda: made.append([]) or made[-1], bool)

    assert beside() is beside()
    beside().append("over")
    assert beside() is made[1]
    beside().append("over")


@pytest.mark.parametrize("of", [1, "ray", threading, object, [], lambda: None])
def test_what_is_no_session_is_refused(of: object) -> None:
    with pytest.raises(TypeError, match=r"distributed\.Client"):
        api.observed(of)


def test_what_an_engine_lacks_is_said_and_nothing_is_done() -> None:
    watched = SimpleNamespace(can=replace(Abilities.none("Read-only."), why=""))
    assert acting_on(cast(Any, watched), "why") is watched
    with pytest.raises(WorkbenchError, match=r"^Read-only\.$"):
        acting_on(cast(Any, watched), "free")


def test_every_button_names_what_it_needs() -> None:
    assert Abilities(streams="No.").lacking() == {"streams": "No."}
    assert set(BUTTONS.values()) < {field.name for field in fields(Abilities)}
    assert BUTTONS.keys() == ACTIONS.keys()
