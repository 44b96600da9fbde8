"""What a person does, from the first cell to the last, in `make test`. The other files are more of
it, and rarer."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.gates import READS, TRAINS, Gates
from tests.browser.lab import Lab, Picture
from tests.browser.views import DASHBOARD, PUTS, START, View, violations


def test_a_background_cell_is_followed_over_a_reload_and_stopped_while_another_cell_is_busy(
    lab: Lab, gate: Gates, picture: Picture
) -> None:
    training, reading = gate("training"), gate("reading")
    notebook = lab.open("stops", "%load_ext workbench", TRAINS, READS, "%workbench jobs")
    notebook.run(1, 2)
    expect(notebook.output(1)).to_contain_text("Workbench started session stops-")
    expect(notebook.prompt(2)).to_have_text("[2]:")
    notebook.run(3)
    training.open()
    expect(notebook.output(2)).to_contain_text("epoch 0 loss 1.0")
    expect(notebook.output(2)).to_contain_text(re.compile(r"cell 2 · worker \d+ · running \d+ s"))
    expect(notebook.stop_button(2)).to_be_visible()
    expect(notebook.prompt(3)).to_have_text("[*]:")
    picture("job-line", notebook)
    reading.open()
    expect(notebook.output(3)).to_have_text("read")
    notebook.save()
    notebook.reload()
    training.open()
    expect(notebook.cell(2)).to_contain_text("epoch 1 loss 0.5")
    assert str(notebook.cell(2).text_content()).count("epoch 0 loss 1.0") == 1
    notebook.run(3)
    expect(notebook.prompt(3)).to_have_text("[*]:")
    notebook.stop_button(2).click()
    expect(notebook.cell(2)).to_contain_text("cell 2 · stopped after")
    expect(notebook.stop_button(2)).to_have_count(0)
    expect(notebook.prompt(3)).to_have_text("[*]:")
    reading.open()
    notebook.run(4)
    expect(notebook.output(4)).to_contain_text(re.compile(r"cell 2\s*stopped"))


def test_the_dashboard_shows_and_does(lab: Lab, gate: Gates, picture: Picture) -> None:
    training, reading = gate("training"), gate("reading")
    busy = f"inside = wb.put(np.ones(100_000))\n{READS}"
    notebook = lab.open("lives", START, DASHBOARD, PUTS)
    notebook.run(1, 2)
    view = View(notebook.output(2))
    expect(view.status).to_have_text("live")
    notebook.run(3)
    expect(view.row("train")).to_be_visible()
    expect(view.row("shown, parts[0]")).to_contain_text("arrays")
    view.map.focus()
    notebook.page.keyboard.press("Home")  # its first extent
    expect(view.said).to_contain_text("train, ndarray float64 (1000, 1000), 8 MB")
    notebook.page.keyboard.press("Enter")
    expect(view.reasons).to_contain_text("named train")
    expect(view.row("train")).to_have_attribute("aria-selected", "true")
    picture("dashboard", notebook)
    notebook.write(4, TRAINS)
    notebook.run(4)
    training.open()
    expect(notebook.output(4)).to_contain_text("epoch 0")
    notebook.write(5, busy)
    notebook.run(5)
    expect(notebook.prompt(5)).to_have_text("[*]:")
    expect(view.row("inside")).to_be_visible()  # put in the cell that runs
    view.row("train").click()
    view.button("Pin").click()
    expect(view.reasons).to_contain_text("pinned at")
    jobs = view.pane("Jobs")
    expect(jobs).to_contain_text(re.compile(r"cell 4\s*running\W*worker \d"))
    jobs.get_by_role("button", name="Stop cell 4").click()
    expect(jobs).to_contain_text("stopped")
    expect(notebook.output(4)).to_contain_text("cell 4 · stopped after")
    expect(notebook.prompt(5)).to_have_text("[*]:")
    reading.open()
    expect(notebook.output(5)).to_have_text("read")
    view.pane("Pins")
    view.button("Free").click()
    view.button("Free anyway").click()
    expect(view.note).to_have_text("Freed.")
    notebook.write(6, "del labels")
    notebook.run(6)
    expect(view.row("labels")).to_have_count(0)
    expect(view.row("parts[1]")).to_be_visible()
    assert violations(notebook.page) == []
