"""Workbench in a real kernel: what a cell on a worker costs there, and what a flood of prints does.

Both figures are pairs, taken alternately: a shared machine is faster in one minute than the next.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection
from typing import Any

from jupyter_client.manager import start_new_kernel
from pools import WORKERS, Effort, Sample

HERE, THERE = "1 + 1", "%%remote -w\n1 + 1"

LINES = 100_000
"""What the worker prints each second, if it can."""

FLOOD = f"""
def printing(seconds, loud):
    import time
    began, count = time.perf_counter(), 0
    while (now := time.perf_counter() - began) < seconds:
        while count < now * {LINES}:
            count += 1
            if loud:
                print("step", count, "of a loop that tells what it does")
    return count / seconds

def speed(seconds):
    import time
    end, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        for _ in range(1000):
            count += 1
    return count / seconds

remote_printing = workbench.remote(printing)
speeds = {{True: [], False: []}}
"""

PAIR = """
for loud in (True, False):
    ref = remote_printing.remote({seconds} + 0.5, loud)
    speed(0.25)
    speeds[loud].append(speed({seconds}))
    printed = workbench.get(ref)
    if loud and printed < {lines} / 2:
        raise RuntimeError(f"the worker printed only {{printed:.0f}} lines a second")
"""


class Kernel:
    """A kernel and its client, which takes what the kernel shows, as a front end would."""

    def __init__(self) -> None:
        self._manager, self._client = start_new_kernel()

    def run(self, code: str) -> float:
        """Seconds until a cell is over; RuntimeError if it fails."""
        began = time.perf_counter()
        reply = self._client.execute_interactive(code, timeout=120, output_hook=lambda _: None)
        seconds = time.perf_counter() - began
        if reply["content"]["status"] != "ok":
            raise RuntimeError(f"{code}: {reply['content']}")
        return seconds

    def value(self, expression: str) -> Any:
        """Of a literal's kind."""
        reply = self._client.execute_interactive(
            "", user_expressions={"value": expression}, output_hook=lambda _: None
        )
        shown = reply["content"]["user_expressions"]["value"]
        return eval(shown["data"]["text/plain"])

    def close(self) -> None:
        """End both."""
        self._client.stop_channels()
        self._manager.shutdown_kernel()


def measure(rows: Collection[str], effort: Effort) -> Sample:
    measures: dict[str, Callable[[Kernel, Effort], Sample]] = {"cell": _cell, "flood": _flood}
    kernel = Kernel()
    try:
        kernel.run(f"import workbench\n%load_ext workbench\n%env WORKBENCH_WORKERS={WORKERS}")
        kernel.run(THERE)
        return {n: v for row in rows for n, v in measures[row](kernel, effort).items()}
    finally:
        kernel.close()


def _cell(kernel: Kernel, effort: Effort) -> Sample:
    for _ in range(20):
        kernel.run(THERE)
    count = max(int(200 * effort.seconds), 20)
    pairs = [(kernel.run(HERE), kernel.run(THERE)) for _ in range(count)]
    return {
        "cell_over": statistics.median(there - here for here, there in pairs),
        "cell_here": statistics.median(here for here, _ in pairs),
    }


def _flood(kernel: Kernel, effort: Effort) -> Sample:
    kernel.run(FLOOD)
    for _ in range(3):
        kernel.run(PAIR.format(seconds=2 * effort.seconds, lines=LINES))
    loud, silent = kernel.value("speeds[True]"), kernel.value("speeds[False]")
    return {"speed_loud": statistics.median(loud), "speed_silent": statistics.median(silent)}
