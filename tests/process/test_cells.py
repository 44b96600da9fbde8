"""Cells on a worker, submitted without a notebook: what one of them leaves to the next."""

from __future__ import annotations

import json
from typing import Any

import pytest

import workbench as wb
from workbench import api
from workbench.api.actors import ActorClass
from workbench.core.events import Output
from workbench.engine.base import Call, CellListener, Engine, Exported
from workbench.errors import ActorDiedError, TaskError
from workbench.host.cell import Cell
from workbench.host.cells import Namespace, run_cell
from workbench.options import ActorOptions, TaskOptions


class Notebook:
    """Runs cells one after the other; ``shown`` is what the last one has shown."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._function = Exported(run_cell, "cell")
        self.shown: list[Output] = []
        engine.listener = CellListener(lambda output: self.shown.append(output))

    def run(self, source: str) -> None:
        self.shown.clear()
        cell = Cell(source, "<cell>", 1, (), in_notebook=True)
        ref: Any = self._engine.submit(self._function, Call((cell,), {}, TaskOptions()))
        wb.get(ref)

    def text(self, kind: str = "stdout") -> str:
        return b"".join(o.data for o in self.shown if o.kind == kind).decode()

    def messages(self, kind: str) -> list[Any]:
        return [json.loads(o.data) for o in self.shown if o.kind == kind]


@pytest.fixture
def notebook(runtime: str) -> Any:
    """With one worker: each cell comes after all the others."""
    return Notebook(wb.init(workers=1, memory="64MB"))


BROKEN = r"""
import matplotlib.pyplot as plt
plt.title(r"$\frac{$");
"""

UNSHOWABLE = """
class Thing:
    def _repr_html_(self):
        raise ValueError("of the representation")
    def __repr__(self):
        return "the thing"
Thing()
"""


def test_what_cannot_be_shown_is_no_failure_of_its_cell(notebook: Notebook) -> None:
    """And a figure that can't be drawn isn't tried again by the next."""
    notebook.run(BROKEN)
    assert "ParseSyntaxException" in notebook.text("stderr")
    (shown,) = notebook.messages("display")
    assert shown["data"] == {"text/plain": "<Figure size 640x480 with 1 Axes>"}
    notebook.run("print('next')")
    assert [(o.kind, o.data) for o in notebook.shown] == [("stdout", b"next\n")]
    notebook.run(UNSHOWABLE)
    assert "ValueError: of the representation" in notebook.text("stderr")
    assert [m["data"] for m in notebook.messages("display")] == [{"text/plain": "the thing"}]


def test_a_namespace_whose_variables_are_gone_says_so(notebook: Notebook) -> None:
    def run(actor: Any, source: str) -> None:
        wb.get(actor.run.remote(Cell(source, "<cell>", 1, ())))

    namespaces = ActorClass(Namespace, ActorOptions(name="side"), api.engine)
    first = namespaces.remote()
    run(first, "x = 1")
    with pytest.raises(ActorDiedError):
        run(first, "import os; os._exit(1)")
    second = namespaces.remote()
    with pytest.raises(TaskError, match="The namespace is new") as caught:
        run(second, "x")
    assert isinstance(caught.value, NameError)
    with pytest.raises(TaskError) as caught:
        run(second, "x")
    assert "The namespace is new" not in str(caught.value)
