"""The course's progress in a session: one object that no list shows, or none where none can be."""

from __future__ import annotations

from typing import Any, cast

import pytest

import workbench as wb
from workbench.course import progress
from workbench.course.checks import STATES
from workbench.course.exercises import Live, lessons
from workbench.engine.base import Abilities, Engine
from workbench.engine.queries import CaughtUp


class Wrapped:
    """A session that does something in another way."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class Unpinned(Wrapped):
    """In which nothing can be pinned, as one on Ray."""

    can = Abilities(pin="Ray has no pins.")
    put = pin = free = None  # it would leave an object behind


def own(engine: Engine) -> list[str]:
    """The types of all objects, Workbench's own included."""
    engine.ask(CaughtUp())
    return [record.about.type for record in engine.snapshot().objects if record.about]


def test_progress_is_one_object_however_much_is_done(session: Engine) -> None:
    try:
        assert progress.note(session, []) == frozenset()
        assert own(session) == []
        progress.note(session, ["a"])
        assert progress.note(session, ["b", "a"]) == {"a", "b"}
        assert progress.note(session, []) == {"a", "b"}
        assert own(session) == ["Workbench's Progress"]
        assert len(wb.objects()) == 0
        assert wb.snapshot().count == 0
    finally:
        session.free([session.borrow(record.id) for record in session.snapshot().objects])


def test_where_nothing_can_be_pinned_a_check_still_answers(session: Engine) -> None:
    unpinned = cast(Engine, Unpinned(session))
    assert progress.note(unpinned, ["a"]) == {"a"}
    assert progress.note(session, []) == frozenset()
    assert own(session) == []


def test_each_check_answers_whoever_has_done_nothing(session: Engine) -> None:
    states = {
        exercise.name: exercise.ask(Live(dict.fromkeys(exercise.needs), session)).state
        for lesson in lessons()
        for exercise in lesson.exercises
    }
    assert states.pop("given_back") == "right"  # there is nothing to give back
    assert {*states.values()} <= {*STATES} - {"right"}


class Overtaken(Wrapped):
    """In which another notebook notes something between every search and get."""

    others: list[str]

    def get(self, refs: Any, *args: Any) -> Any:
        if self.others:
            progress.note(self._engine, [self.others.pop()])
            self._engine.ask(CaughtUp())
        return self._engine.get(refs, *args)


@pytest.mark.parametrize("times", [1, 20])
def test_two_notebooks_may_note_at_once(session: Engine, times: int) -> None:
    try:
        progress.note(session, ["first"])
        overtaken = Overtaken(session)
        overtaken.others = [f"other {number}" for number in range(times)]
        progress.note(cast(Engine, overtaken), ["mine"])
        assert {"first", "mine", f"other {times - 1}"} <= progress.note(session, [])
    finally:
        session.free([session.borrow(record.id) for record in session.snapshot().objects])
