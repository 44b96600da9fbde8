"""A notebook as a person has it before them: cells, keys, buttons, what is shown. No assertions.

What a cell shows comes when it comes, so most of it is given as Playwright's locators, for
``expect(...)``, which waits. Cells are counted from 1, so that the n-th has the number n if all
are run in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import (
    BrowserContext,
    FloatRect,
    Locator,
    Page,
    Response,
    ViewportSize,
    expect,
)

from tests import notebooks
from tests.browser.server import Server
from tests.patience import TIMEOUT

SIZE = ViewportSize(width=1066, height=1600)
"""Pixels of a window. It is so wide that a notebook, and so a picture, has 1000 of them."""

LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"


class Notebook:
    """A notebook in a window of its own; ``page`` is for what has no method here."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.path = path
        self._panel = page.locator(".jp-NotebookPanel")
        self._cells = self._panel.locator(".jp-Notebook .jp-CodeCell")

    def run(self, *numbers: int) -> None:
        """Click into each of these cells, and press Shift-Enter."""
        self.page.bring_to_front()
        for number in numbers:
            self.cell(number).locator(".cm-content").click()
            self.page.keyboard.press("Shift+Enter")

    def write(self, number: int, source: str) -> None:
        """Replace what stands in a cell."""
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(source)

    def restart(self) -> None:
        """Restart the kernel, by keys outside of an editor; say yes to the question whether."""
        for key in ("Escape", "0", "0"):
            self.page.keyboard.press(key)
        with self.page.expect_response(_is_for("/restart")):
            self.page.locator(".jp-Dialog .jp-mod-accept").click()

    def reload(self) -> None:
        """Load the page again, and say yes to the question whether to lose what isn't saved."""
        self.page.once("dialog", lambda dialog: dialog.accept())
        self.page.reload()
        self.ready()

    def save(self) -> notebooks.Node:
        """Save, and read the file."""
        with self.page.expect_response(_is_for(f"/api/contents/{self.path.name}", "PUT")):
            self.page.keyboard.press("Control+s")
        return notebooks.read(self.path)

    def cell(self, number: int) -> Locator:
        """The cell as a whole."""
        return self._cells.nth(number - 1)

    def prompt(self, number: int) -> Locator:
        """``[3]:`` beside a cell; ``[*]:`` while it runs."""
        return self.cell(number).locator(".jp-InputPrompt")

    def output(self, number: int) -> Locator:
        """All that is shown under a cell."""
        return self.cell(number).locator(".jp-Cell-outputArea")

    def error(self, number: int) -> Locator:
        """A traceback under a cell."""
        return self.output(number).locator("[data-mime-type='application/vnd.jupyter.stderr']")

    def stop_button(self, number: int) -> Locator:
        """What ends the background cell."""
        return self.cell(number).get_by_role("button", name="Stop")

    def picture(self) -> bytes:
        """The notebook down to its last cell that isn't empty, as PNG."""
        top, bottom = self._panel.bounding_box(), self._last().bounding_box()
        assert top is not None
        assert bottom is not None
        height = bottom["y"] + bottom["height"] - top["y"]
        clip = FloatRect(x=top["x"], y=top["y"], width=top["width"], height=height)
        return self.page.screenshot(clip=clip, animations="disabled", caret="hide")

    def _last(self) -> Locator:
        """JupyterLab adds an empty cell when the last one is run."""
        return self._cells.filter(has=self.page.locator(".cm-line", has_text=re.compile("."))).last

    def ready(self, timeout: float = TIMEOUT) -> None:
        """Wait until the notebook is there, and its kernel."""
        # The indicator in the notebook's toolbar is no help: it begins with "idle".
        status = self.page.locator("#jp-main-statusbar")
        expect(status).to_contain_text("(ipykernel) | Idle", timeout=1000 * timeout)


Picture = Callable[[str, Notebook], None]
"""The fixture ``picture``: takes one of a notebook, for a file of that name."""


EMPTIED = """() => {
    const { shell } = window.jupyterapp;
    for (const widget of [...shell.widgets("main")]) {
        if (widget.context) widget.context.model.dirty = false;  // else it asks
        widget.close();
    }
    return !document.querySelector(".jp-Dialog");
}"""

OPENS = """async ([path, theme]) => {
    const { commands } = window.jupyterapp;
    if (document.body.dataset.jpThemeName !== theme)
        await commands.execute("apputils:change-theme", { theme });
    await commands.execute("docmanager:open", { path, factory: "Notebook" });
}"""


class Lab:
    """JupyterLab in a browser.

    To load it takes a processor four seconds, so a window is used again: see `close`.
    """

    def __init__(self, server: Server, windows: BrowserContext) -> None:
        self._server = server
        self._windows = windows
        self._empty: Page | None = None

    @property
    def root(self) -> Path:
        """Where the notebooks are; kernels and workers import from there."""
        return self._server.root

    def open(self, name: str, *cells: str, theme: str = LIGHT) -> Notebook:
        """Open a notebook of these cells, of which none has been run."""
        notebooks.write(self.root / f"{name}.ipynb", cells)
        self._server.set("apputils-extension/themes", theme=theme)
        page, self._empty = self._empty, None
        if page is None:
            return self.reopen(name)
        page.evaluate(OPENS, [f"{name}.ipynb", theme])
        expect(page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
        try:
            return self._ready(name, page, TIMEOUT / 4)
        except AssertionError:  # JupyterLab's window has missed that its last kernel went
            page.close()
            return self.reopen(name)

    def reopen(self, name: str) -> Notebook:
        """Open a notebook that is there. What its cells show is from another kernel."""
        page = self._windows.new_page()
        page.goto(self._server.address(f"{name}.ipynb"))
        return self._ready(name, page)

    def _ready(self, name: str, page: Page, timeout: float = TIMEOUT) -> Notebook:
        notebook = Notebook(page, self.root / f"{name}.ipynb")
        notebook.ready(timeout)
        return notebook

    def close(self, keep: bool = False) -> None:
        """Close all windows, and end what ran for them.

        If ``keep``, one window stays, without its notebook, for the next to be opened.
        """
        first, *others = self._windows.pages or [None]
        for page in others:
            page.close()
        if first is not None and not (keep and self._empties(first)):
            first.close()
            first = None
        self._empty = first
        self._server.end_sessions()

    def _empties(self, page: Page) -> bool:
        page.set_viewport_size(SIZE)
        if not page.evaluate(EMPTIED):
            return False
        expect(page.locator(".jp-NotebookPanel")).to_have_count(0)
        expect(page.locator("#jp-main-statusbar")).not_to_contain_text("(ipykernel)")
        return True


def _is_for(ending: str, method: str = "POST") -> Callable[[Response], bool]:
    def matches(response: Response) -> bool:
        path = response.url.partition("?")[0]
        return path.endswith(ending) and response.request.method == method

    return matches
