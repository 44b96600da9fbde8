"""Sessions of very many objects: no question has an answer that is too large for a frame."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.cli import admin
from workbench.format import human_count
from workbench.report.text import MOST_ROWS
from workbench.wire import framing

MANY = 3_000

FRAME = 150_000
"""Bytes: less than a third of what a message with all of them would have."""


def test_whatever_is_asked_comes_in_frames_that_are_small_enough(
    runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = wb.init(session="crowd", workers=1, memory="64MB")
    kept = [wb.put(n, name=f"n{n}" if n % 2 else "") for n in range(MANY)]
    monkeypatch.setattr(framing, "LARGEST", FRAME)
    count = len(kept)
    summary = engine.summary()  # %workbench, %workbench jobs, Tab behind them
    assert (summary.count, len(summary.objects)) == (count, 20)
    table = wb.objects(limit=MOST_ROWS)  # %objects
    assert (len(table), table.others) == (MOST_ROWS, count - MOST_ROWS)
    assert str(table).splitlines()[-1].startswith(f"and {human_count(table.others)} more, ")
    found = wb.objects("n1", sort="name", limit=MOST_ROWS)
    assert [record.names for record in found] == [("n1",)]
    assert "'n1'" in str(wb.why("n1"))
    assert len(engine.names()) == count // 2
    assert engine.names("n199")[0] == "n199"
    whole = wb.snapshot()
    assert len(whole.objects) == len({record.id for record in whole.objects}) == count
    with admin.AdminConnection(engine.session.rpartition("~")[0]) as connection:
        assert connection.summary().count == count
        assert sum(1 for _ in connection.objects()) == count
    wb.shutdown()
