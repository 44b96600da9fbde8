"""The job line under a background cell: what it says, its Stop button, how it ends."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.gates import READS, TRAINS, Gates
from tests.browser.lab import Lab, Picture


def test_stop_works_while_another_cell_is_busy(lab: Lab, gate: Gates, picture: Picture) -> None:
    training, reading = gate("training"), gate("reading")
    notebook = lab.open("stops", "%load_ext workbench", TRAINS, READS, "%workbench jobs")
    notebook.run(1, 2)
    training.let_on()
    expect(notebook.output(2)).to_contain_text("epoch 0")
    notebook.run(3)
    expect(notebook.prompt(3)).to_have_text("[*]:")
    expect(notebook.stop_button(2)).to_be_visible()
    expect(notebook.output(2)).to_contain_text(re.compile(r"cell 2 · worker \d+ · running \d+ s"))
    picture("job-line", notebook)
    notebook.stop_button(2).click()
    expect(notebook.output(2)).to_contain_text("cell 2 · stopped after")
    expect(notebook.stop_button(2)).to_have_count(0)
    expect(notebook.prompt(3)).to_have_text("[*]:")
    reading.let_on()
    expect(notebook.output(3)).to_have_text("read")
    notebook.run(4)
    expect(notebook.output(4)).to_contain_text(re.compile(r"cell 2\s*stopped"))


def test_the_line_of_a_cell_that_is_done_is_quiet_and_saved(
    lab: Lab, gate: Gates, picture: Picture
) -> None:
    training = gate("training")
    notebook = lab.open("quiet", "%load_ext workbench", TRAINS)
    notebook.run(1, 2)
    expect(notebook.stop_button(2)).to_be_visible()
    for epoch in range(3):
        training.let_on()
        expect(notebook.output(2)).to_contain_text(f"epoch {epoch}")
    expect(notebook.output(2)).to_contain_text(re.compile(r"cell 2 · done in .* loss"))
    expect(notebook.stop_button(2)).to_have_count(0)
    picture("job-line-done", notebook)
    bundles = [output.data for output in notebook.save().cells[1].outputs if "data" in output]
    assert [sorted(bundle) for bundle in bundles] == [["text/html", "text/plain"]]
    notebook.page.reload()
    notebook.ready()
    expect(notebook.output(2)).to_contain_text("cell 2 · done in")
    expect(notebook.output(2)).not_to_contain_text("Error displaying widget")


RUNNING = re.compile(r"● ?cell 2 · worker \d+ · running \d+ s")
DONE = re.compile(r"✓ ?cell 2 · done in .* loss")


@pytest.mark.parametrize("saved", [True, False])
def test_a_page_that_is_loaded_again_goes_on_with_the_line_and_the_prints(
    lab: Lab, gate: Gates, saved: bool
) -> None:
    """A page finds out by itself that it isn't sent the output: no saved line is renewed here."""
    training = gate("training")
    never = "%load_ext workbench\nfrom workbench.ipython import joblines\njoblines.RENEWAL = 1e9"
    notebook = lab.open("loaded", never, TRAINS)
    notebook.run(1, 2)
    training.let_on()
    expect(notebook.output(2)).to_contain_text("epoch 0")
    expect(notebook.stop_button(2)).to_be_visible()
    if saved:
        notebook.save()
    notebook.reload()
    expect(notebook.cell(2)).to_contain_text(RUNNING)
    expect(notebook.cell(2).get_by_role("button", name="Stop")).to_be_visible()
    for epoch in (1, 2):
        training.let_on()
        expect(notebook.cell(2)).to_contain_text(f"epoch {epoch} loss {0.5**epoch}")
    expect(notebook.cell(2)).to_contain_text(DONE)
    expect(notebook.cell(2).get_by_role("button", name="Stop")).to_have_count(0)
    assert str(notebook.cell(2).text_content()).count("epoch 0 loss 1.0") == 1
    notebook.reload()  # once more, when all is over
    expect(notebook.cell(2)).to_contain_text(DONE)
    expect(notebook.cell(2)).to_contain_text("epoch 2")


def test_a_notebook_that_was_closed_shows_how_its_cell_went(lab: Lab, gate: Gates) -> None:
    training = gate("training")
    notebook = lab.open("closed", "%load_ext workbench", TRAINS)
    notebook.run(1, 2)
    for epoch in (0, 1):
        training.let_on()
        expect(notebook.output(2)).to_contain_text(f"epoch {epoch}")
    expect(notebook.stop_button(2)).to_be_visible()
    saved = notebook.save().cells[1].outputs[0].data["text/plain"]
    assert re.fullmatch(r"cell 2 · .* \(as of \d\d:\d\d, \d+ \w+\)", saved), "true at any time"
    notebook.page.close()
    training.let_on()
    again = lab.reopen("closed")
    expect(again.output(2)).to_contain_text(DONE)
    expect(again.output(2)).to_contain_text("epoch 2")


