"""The course's progress in a session: one object that no list shows, or none where none can be."""

from __future__ import annotations

from typing import Any, cast

import pytest

import workbench as wb
from workbench.course import progress
from workbench.engines.base import Abilities, Engine
from workbench.serialization.expressions import describe


class Unpinned:
    """A session in which nothing can be pinned, as one on Ray."""

    def __init__(self, engine: Engine, can: Abilities) -> None:
        self._engine = engine
        self.can = can

    def __getattr__(self, name: str) -> Any:
        assert name not in ("put", "pin", "free"), "it would leave an object behind"
        return getattr(self._engine, name)


def own(engine: Engine) -> list[str]:
    """The types of all objects, Workbench's own included."""
    engine.settle()
    return [record.about.type for record in engine.snapshot().objects if record.about]


def test_progress_is_one_object_however_much_is_done(session: Engine) -> None:
    try:
        assert progress.note(session, []) == frozenset()
        assert own(session) == []
        progress.note(session, ["a"])
        assert progress.note(session, ["b", "a"]) == {"a", "b"}
        assert progress.done(session) == {"a", "b"}
        assert own(session) == ["Workbench's Progress"]
        assert len(wb.objects()) == 0
        assert wb.snapshot().count == 0
    finally:
        session.free([session.borrow(record.id) for record in session.snapshot().objects])


def test_where_nothing_can_be_pinned_a_check_still_answers(session: Engine) -> None:
    can = Abilities(pin="Ray has no pins.")
    unpinned = cast(Engine, Unpinned(session, can))
    assert progress.note(unpinned, ["a"]) == {"a"}
    assert progress.done(session) == frozenset()
    assert own(session) == []


class Overtaken:
    """A session in which another notebook notes something between every search and get."""

    def __init__(self, engine: Engine, others: list[str]) -> None:
        self._engine = engine
        self._others = others

    def get(self, refs: Any, *args: Any) -> Any:
        if self._others:
            progress.note(self._engine, [self._others.pop()])
            self._engine.settle()
        return self._engine.get(refs, *args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@pytest.mark.parametrize("times", [1, 20])
def test_two_notebooks_may_note_at_once(session: Engine, times: int) -> None:
    try:
        progress.note(session, ["first"])
        others = [f"other {number}" for number in range(times)]
        progress.note(cast(Engine, Overtaken(session, list(others))), ["mine"])
        assert {"first", "mine", others[-1]} <= progress.done(session)
    finally:
        session.free([session.borrow(record.id) for record in session.snapshot().objects])


def test_a_class_of_that_name_elsewhere_is_nobodys_but_its_owners() -> None:
    theirs = type("Progress", (), {"__module__": "workbench.course.progress"})
    assert describe(theirs()) == "Progress"
    assert describe(progress.Progress()) == "Workbench's Progress"
