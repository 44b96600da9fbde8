"""The live views in a real JupyterLab: what they cost the kernel, and the page.

The kernel's figures are taken with the dashboard shown, less those of the same kernel before.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import expect, sync_playwright
from pools import Effort, NotOffered, Sample

from contestants import CELLS
from tests.browser.conftest import CHROMIUMS
from tests.browser.lab import SIZE, Lab, Notebook
from tests.browser.server import serve

MANY = 100_000
RATE = 5_000

WATCH = Path(__file__).with_suffix(".js").read_text()


def measure(rows: Collection[str], effort: Effort) -> Sample:
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None:
        raise NotOffered
    sample: Sample = {}
    with serve() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        windows = browser.new_context(viewport=SIZE)
        windows.add_init_script(WATCH)
        lab = Lab(server, windows)
        try:
            sample |= _shares(lab, max(10 * effort.seconds, 2))
            lab.close()
            sample |= _many(lab)
        finally:
            lab.close()
            browser.close()
    return sample


def _shares(lab: Lab, seconds: float) -> Sample:
    given = f"SECONDS, RATE = {seconds}, {RATE}\n"
    shares = CELLS["shares"]
    notebook = lab.open("shares", given + CELLS["views"], shares, "wb.dashboard()", shares)
    (idle, busy), (idle_shown, busy_shown) = _last(notebook)
    return {
        "first_paint": notebook.page.evaluate("globalThis.paint") / 1000,
        "cpu_idle": max(idle_shown - idle, 0.0),
        "cpu_busy": max(busy_shown - busy, 0.0),
    }


def _many(lab: Lab) -> Sample:
    given = f"%env WORKBENCH_MEMORY=4GB\nMANY = {MANY}\n"
    cells = given + CELLS["views"], CELLS["fill"], "wb.dashboard()", CELLS["changes"]
    notebook = lab.open("many", *cells)
    kernel = _last(notebook)
    frames = sorted(notebook.page.evaluate("globalThis.frames"))
    return {
        "update_many": median(kernel["costs"]),
        "update_bytes": median(kernel["sizes"]),
        "frame_many": frames[int(len(frames) * 0.95)] / 1000,
    }


def _last(notebook: Notebook) -> Any:
    """What the fourth cell prints, which runs when the third one's view is there. Frames count
    from then on."""
    for number in range(1, 5):
        if number == 4:
            notebook.page.wait_for_function("globalThis.paint > 0")
            notebook.page.evaluate("globalThis.frames.length = 0")
        notebook.run(number)
        expect(notebook.prompt(number)).to_have_text(f"[{number}]:", timeout=120_000)
    return json.loads(notebook.output(4).inner_text())
