"""The live views in a real JupyterLab: what they cost the kernel, and the page.

The kernel's figures are taken with the dashboard shown, less those of the same kernel before.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from statistics import median
from typing import Any

from playwright.sync_api import expect, sync_playwright
from pools import Effort, NotOffered, Sample

from tests.browser.conftest import CHROMIUMS
from tests.browser.lab import SIZE, Lab, Notebook
from tests.browser.server import serve

MANY = 100_000
RATE = 5_000

WATCH = """
    let asked = 0;
    globalThis.frames = [];
    globalThis.paint = 0;
    const soon = globalThis.requestAnimationFrame.bind(globalThis);
    globalThis.requestAnimationFrame = (draw) => soon((time) => {
        const began = performance.now();
        draw(time);
        document.body?.offsetHeight;  // and what it takes to lay out
        globalThis.frames.push(performance.now() - began);
    });
    addEventListener("keydown", (event) => {
        if (event.key === "Enter" && event.shiftKey) asked = performance.now();
    }, true);
    new MutationObserver(() => {
        if (globalThis.paint || !document.querySelector(".wb .wb-row")) return;
        soon(() => soon(() => { globalThis.paint ||= performance.now() - asked; }));
    }).observe(document, { childList: true, subtree: true });
"""
"""In the page: how long its frames take, and when the first view stands there."""

START = """\
%load_ext workbench
import json, time
from time import sleep as pause
import numpy as np
import workbench as wb
from workbench import context
from workbench.widgets.feed import Feed

def share(seconds):
    "Of a processor's time, this process's."
    began = time.process_time()
    pause(seconds)
    return (time.process_time() - began) / seconds

@wb.remote
def puts(seconds, rate):
    end, kept, count, began = time.time() + seconds, [], 0, time.time()
    while time.time() < end:
        while count < (time.time() - began) * rate:
            kept = [*kept[-500:], wb.put(count)]
            count += 1
        pause(0.005)
    return count / seconds

some = [wb.put(np.ones(20_000)) for _ in range(20)]"""

SHARES = """\
idle = share({seconds})
ref = puts.remote({seconds} + 1, {rate})
pause(0.5)
busy = share({seconds})
if wb.get(ref) < {rate} * 0.8: raise RuntimeError("the worker put too slowly")
shares = globals().get("shares", []) + [(idle, busy)]
print(json.dumps(shares))"""

FILL = f"""\
del some
many = [wb.put(np.ones(2_500)) for _ in range({MANY})]"""

CHANGES = """\
feed = context.companion(Feed)
ends, sizes, tell = [time.thread_time()], [], feed._broadcast

def timed(diff):
    tell(diff)
    ends.append(time.thread_time())
    sizes.append(len(json.dumps(diff)))

feed._broadcast = timed
for _ in range(8):
    many[:100] = [wb.put(np.ones(2_500)) for _ in range(100)]
    pause(1)
feed._broadcast = tell
costs = [after - before for before, after in zip(ends[1:], ends[2:])]
print(json.dumps({"costs": costs, "sizes": sizes}))"""


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
    shares = SHARES.format(seconds=seconds, rate=RATE)
    notebook = lab.open("shares", START, shares, "wb.dashboard()", shares)
    (idle, busy), (idle_shown, busy_shown) = _last(notebook)
    return {
        "first_paint": notebook.page.evaluate("globalThis.paint") / 1000,
        "cpu_idle": max(idle_shown - idle, 0.0),
        "cpu_busy": max(busy_shown - busy, 0.0),
    }


def _many(lab: Lab) -> Sample:
    room = "%env WORKBENCH_MEMORY=4GB\n"
    notebook = lab.open("many", room + START, FILL, "wb.dashboard()", CHANGES)
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
