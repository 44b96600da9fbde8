"""The live views: what a person sees change, and what their buttons do; and without a kernel."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.browser.gates import TRAINS, Gates
from tests.browser.lab import DARK, Lab, Picture
from tests.browser.views import DASHBOARD, PUTS, START, View, violations
from tests.leaks import eventually
from tests.notebooks import Node, read
from tests.patience import TIMEOUT

pytestmark = pytest.mark.extended


def test_costs_and_what_is_put_again_and_again(lab: Lab, picture: Picture) -> None:
    puts = """\
words = wb.put({"words": [f"word {n}" for n in range(50_000)], "weights": np.ones(100_000)})
weights = np.ones(400_000)
copies = [wb.put(weights) for _ in range(3)]"""
    notebook = lab.open("costs", START, puts, "wb.widgets.Costs()")
    notebook.run(1, 2, 3)
    view = View(notebook.output(3))
    costs = view.pane("Costs")
    expect(costs.locator(".wb-row").filter(has_text="copies[2]")).to_contain_text("3 ×")
    costs.locator(".wb-row").filter(has_text="words").click()
    tree = costs.get_by_role("tree")
    expect(tree).to_contain_text("['words']")
    expect(tree).to_contain_text("['weights']")
    picture("costs", notebook)


def test_it_fits_into_little_room_and_themes_change_under_it(lab: Lab, picture: Picture) -> None:
    notebook = lab.open("dark", START, DASHBOARD, PUTS, "%workbench keep", theme=DARK)
    notebook.run(1, 2)
    view = View(notebook.output(2))
    expect(view.root).to_have_attribute("data-dark", "true")
    view.root.evaluate("e => { e.style.width = '240px'; }")
    expect(view.root.get_by_text("Nothing in shared memory yet.")).to_be_visible()
    height = "e => e.clientHeight"
    assert eventually(lambda: view.root.locator(".wb-map").evaluate(height) < 60, TIMEOUT)
    inside = "e => e.scrollWidth <= e.clientWidth"
    for part in (".wb-pins .wb-tools", ".wb-timeline figcaption"):
        assert view.root.locator(part).evaluate(inside), part
    notebook.run(3)
    expect(view.row("train")).to_be_visible()
    assert view.root.locator(".wb-map").evaluate(height) > 200
    view.root.evaluate("e => { e.style.width = ''; }")
    view.row("train").click()
    picture("dashboard-dark", notebook)
    assert violations(notebook.page) == []
    notebook.page.get_by_role("menuitem", name="Settings").click()
    items = notebook.page.locator(".lm-Menu-item")
    items.get_by_text("Theme", exact=True).click()
    items.get_by_text("JupyterLab Light", exact=True).click()
    expect(view.root).not_to_have_attribute("data-dark", "true")
    notebook.page.set_viewport_size({"width": 420, "height": 1600})
    view.pane("Pins")
    expect(view.row("train")).to_be_visible()
    fits = "e => e.scrollWidth <= e.clientWidth && e.clientWidth >= 250"
    assert view.root.evaluate(fits)
    tab = view.root.get_by_role("tab", name="History")
    expect(tab).to_be_hidden()
    notebook.run(4)
    expect(tab).to_be_visible()
    view.pane("History").get_by_role("option").click()
    assert view.root.evaluate(fits)
    assert violations(notebook.page) == []


def test_a_cell_is_looked_at_and_checked_out(lab: Lab, picture: Picture) -> None:
    notebook = lab.open(
        "history",
        *(
            START,
            "wb.widgets.History()",
            "%workbench keep",
            "data, labels = np.ones(10**6), ['cat']",
        ),
        *("%workbench branch trial", "data *= 2\ndel labels", "%checkout main"),
        *("total = data.sum()", "%workbench history"),
    )
    notebook.run(1, 2)
    view = View(notebook.output(2))
    expect(view.root).to_contain_text("Nothing is kept.")
    notebook.run(3, 4, 5, 6, 7, 8, 9)
    history = view.pane("History")
    cells = history.get_by_role("option")
    cells.filter(has_text="total").click()
    expect(history).to_contain_text("total = data.sum()")
    notebook.page.keyboard.press("ArrowDown")
    expect(history).to_contain_text("data *= 2")
    view.button("Check out").click()
    expect(history.get_by_role("status")).to_contain_text("The variables are as of cell [6]")
    expect(cells.filter(has_text="trial")).to_have_attribute("aria-current", "step")
    assert violations(notebook.page) == []
    notebook.output(9).get_by_text("Cell [6]").click()
    expect(notebook.output(9).get_by_text("data *= 2")).to_be_visible()
    picture("history", notebook)


def test_its_keys_are_its_own_it_comes_twice_and_stays_when_the_kernel_ends(lab: Lab) -> None:
    notebook = lab.open("keys", START, PUTS, DASHBOARD)
    notebook.run(1, 2, 3)
    view = View(notebook.output(3))
    view.row("train").click()
    cells = notebook.page.locator(".jp-Notebook .jp-Cell")
    before = cells.count()
    for key in ("ArrowDown", "a", "b", "d", "d", "x", "Home"):  # commands of the notebook's
        notebook.page.keyboard.press(key)
    expect(cells).to_have_count(before)
    expect(view.row("train")).to_be_focused()
    notebook.page.keyboard.press("Enter")
    expect(view.row("train")).to_have_attribute("aria-selected", "true")
    view.row("train").click(button="right")
    notebook.page.get_by_text("Create New View for Cell Output").click()
    other = View(notebook.page.locator(".jp-LinkedOutputView"))
    expect(other.row("train")).to_be_visible()
    other.row("parts[1]").click()
    expect(view.row("parts[1]")).to_have_attribute("aria-selected", "true")
    expect(view.button("Pin")).to_be_enabled()
    notebook.cell(1).locator(".cm-content").click()  # the view's keys are its own
    notebook.restart()
    for each in (view, other):
        expect(each.status).to_contain_text("the kernel has ended")
        expect(each.row("train")).to_be_visible()
        expect(each.button("Pin")).to_be_disabled()


def test_what_the_engine_cannot_has_no_button_and_why_stands_there(lab: Lab, gate: Gates) -> None:
    gate("training")
    cannot = (
        "from workbench import context\nfrom workbench.engine.base import Abilities\n"
        "context.get().can = Abilities(free='Nothing is freed.', spill='Nothing is moved.',\n"
        "    get='Nothing is read.', interrupt='Nothing is stopped.')\nwb.dashboard()"
    )
    notebook = lab.open("cannot", START, "data = wb.put(np.ones(9))", TRAINS, cannot)
    notebook.run(1, 2, 3, 4)
    view = View(notebook.output(4))
    view.row("data").click()
    expect(view.button("Pin")).to_be_enabled()
    for name in ("Free", "Spill"):
        expect(view.button(name)).to_be_hidden()
    why = view.root.locator(".wb-cant").filter(visible=True)
    expect(why).to_have_text("Nothing is freed. Nothing is moved.")
    view.pane("Costs")
    expect(why).to_have_text("Nothing is read.")
    expect(view.button("Explain")).to_be_hidden()
    jobs = view.pane("Jobs")
    expect(jobs).to_contain_text("cell 3")
    expect(why).to_have_text("Nothing is stopped.")
    expect(jobs.get_by_role("button", name="Stop cell 3")).to_be_hidden()


def test_ten_thousand_objects(lab: Lab) -> None:
    many = "many = [wb.put(n) for n in range(10_000)]"
    notebook = lab.open("many", START, DASHBOARD, many, "del many")
    notebook.run(1, 2, 3)
    view = View(notebook.output(2))
    expect(view.root).to_contain_text("10 000 objects")
    expect(view.pane("Pins")).to_contain_text("6 000 smaller")
    assert view.root.locator(".wb-pins .wb-row").count() < 100
    notebook.run(4)
    expect(view.root).to_contain_text("No objects")


def test_without_a_kernel_it_is_as_last_seen(lab: Lab) -> None:
    notebook = lab.open("still", START, PUTS, DASHBOARD)
    notebook.run(1, 3, 2)
    expect(View(notebook.output(3)).row("train")).to_be_visible()
    notebook.cell(1).locator(".cm-content").click()
    notebook.page.set_viewport_size({"width": 1066, "height": 200})  # nobody sees it now

    def kept() -> Node:
        notebook.page.keyboard.press("Control+s")
        try:
            saved = read(notebook.path)
        except json.JSONDecodeError:  # it is being written
            return Node()
        return saved.cells[2].outputs[0].data if saved.cells[2].outputs else Node()

    assert eventually(lambda: "train" in kept().get("text/plain", ""))
    lab.close()
    again = lab.reopen("still")
    expect(again.output(3)).to_contain_text("train")
    expect(again.output(3)).not_to_contain_text("Error displaying widget")
    expect(View(again.output(3)).root).to_have_count(0)
