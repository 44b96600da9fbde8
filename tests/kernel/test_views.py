"""Views in a kernel: what a cell leaves in the notebook, and how the page's words are answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kernel.conftest import Cell, Kernel
from tests.kernel.gates import Gate
from workbench.report.checkpoints import MEANWHILE

WIDGET = "application/vnd.jupyter.widget-view+json"


class View:
    """One that a cell has shown, and the page's side of it."""

    def __init__(self, session: Kernel, cell: Cell) -> None:
        (content,) = (c for kind, c in cell.outputs if kind in ("execute_result", "display_data"))
        self.data: dict[str, Any] = content["data"]
        # A widget's layout has a comm too.
        self.id, self.state = next((i, s) for i, s in cell.opened().items() if "world" in s)
        self._session = session

    def says(self, **message: Any) -> Cell:
        """A page sends this; what comes of it."""
        cell = self._session.tell(self.id, **message)
        self._session.until(lambda: cell.idle)
        return cell


@pytest.fixture
def view(session: Kernel) -> Iterator[View]:
    session.ok("import numpy as np\ndata = wb.put(np.ones(100_000), name='data')")
    session.custom.clear()
    yield View(session, session.ok("%workbench dashboard"))
    session.ok("del data")


def test_a_cell_keeps_the_static_form_and_the_model_has_all_to_draw(view: View) -> None:
    assert view.data.keys() == {"text/plain", "text/html"}
    assert "data" in view.data["text/plain"]
    assert f'data-workbench="{view.state["key"]}"' in view.data["text/html"]
    assert "<script" not in view.data["text/html"]
    world = view.state["world"]  # all there is to draw
    assert [row["name"] for row in world["objects"].values() if row["name"]] == ["data"]
    assert view.state["parts"] == ["occupancy", "pins", "costs", "jobs", "history"]
    assert "export default" in view.state["_esm"]


def test_when_nobody_is_at_it_what_was_seen_last_is_kept(session: Kernel, view: View) -> None:
    session.ok("more = wb.put([1], name='more')")
    view.says(do="shown", on=True)
    session.until(lambda: "more" in json.dumps(session.custom))
    view.says(do="shown", on=False)
    session.until(lambda: session.updates)
    data = session.updates[-1]["data"]
    assert "more" in data["text/plain"]
    assert f'data-workbench="{view.state["key"]}"' in data["text/html"]
    session.ok("wb.free(more)\ndel more")


def test_programs_that_run_notebooks_get_all_of_it_and_no_model(session: Kernel) -> None:
    cell = session.run("wb.widgets.Pins()", headless=True)
    session.until(lambda: cell.idle)
    (content,) = (c for kind, c in cell.outputs if kind == "display_data")
    assert content["data"].keys() == {"text/plain", "text/html"}
    assert not [state for state in cell.opened().values() if "world" in state]
    cell = session.run("import ipywidgets\nipywidgets.HBox([wb.widgets.Pins()])", headless=True)
    session.until(lambda: cell.idle)
    assert not cell.failure
    assert [state for state in cell.opened().values() if "world" in state]


def test_vs_code_gets_a_view_of_the_widget_besides(session: Kernel) -> None:
    session.ok("__vsc_ipynb_file__ = '/home/me/a.ipynb'")
    view = View(session, session.ok("wb.widgets.Pins()"))
    session.ok("del __vsc_ipynb_file__")
    assert view.data[WIDGET]["model_id"] == view.id


def test_a_request_is_noted_and_answered(session: Kernel, view: View) -> None:
    (id,) = (row["id"] for row in view.state["world"]["objects"].values() if row["name"])
    view.says(do="why", id=id, number=7)
    session.until(lambda: {"noted", "answer"} <= {m["kind"] for m in session.custom})
    (answer,) = (m for m in session.custom if m["kind"] == "answer")
    assert (answer["number"], answer["ok"]) == (7, True)
    assert "named `data`" in answer["text"]


def test_a_cells_variables_are_looked_at_and_checked_out(session: Kernel, gate: Gate) -> None:
    session.ok("%workbench keep")
    session.ok("seen = [1]")
    session.ok("seen.append(2)")
    view = View(session, session.ok("wb.widgets.History()"))
    changed, began, _ = (row["id"] for row in view.state["world"]["history"])

    def answered(what: str, subshell: str = "", **more: Any) -> tuple[bool, str]:
        session.custom.clear()
        session.tell(view.id, subshell, do=what, number=1, **more)
        session.until(lambda: session.custom and session.custom[-1]["kind"] == "answer")
        answer = session.custom[-1]
        return answer["ok"], answer.get("html", answer["text"])

    assert "seen.append(2)" in answered("look", id=changed)[1]
    # A cell has run since the page was told: the one that shows the view.
    assert answered("checkout", id=began, present=changed) == (False, MEANWHILE)
    present, after, last = (f"{int(changed, 16) + n:x}" for n in (1, 2, 3))
    waits = session.start(gate.wait)
    session.until(lambda: waits.number)
    subshell = session.subshell()
    assert answered("checkout", subshell, id=began, present=present) == (False, MEANWHILE)
    gate.open()
    session.until(lambda: waits.idle)
    assert "seen changed" in answered("checkout", subshell, id=began, present=after)[1]
    session.ok("seen.append(3)")  # the next cell is kept: it follows the one that was checked out
    assert "seen.append(3)" in answered("look", id=last)[1]
    assert session.value("seen") == "[1, 3]"
    session.ok("%workbench keep off")
