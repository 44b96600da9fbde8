"""A live view as a person has it before them: rows, buttons, the map by its keys. No assertions."""

from __future__ import annotations

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page

START = "%load_ext workbench\nimport numpy as np, workbench as wb"

PUTS = """\
x = wb.put(np.arange(1_000_000.0).reshape(1000, 1000), name="train")
parts = [wb.put(np.random.default_rng(n).random(200_000)) for n in range(6)]
labels = wb.put(["cat", "dog"] * 5000)
shown = wb.get(parts[0])"""

DASHBOARD = "%workbench dashboard"


def violations(page: Page) -> list[str]:
    """What axe-core finds wrong with the views in the page."""
    found = Axe().run(page, context=".wb").response["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


class View:
    """One view in a page: in a cell's ``output``, or another place that shows one."""

    def __init__(self, output: Locator) -> None:
        self.root = output.get_by_role("region", name="Workbench")
        self.status = self.root.locator(".wb-status")
        self.map = self.root.get_by_role("application", name=re.compile("Map"))
        self.said = self.root.locator("[aria-live=polite]")

    def pane(self, name: str) -> Locator:
        """Occupancy, Pins, Costs or Jobs; brought to the front, if it is behind a tab."""
        tab = self.root.get_by_role("tab", name=name)
        if tab.is_visible():
            tab.click()
        return self.root.locator(f".wb-{name.lower()}")

    def row(self, object: str) -> Locator:
        """The object of that name, or held by it, among the pins."""
        name = self.root.page.get_by_role("gridcell", name=object, exact=True)
        return self.root.locator(".wb-pins .wb-row").filter(has=name)

    def button(self, name: str) -> Locator:
        """One by its words."""
        return self.root.get_by_role("button", name=name, exact=True)

    @property
    def reasons(self) -> Locator:
        """Why the selected object is here."""
        return self.root.locator(".wb-reasons")

    @property
    def note(self) -> Locator:
        """What came of the last button."""
        return self.root.locator(".wb-details .wb-note").filter(visible=True)
