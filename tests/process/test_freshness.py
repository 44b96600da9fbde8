"""What readers of a stored variable get is what it is now: random edits, in a real session."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.leaks import eventually
from tests.patience import THOROUGH
from tests.unit.serialization.edits import EDITS, VALUES, edit, exact, inner_values
from workbench.engines.base import Engine
from workbench.ipython.bindings import Bindings
from workbench.ipython.freshness import Freshness

USUAL = settings(
    max_examples=300 if THOROUGH else 30,
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
        ref = self.engine.find("value")
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


def test_a_function_reads_its_data_as_it_is(session: Engine) -> None:
    data, large = [1], np.zeros(1 << 18)

    @wb.remote
    def read() -> tuple[list[int], float]:
        return data, float(large[7])

    for n in range(3):
        data.append(n)
        assert wb.get(read.remote())[0] == data
    large[7] = 5.0
    assert eventually(lambda: wb.get(read.remote())[1] == 5.0)
