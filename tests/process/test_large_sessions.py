"""Sessions of very many objects: no question has an answer that is too large for a frame."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.process.processes import Processes
from workbench.cli import admin
from workbench.engines.base import Engine
from workbench.report.format import human_count
from workbench.report.text import MOST_ROWS
from workbench.wire import framing

MANY = 3_000

FRAME = 150_000
"""Bytes: less than a third of what a message with all of them would have."""


def test_whatever_is_asked_comes_in_frames_that_are_small_enough(
    runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a look is broken off: that leaves the connection as it was."""
    engine = wb.init(session="crowd", workers=1, memory="64MB")
    kept = [wb.put(n, name=f"n{n}" if n % 2 else "") for n in range(MANY)]
    monkeypatch.setattr(framing, "LARGEST", FRAME)
    assert_answered(engine, MANY)
    parts = engine._requests.look()  # type: ignore[attr-defined]
    first = next(parts)
    assert 0 < first.left == MANY - len(first.objects)
    parts.close()
    assert engine.summary().count == len(kept)
    wb.shutdown()


def assert_answered(engine: Engine, count: int) -> None:
    """All that magics, Tab and the shell command ask. ``n1`` is there, and the first odd name."""
    summary = engine.summary()  # %workbench, %workbench jobs, Tab behind them
    assert (summary.count, len(summary.objects)) == (count, 20)
    table = wb.objects(limit=MOST_ROWS)  # %objects
    assert (len(table), table.others) == (MOST_ROWS, count - MOST_ROWS)
    assert str(table).splitlines()[-1].startswith(f"and {human_count(table.others)} more, ")
    found = wb.objects("n1", sort="name", limit=MOST_ROWS)
    assert [record.names for record in found] == [("n1",)]
    assert "'n1'" in str(wb.why("n1"))
    assert len(engine.names()) == min(count, 20_000) // 2
    assert engine.names("n199")[0] == "n199"
    whole = wb.snapshot()
    assert len(whole.objects) == len({record.id for record in whole.objects}) == count
    with admin.AdminConnection(engine.session.rpartition("~")[0]) as connection:
        assert connection.summary().count == count
        assert sum(1 for _ in connection.objects()) == count


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_million_objects(runtime: str, processes: Processes) -> None:
    count = 2_000_000
    engine = wb.init(session="crowd", workers=1, memory="4GB")
    kept = [wb.put(n, name=f"n{n}" if n < 20_000 and n % 2 else "") for n in range(count)]
    assert_answered(engine, count)
    server = processes.server()
    before = server.memory_info().rss
    wb.objects(limit=MOST_ROWS)
    assert server.memory_info().rss - before < 100e6
    del kept
    wb.shutdown()
    assert processes.gone()
