"""Widgets that remote cells make: those of a namespace hear what a person does, others say they
are a still."""

from __future__ import annotations

from typing import Any

from tests.kernel.conftest import Cell, Kernel

CONTROLS = """\
import ipywidgets
slider = ipywidgets.IntSlider(value=1)
button = ipywidgets.Button()
slider.observe(lambda change: print('now', change.new), 'value')
button.on_click(lambda button: print('pressed, at', slider.value))
def fails(button):
    raise ValueError('of a callback')
bad = ipywidgets.Button(description='bad')
bad.on_click(fails)
display(slider, button, bad)
"""


def model(cell: Cell, name: str, **state: Any) -> str:
    """The id of the widget with that model, made under the cell."""
    wanted = {"_model_name": name, **state}
    return next(id for id, made in cell.opened().items() if wanted.items() <= made.items())


def test_the_controls_of_a_namespace_work(session: Kernel) -> None:
    cell = session.ok(f"%%remote --wait --actor desk\n{CONTROLS}")
    moved = {"method": "update", "state": {"value": 5}, "buffer_paths": []}
    session.send(model(cell, "IntSliderModel"), moved)
    session.until(lambda: "now 5\n" in cell.text())
    session.tell(model(cell, "ButtonModel", description="bad"), event="click")
    session.until(lambda: "ValueError: of a callback" in cell.text("stderr"))
    session.tell(model(cell, "ButtonModel", description=""), event="click")
    session.until(lambda: "pressed, at 5\n" in cell.text())
    assert session.ok("%%remote -w --actor desk\nprint(slider.value)").text() == "5\n"
    assert "still" not in cell.notes


def test_others_say_that_they_are_a_still(session: Kernel) -> None:
    cell = session.ok(f"%%remote --wait\n{CONTROLS}")
    session.until(lambda: "Its widgets don't react" in cell.notes)
    session.tell(model(cell, "ButtonModel", description=""), event="click")
    cell = session.ok("%%remote --wait\nimport ipywidgets\nipywidgets.FloatProgress(value=5)")
    assert "still" not in cell.notes
