"""What background cells show, and where: in the window, and in the saved file."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.gates import Gates
from tests.browser.lab import DARK, Lab, Picture
from tests.notebooks import Node

pytestmark = pytest.mark.extended

FAILS = """\
%%remote
import training

def ratio(a, b):
    return a / b

print("before")
training.step()
ratio(1, 0)"""


def test_an_error_is_under_its_cell(lab: Lab, gate: Gates, picture: Picture) -> None:
    training = gate("training")
    notebook = lab.open("fails", "%load_ext workbench", FAILS, "6 * 7", theme=DARK)
    notebook.run(1, 2, 3)
    expect(notebook.output(3)).to_contain_text("42")
    expect(notebook.output(2)).to_contain_text("before")
    training.open()
    error = notebook.error(2)
    expect(error).to_contain_text("ZeroDivisionError: division by zero")
    expect(error).to_contain_text("Cell In[2], line 9")
    expect(error).to_contain_text("Cell In[2], line 5, in ratio")
    expect(notebook.output(3)).to_have_text("[3]:42")
    picture("error-of-a-background-cell", notebook)
    (saved,) = [o for o in notebook.save().cells[1].outputs if o.output_type == "error"]
    assert "ZeroDivisionError" in saved.ename


def test_floods_stay_below_what_jupyters_server_lets_through(lab: Lab) -> None:
    flood = "%%remote\nfor _ in range(4_000):\n    print('flood\\n' * 1_000)\nprint('the end')"
    notebook = lab.open("floods", "%load_ext workbench", flood, flood, "6 * 7")
    notebook.run(1, 2, 3, 4)
    expect(notebook.output(4)).to_have_text("[4]:42")
    for number in (2, 3):
        expect(notebook.output(number)).to_contain_text(f"cell {number} · done in")
    for cell in notebook.save().cells[1:3]:
        assert "not shown]" in printed(cell)
        assert printed(cell).endswith("the end\n")
        assert "rate exceeded" not in str(cell.outputs)


def printed(cell: Node) -> str:
    """What a saved cell has of stdout."""
    streams = [output for output in cell.outputs if output.output_type == "stream"]
    return "".join(stream.text for stream in streams if stream.name == "stdout")


EACH = """\
%%remote --map path=files
import reading

print("reading", path)
if path == "west.csv":
    reading.step()
size = len(path)"""
"""A cell that runs once for each of `files`; the last run stops at the gate."""


def test_a_cell_run_once_per_item_has_one_line(lab: Lab, gate: Gates, picture: Picture) -> None:
    reading = gate("reading")
    files = 'files = ["north.csv", "south.csv", "east.csv", "west.csv"]'
    notebook = lab.open("items", "%load_ext workbench", files, EACH, "%get size\nsize")
    notebook.run(1, 2, 3)
    expect(notebook.output(3)).to_contain_text("3 of 4")
    expect(notebook.output(3)).to_contain_text("[3] reading west.csv")
    expect(notebook.stop_button(3)).to_be_visible()
    picture("once-per-item", notebook)
    reading.open()
    expect(notebook.output(3)).to_contain_text("cell 3 · done in")
    notebook.run(4)
    expect(notebook.output(4)).to_contain_text("[9, 9, 8, 8]")
