"""Background cells over reloads, windows and restarts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.gates import TRAINS, Gates
from tests.browser.lab import Lab, Picture

pytestmark = pytest.mark.extended
DONE = re.compile(r"✓ ?cell \d · done in .* loss")


def test_a_restarted_kernel_finds_its_cell(lab: Lab, gate: Gates, picture: Picture) -> None:
    training = gate("training")
    notebook = lab.open(
        "restarts", "%load_ext workbench", TRAINS, "%workbench jobs cell 2", "%get loss\nloss"
    )
    notebook.run(1, 2)
    training.open()
    expect(notebook.output(2)).to_contain_text("epoch 0")
    expect(notebook.stop_button(2)).to_be_visible()
    notebook.restart()
    expect(notebook.stop_button(2)).to_have_count(0)  # nobody would hear it any more
    expect(notebook.output(2)).to_contain_text(re.compile(r"cell 2 · worker \d+ · running"))
    notebook.run(1)
    expect(notebook.output(1)).to_contain_text("Workbench joined session restarts-")
    expect(notebook.output(1)).to_contain_text("cell 2 running")
    went_on = "The kernel ended; the cell went on. %workbench jobs cell 2 shows it."
    expect(notebook.output(2)).to_contain_text(went_on)
    notebook.run(3)
    expect(notebook.output(3)).to_contain_text("epoch 0 loss 1.0")
    training.open()
    expect(notebook.output(3)).to_contain_text("epoch 1 loss 0.5")
    picture("kernel-restarted", notebook)
    training.open()
    expect(notebook.output(3)).to_contain_text("epoch 2 loss 0.25")
    notebook.run(4)
    expect(notebook.output(4)).to_contain_text("0.25")
    expect(notebook.output(2)).to_contain_text(DONE)
    expect(notebook.output(2)).to_contain_text("%workbench jobs cell 2 shows all of it.")
    expect(notebook.output(2).locator("code:visible")).to_have_text("%workbench jobs cell 2")
    expect(notebook.output(2)).not_to_contain_text("epoch 1")


DRAWS = """\
%%remote
import matplotlib.pyplot as plt
import training
from IPython.display import HTML, display

for epoch in range(3):
    training.step()
    print("epoch", epoch)
    plt.plot([1, 2, epoch])
    plt.show()
display(HTML("<b>the table</b>"))
epoch + 40"""


def test_a_page_opened_later_shows_what_it_missed(lab: Lab, gate: Gates) -> None:
    training = gate("training")
    notebook = lab.open("late", "%load_ext workbench", DRAWS)
    notebook.run(1, 2)
    training.open()
    expect(notebook.output(2).locator("img")).to_have_count(1)
    notebook.save()
    training.open(2)
    expect(notebook.output(2)).to_contain_text("42")
    notebook.reload()
    expect(notebook.cell(2)).to_contain_text("42")
    expect(notebook.cell(2).locator("img")).to_have_count(3)
    in_order = re.compile("epoch 0.*epoch 1.*epoch 2.*the table.*42", re.DOTALL)
    expect(notebook.cell(2)).to_contain_text(in_order)
