"""Kernels that restart, are interrupted, share a session: as a person sees it."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.gates import TRAINS, Gates
from tests.browser.lab import Lab, Picture


def test_a_restarted_kernel_finds_its_background_cell(
    lab: Lab, gate: Gates, picture: Picture
) -> None:
    training = gate("training")
    notebook = lab.open(
        "restarts", "%load_ext workbench", TRAINS, "%workbench jobs cell 2", "%get loss\nloss"
    )
    notebook.run(1, 2)
    training.let_on()
    expect(notebook.output(2)).to_contain_text("epoch 0")
    expect(notebook.stop_button(2)).to_be_visible()
    notebook.restart()
    expect(notebook.stop_button(2)).to_have_count(0)  # nobody would hear it any more
    expect(notebook.output(2)).to_contain_text(re.compile(r"cell 2 · worker \d+ · running"))
    notebook.run(1)
    expect(notebook.output(1)).to_contain_text("Workbench joined session restarts-")
    expect(notebook.output(1)).to_contain_text("cell 2 running")
    notebook.run(3)
    expect(notebook.output(3)).to_contain_text("epoch 0 loss 1.0")
    training.let_on()
    expect(notebook.output(3)).to_contain_text("epoch 1 loss 0.5")
    picture("kernel-restarted", notebook)
    training.let_on()
    expect(notebook.output(3)).to_contain_text("epoch 2 loss 0.25")
    notebook.run(4)
    expect(notebook.output(4)).to_contain_text("0.25")
    expect(notebook.output(2)).not_to_contain_text("epoch 1")


def test_two_notebooks_share_a_session(lab: Lab, gate: Gates) -> None:
    training = gate("training")
    start = "%env WORKBENCH_SESSION=lab\n%load_ext workbench"
    first = lab.open("one", start, TRAINS, "table = [1, 2, 3]\n%put table")
    second = lab.open("two", start, "%workbench jobs cell 2", "%get table\nsum(table)")
    first.run(1, 2)
    training.let_on()
    expect(first.output(2)).to_contain_text("epoch 0")
    second.run(1, 2)
    expect(second.output(1)).to_contain_text("joined session lab")
    expect(second.output(2)).to_contain_text("epoch 0")
    for epoch in ("epoch 1", "epoch 2"):
        training.let_on()
        expect(first.output(2)).to_contain_text(epoch)
        expect(second.output(2)).to_contain_text(epoch)
    first.run(3)
    expect(first.prompt(3)).to_have_text("[3]:")
    second.run(3)
    expect(second.output(3)).to_have_text("[3]:6")


def test_an_interrupt_ends_the_waiting_and_the_notebook_goes_on(lab: Lab, gate: Gates) -> None:
    training = gate("training")
    waits = TRAINS.replace("%%remote", "%%remote --wait")
    notebook = lab.open("interrupts", "%load_ext workbench", waits, "6 * 7")
    notebook.run(1, 2)
    training.let_on()
    expect(notebook.output(2)).to_contain_text("epoch 0")
    expect(notebook.prompt(2)).to_have_text("[*]:")
    notebook.interrupt()
    expect(notebook.error(2)).to_contain_text("KeyboardInterrupt")
    expect(notebook.prompt(2)).to_have_text("[2]:")
    notebook.run(3)
    expect(notebook.output(3)).to_have_text("[3]:42")