def test_two_windows_show_the_same_cell_and_either_stops_it(lab: Lab, gate: Gates) -> None:
    training = gate("training")
    first = lab.open("two", "%load_ext workbench", TRAINS)
    first.run(1, 2)
    training.let_on()
    expect(first.output(2)).to_contain_text("epoch 0")
    expect(first.stop_button(2)).to_be_visible()
    first.save()
    second = lab.reopen("two")
    expect(second.output(2)).to_contain_text(RUNNING)
    training.let_on()
    for notebook in (first, second):
        expect(notebook.output(2)).to_contain_text("epoch 1")
        assert str(notebook.output(2).text_content()).count("epoch 1") == 1
    second.stop_button(2).click()
    for notebook in (first, second):
        expect(notebook.output(2)).to_contain_text("cell 2 · stopped after")
        expect(notebook.stop_button(2)).to_have_count(0)


BAR = """\
%%remote
import training
from tqdm.notebook import tqdm

for epoch in tqdm(range(3)):
    loss = training.step(epoch)"""
"""A background cell whose bar is a widget."""


def test_a_bar_is_there_again_when_the_page_is(lab: Lab, gate: Gates) -> None:
    training = gate("training")
    notebook = lab.open("bar", "%load_ext workbench", BAR)
    notebook.run(1, 2)
    training.let_on()
    expect(notebook.stop_button(2)).to_be_visible()
    expect(notebook.output(2)).to_contain_text("0/3")
    notebook.save()
    notebook.reload()
    expect(notebook.output(2)).to_contain_text("/3")
    training.let_on()
    expect(notebook.output(2)).to_contain_text("2/3")
    training.let_on()
    expect(notebook.output(2)).to_contain_text("3/3")
    expect(notebook.output(2)).to_contain_text(DONE)
    expect(notebook.output(2)).not_to_contain_text("Error displaying widget")


def test_lines_of_a_kernel_that_is_gone_come_to_their_end(lab: Lab, gate: Gates) -> None:
    training = gate("training")
    notebook = lab.open("gone", "%load_ext workbench", TRAINS, "%load_ext workbench")
    notebook.run(1, 2)
    for epoch in (0, 1):
        training.let_on()
        expect(notebook.output(2)).to_contain_text(f"epoch {epoch}")
    expect(notebook.stop_button(2)).to_be_visible()
    notebook.restart()
    notebook.run(3)
    went_on = "The kernel ended; the cell went on. %workbench jobs cell 2 shows it."
    expect(notebook.output(2)).to_contain_text(went_on)
    expect(notebook.stop_button(2)).to_have_count(0)
    training.let_on()
    expect(notebook.output(2)).to_contain_text(DONE)
    expect(notebook.output(2)).to_contain_text("%workbench jobs cell 2 shows all of it.")
    expect(notebook.output(2).locator("code:visible")).to_have_text("%workbench jobs cell 2")


def test_an_interrupt_cancels_what_its_cell_waits_for(
    lab: Lab, gate: Gates, picture: Picture
) -> None:
    training = gate("training")
    waits = TRAINS.replace("%%remote", "%%remote --wait")
    notebook = lab.open(
        "interrupted", "%load_ext workbench", waits, "%workbench jobs", "%%remote --wait\n6 * 7"
    )
    notebook.run(1, 2)
    training.let_on()
    expect(notebook.output(2)).to_contain_text("epoch 0")
    notebook.interrupt()
    expect(notebook.error(2)).to_contain_text("KeyboardInterrupt")
    expect(notebook.prompt(2)).to_have_text("[2]:")
    notebook.run(3)
    expect(notebook.output(3)).to_contain_text(re.compile(r"cell 2\s*stopped"))
    notebook.run(4)
    expect(notebook.output(4)).to_contain_text("42")
    picture("interrupted", notebook)


EACH = """\
%%remote --map path=files
import reading

print("reading", path)
if path == "west.csv":
    reading.step()
size = len(path)"""
"""A cell that runs once for each of `files`; the last run stops at the gate."""


def test_a_cell_that_runs_once_per_item_has_one_line(
    lab: Lab, gate: Gates, picture: Picture
) -> None:
    reading = gate("reading")
    files = 'files = ["north.csv", "south.csv", "east.csv", "west.csv"]'
    notebook = lab.open("items", "%load_ext workbench", files, EACH, "%get size\nsize")
    notebook.run(1, 2, 3)
    expect(notebook.output(3)).to_contain_text("3 of 4")
    expect(notebook.output(3)).to_contain_text("[3] reading west.csv")
    expect(notebook.stop_button(3)).to_be_visible()
    picture("once-per-item", notebook)
    reading.let_on()
    expect(notebook.output(3)).to_contain_text("cell 3 · done in")
    notebook.run(4)
    expect(notebook.output(4)).to_contain_text("[9, 9, 8, 8]")


def test_a_ref_shows_what_it_is(lab: Lab, picture: Picture) -> None:
    table = "import numpy as np, pandas as pd\n"
    table += 'table = pd.DataFrame({"x": np.arange(100_000), "y": np.linspace(0, 1, 100_000)})'
    notebook = lab.open("shows", "%load_ext workbench", table, "ref = %put table\nref")
    notebook.run(1, 2, 3)
    expect(notebook.output(3)).to_contain_text("DataFrame")
    expect(notebook.output(3)).to_contain_text("99995 more rows")
    picture("a-ref", notebook)
