"""A snapshot as text and back; what isn't one is refused in words."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given

from tests.unit.wire.test_messages import values
from workbench.core.snapshot import A_RESULT, FORMAT, ObjectRecord, Snapshot, result_of


@given(snapshot=values(Snapshot))
def test_as_text_and_back(snapshot: Snapshot) -> None:
    assume("inf" not in repr(snapshot))  # no figure of a session's is, and JSON has none
    assert Snapshot.from_json(snapshot.to_json()) == snapshot
    assert Snapshot.from_json(snapshot.to_json().encode()) == snapshot


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a snapshot"),
        ("{}", "not a snapshot"),
        ("[1, 2]", "not a snapshot"),
        (json.dumps({"format": FORMAT, "snapshot": ["name"]}), "not a snapshot"),
        (json.dumps({"format": FORMAT + 1, "snapshot": 3}), "read it with the version that wrote"),
    ],
)
def test_what_is_something_else_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Snapshot.from_json(text)


def test_strength() -> None:
    alive = ObjectRecord(1, "ready", (), 1, "memory", None, (1,), (), 0, 0)
    shown = ObjectRecord(1, "ready", (), 1, "memory", None, (1,), (2,), 0, 0)
    pinned = ObjectRecord(1, "ready", (), 1, "memory", None, (1,), (), 0, 0, pinned="cell 1")
    read = ObjectRecord(1, "ready", (), 1, "memory", None, (1,), (), 1, 0, in_use=True)
    freed = ObjectRecord(1, "freed", (), 1, "memory", None, (1,), (2,), 0, 0)
    records = (alive, shown, pinned, read, freed)
    assert [r.strength for r in records] == ["alive", *["resident"] * 3, "freed"]


def test_lists_say_which_tasks_failed_and_which_were_stopped() -> None:
    said = ["a task's error", "a stopped task's result", A_RESULT, A_RESULT]
    assert [result_of(state) for state in ("failed", "stopped", "running", "waiting")] == said
