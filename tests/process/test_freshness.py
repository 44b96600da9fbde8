"""What readers of a stored variable get is what it is now, in a real session. That no edit is
missed: `tests/unit/serialization/test_comparison.py`."""

from __future__ import annotations

import time
from typing import Any

import pytest

import workbench as wb
from workbench.engine.base import Engine
from workbench.engine.queries import Lookup
from workbench.ipython.bindings import Bindings
from workbench.ipython.freshness import Freshness
from workbench.serialization.comparison import BUDGET


def test_a_late_answer_costs_no_name_or_pin(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored again keeps its pin, and takes no name that means another object by now."""
    monkeypatch.setenv("WORKBENCH_GLANCE", "0")
    session = wb.init(workers=1, memory="16MB")
    value, bindings = [1, 2], Bindings()
    ref, about = session.put(value, "value")
    bindings.note("value", value, ref, "%put", "value", about)
    session.pin(ref, True)

    def read() -> Any:
        """What a cell that reads it gets."""
        found = Freshness(bindings, session)
        captured = {"value": found.ref("value", value)}
        found.renew(captured)
        return wb.get(captured["value"])

    value.append(3)
    read()
    (stored,) = [each for each in session.snapshot().objects if each.names]
    assert stored.pinned
    other = wb.put("another", name="value")
    value.append(4)
    assert read() == [1, 2, 3, 4]
    assert session.ask(Lookup("value")) == other


class Slow:
    """More than half of what one variable may take."""

    asked = 0

    def __getstate__(self) -> dict[str, int]:
        Slow.asked += 1
        end = time.thread_time() + BUDGET * 0.6
        while time.thread_time() < end:
            pass
        return {}


def test_all_that_a_cell_reads_has_one_budget(session: Engine) -> None:
    """However many variables it has."""
    bindings = Bindings()
    values: dict[str, Any] = {f"slow{n}": Slow() for n in range(3)}
    values["last"] = [1]
    for name, value in values.items():
        ref, about = session.put(value)
        bindings.note(name, value, ref, "%put", name, about)
    for name, value in values.items():  # one cell each: what they take is known then
        alone = Freshness(bindings, session)
        alone.ref(name, value)
        assert alone.notes == []
    values["last"].append(2)
    before = Slow.asked
    found = Freshness(bindings, session)
    for name, value in values.items():
        found.ref(name, value)
    assert Slow.asked - before < 3
    (said,) = found.notes
    assert said.startswith("slow1 and slow2 as stored earlier, not compared (")
    assert "last changed" in found.preview_advice("last")
