"""Workbench in a real kernel: what a cell on a worker costs there, and what a flood of prints does.

Both figures are pairs, taken alternately: a shared machine is faster in one minute than the next.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Collection
from functools import partial

from pools import WORKERS, Effort, Sample, times

from contestants import CELLS
from tests.kernel.conftest import Kernel

HERE, THERE = "1 + 1", "%%remote -w\n1 + 1"

LINES = 100_000
"""What the worker prints each second, if it can."""


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
    here, there = partial(kernel.ok, HERE), partial(kernel.ok, THERE)
    seconds = times(Effort(2 * effort.seconds), 20, here=here, there=there)
    return {"cell_over": seconds["there"] - seconds["here"], "cell_here": seconds["here"]}


def _flood(kernel: Kernel, effort: Effort) -> Sample:
    kernel.ok(f"SECONDS, LINES = {2 * effort.seconds}, {LINES}\n{CELLS['flood']}")
    for _ in range(3):
        kernel.ok(CELLS["flood and silence"])
    speeds = {name: kernel.value(f"speeds[{name == 'loud'}]") for name in ("loud", "silent")}
    return {f"speed_{name}": statistics.median(json.loads(s)) for name, s in speeds.items()}
