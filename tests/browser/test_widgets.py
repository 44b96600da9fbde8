"""Controls that remote cells make, used as a person does."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.lab import Lab

INTERACTS = """\
%%remote --actor desk
import matplotlib.pyplot as plt
from ipywidgets import Button, interact

@interact(x=(0, 10))
def square(x=3):
    print("the square of", x, "is", x * x)
    plt.figure(figsize=(3, 1))
    plt.plot([0, x], [0, x * x])

button = Button(description="press me")
button.on_click(lambda button: print("pressed"))
display(button)"""

CAPTURES = """\
import ipywidgets
box = ipywidgets.Output(layout={"border": "3px solid"})
display(box)
with box:
    get_ipython().run_cell_magic("remote", "--wait", "print('inside')")
print("outside")"""


def test_interact_and_buttons_work_in_a_namespace(lab: Lab) -> None:
    notebook = lab.open("interacts", "%load_ext workbench", INTERACTS, "6 * 7")
    notebook.run(1, 2, 3)
    shown = notebook.output(2)
    expect(shown).to_contain_text("the square of 3 is 9")
    handle = shown.get_by_role("slider")
    for x in (4, 5):
        handle.press("ArrowRight")
        expect(shown).to_contain_text(f"the square of {x} is {x * x}")
        expect(shown).not_to_contain_text("the square of 3")
        expect(shown.locator("img")).to_have_count(1)
        expect(shown.locator(".widget-output img")).to_have_count(1)
    expect(handle).to_be_visible()
    shown.get_by_role("button", name="press me").click()
    expect(shown).to_contain_text("pressed")
    expect(shown).to_contain_text("the square of 5 is 25")
    expect(notebook.output(3)).to_have_text("[3]:42")


def test_an_output_widget_takes_what_a_remote_cell_prints(lab: Lab) -> None:
    notebook = lab.open("captures", "%load_ext workbench", CAPTURES)
    notebook.run(1, 2)
    expect(notebook.output(2)).to_contain_text("outside")
    expect(notebook.output(2).locator(".widget-output")).to_contain_text("inside")
    expect(notebook.output(2).locator(".widget-output")).not_to_contain_text("outside")
