"""What background cells show, and where: in the window, and in the saved file."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.gates import READS, Gates
from tests.browser.lab import DARK, Lab, Picture
from tests.notebooks import Node

SHOWS = """\
%%remote
import matplotlib.pyplot as plt
import training
from IPython.display import HTML, display

losses = []
for epoch in range(3):
    losses.append(training.step(epoch))
    print("epoch", epoch, "loss", losses[-1])
display(HTML("<b>trained</b>"))
plt.figure(figsize=(4, 2))
plt.plot(losses)
plt.show()
{"best": min(losses)}"""

FAILS = """\
%%remote
import training

def ratio(a, b):
    return a / b

print("before")
training.step()
ratio(1, 0)"""


def test_output_comes_under_its_cell_while_others_run(
    lab: Lab, gate: Gates, picture: Picture
) -> None:
    training, reading = gate("training"), gate("reading")
    notebook = lab.open("training", "%load_ext workbench", SHOWS, READS, "6 * 7")
    notebook.run(1, 2)
    expect(notebook.output(1)).to_contain_text("Workbench started session training-")
    expect(notebook.prompt(2)).to_have_text("[2]:")
    notebook.run(3, 4)
    expect(notebook.prompt(3)).to_have_text("[*]:")
    training.let_on()
    expect(notebook.output(2)).to_contain_text("epoch 0 loss 1.0")
    expect(notebook.prompt(3)).to_have_text("[*]:")
    expect(notebook.prompt(4)).to_have_text("[*]:")
    picture("output-while-a-cell-runs", notebook)
    training.let_on()
    expect(notebook.output(2)).to_contain_text("epoch 1 loss 0.5")
    reading.let_on()
    expect(notebook.output(4)).to_contain_text("42")
    training.let_on()
    expect(notebook.output(2)).to_contain_text("{'best': 0.25}")
    picture("output-of-a-background-cell", notebook)

    shown = notebook.output(2)
    expect(shown).to_contain_text("epoch 0 loss 1.0\nepoch 1 loss 0.5\nepoch 2 loss 0.25\n")
    expect(shown.locator("b", has_text="trained")).to_be_visible()
    expect(shown.locator("img")).to_have_js_property("complete", True)
    expect(notebook.output(3)).to_have_text("read")
    expect(notebook.output(4)).to_have_text("[4]:42")

    cells = notebook.save().cells
    assert printed(cells[1]) == "epoch 0 loss 1.0\nepoch 1 loss 0.5\nepoch 2 loss 0.25\n"
    assert shows(cells[1], "text/html", "<b>trained</b>")
    assert shows(cells[1], "image/png")
    assert shows(cells[1], "text/plain", "{'best': 0.25}")
    assert [printed(cell) for cell in cells[2:4]] == ["read\n", ""]


def test_an_error_comes_under_its_cell_and_points_at_its_line(
    lab: Lab, gate: Gates, picture: Picture
) -> None:
    training = gate("training")
    notebook = lab.open("fails", "%load_ext workbench", FAILS, "6 * 7", theme=DARK)
    notebook.run(1, 2, 3)
    expect(notebook.output(3)).to_contain_text("42")
    expect(notebook.output(2)).to_contain_text("before")
    training.let_on()
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


def shows(cell: Node, mime: str, what: str = "") -> bool:
    """Whether a saved cell has that among its displays."""
    return any(what in output.get("data", {}).get(mime, "") for output in cell.outputs)


CALLS = """\
import workbench as wb
import training

with wb.Executor(1) as executor:
    losses = list(executor.map(training.step, range(3), chunksize=1))
losses[-1]"""
"""A cell whose calls come to the gate ``training`` one after the other."""


def test_a_line_tells_how_many_calls_are_done(lab: Lab, gate: Gates, picture: Picture) -> None:
    training = gate("training")
    notebook = lab.open("calls", "%load_ext workbench", CALLS)
    notebook.run(1, 2)
    for done in (1, 2):
        training.let_on()
        expect(notebook.output(2)).to_contain_text(f"{done} of 3 calls done")
    picture("calls-of-an-executor", notebook)
    training.let_on()
    expect(notebook.output(2)).to_contain_text(re.compile(r"3 calls done in [\d.]+ s.*0\.25", re.S))
    picture("calls-of-an-executor-done", notebook)
