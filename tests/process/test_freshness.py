"""What readers of a stored variable get is what it is now: random edits, in a real session."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.patience import THOROUGH
from tests.unit.serialization.edits import EDITS, VALUES, edit, exact, inner_values
from workbench.engine.base import Engine
from workbench.engine.queries import Lookup
from workbench.ipython.bindings import Bindings
from workbench.ipython.freshness import Freshness
from workbench.serialization.comparison import BUDGET

USUAL = settings(
    max_examples=300 if THOROUGH else 15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class Notebook:
    """One variable, stored or read, that remote cells read."""

    def __init__(self, engine: Engine, value: Any) -> None:
        self.engine = engine
        self.bindings = Bindings()
        self.value = value

    def put(self) -> None:
        ref, about = self.engine.put(self.value, "value")
        self.bindings.note("value", self.value, ref, "%put", "value", about)

    def get(self, copy: bool = False) -> None:
        ref = self.engine.ask(Lookup("value"))
        assert ref is not None
        (self.value,) = self.engine.get([ref], None, copy)
        self.bindings.note("value", self.value, ref)

    def read(self) -> tuple[Any, list[str]]:
        """What a cell that reads it gets, and what its line says."""
        found = Freshness(self.bindings, self.engine)
        ref = found.ref("value", self.value)
        assert ref is not None
        captured = {"value": ref}
        found.renew(captured)
        return self.engine.get([captured["value"]], None, True)[0], found.notes


def test_a_late_answer_costs_no_name_or_pin(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored again keeps its pin, and takes no name that means another object by now."""
    monkeypatch.setenv("WORKBENCH_GLANCE", "0")
    session = wb.init(workers=1, memory="16MB")
    notebook = Notebook(session, [1, 2])
    notebook.put()
    ref = session.ask(Lookup("value"))
    assert ref is not None
    session.pin(ref, True)
    notebook.value.append(3)
    notebook.read()
    (stored,) = [each for each in session.snapshot().objects if each.names]
    assert stored.pinned
    other = wb.put("another", name="value")
    notebook.value.append(4)
    assert notebook.read()[0] == [1, 2, 3, 4]
    assert session.ask(Lookup("value")) == other
    wb.shutdown()


@USUAL
@given(st.data(), VALUES, st.sampled_from([0, 3000]))
def test_no_read_is_stale(session: Engine, data: st.DataObject, value: Any, more: int) -> None:
    """3 000 edits when thorough; of objects in messages, and of such that have an extent."""
    notebook = Notebook(session, [value, np.zeros(more)])
    notebook.put()
    assert notebook.read()[1] == []
    for _ in range(EDITS):
        way = data.draw(st.sampled_from(["edit", "edit", "edit", "edit", "get", "replace", "put"]))
        if way == "edit":
            editable = [v for v in inner_values(notebook.value) if _is_writable(v)]
            chosen = editable[data.draw(st.sampled_from(range(len(editable))))]
            with contextlib.suppress(ValueError):  # a frame that shows the store: read-only
                edit(chosen, data.draw)
        elif way == "put":
            notebook.put()
        elif way == "get":
            notebook.put()
            notebook.get(copy=False)
        else:
            notebook.read()
            known = notebook.bindings.find("value", notebook.value)
            assert known is not None
            (notebook.value,) = session.get([known[1].ref], None, False)
            notebook.bindings.replaced("value", notebook.value)
        got, notes = notebook.read()
        assert exact(got) == exact(notebook.value)
        if way != "edit":
            assert notes == []
    assert notebook.read()[1] == []


def _is_writable(value: Any) -> bool:
    return not isinstance(value, np.ndarray) or value.flags.writeable


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
    assert len(found.notes) == 2
    assert all("s for others)" in note for note in found.notes)
    assert "last changed" in found.would("last")
