"""Workbench in a real kernel: what a cell on a worker costs there, and what a flood of prints does.

Both figures are pairs, taken alternately: a shared machine is faster in one minute than the next.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Collection

from pools import WORKERS, Effort, Sample, times

from tests.kernel.conftest import Kernel

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


def measure(rows: Collection[str], effort: Effort) -> Sample:
    measures = {"cell": _cell, "flood": _flood}
    kernel = Kernel({"WORKBENCH_WORKERS": str(WORKERS)})
    try:
        kernel.ok("import workbench\n%load_ext workbench")
        kernel.ok(THERE)
        return {n: v for row in rows for n, v in measures[row](kernel, effort).items()}
    finally:
        kernel.stop()


def _cell(kernel: Kernel, effort: Effort) -> Sample:
    for _ in range(20):
        kernel.ok(THERE)
    here, there = times(
        Effort(2 * effort.seconds), lambda: kernel.ok(HERE), lambda: kernel.ok(THERE), least=20
    )
    return {"cell_over": there - here, "cell_here": here}


def _flood(kernel: Kernel, effort: Effort) -> Sample:
    kernel.ok(FLOOD)
    for _ in range(3):
        kernel.ok(PAIR.format(seconds=2 * effort.seconds, lines=LINES))
    speeds = {name: kernel.value(f"speeds[{name == 'loud'}]") for name in ("loud", "silent")}
    return {f"speed_{name}": statistics.median(json.loads(s)) for name, s in speeds.items()}
