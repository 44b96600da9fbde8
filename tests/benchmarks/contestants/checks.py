"""Whether stored variables have changed: the check of ten small ones, and that of 1 GB."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import limits
import numpy as np
import pandas as pd
import tasks
from pools import Effort, Sample, times

import workbench
from workbench import api
from workbench.ipython.bindings import Bindings
from workbench.ipython.freshness import Freshness

ELEMENTS = 1000 * tasks.MB // 8


class Model:
    """An instance, as notebooks have them."""

    def __init__(self) -> None:
        self.name, self.weights, self.options = "model", np.ones(10), {"depth": 3}


def small() -> dict[str, Any]:
    """Ten variables of the kinds that a cell reads."""
    frame = pd.DataFrame({"a": np.arange(1000), "b": np.ones(1000), "c": ["text"] * 1000})
    return {
        "frame": frame, "series": frame.b.copy(), "array": np.ones(1000), "numbers": [*range(100)],
        "settings": {"depth": 3, "names": ["a", "b"]}, "seen": {*"abc"}, "model": Model(),
        "path": "a/path", "shape": (3, 4), "rate": 0.1,
    }  # fmt: skip


def measure(rows: Collection[str], effort: Effort) -> Sample:
    """The large one beside copying as much by all cores, which reads and writes what it reads."""
    ten, large = small(), {"array": np.ones(ELEMENTS // effort.divisor)}
    workbench.init(workers=1, memory="3GB")
    try:
        ten_stored, large_stored = _stored(ten), _stored(large)
        sample = times(effort, 20, check_ten=lambda: _check(ten_stored, ten))
        with limits.memcpy_by_all_cores(large["array"]) as copy:
            check = partial(_check, large_stored, large)
            return sample | times(effort, 5, check_1GB=check, memcpy_1GB=copy)
    finally:
        workbench.shutdown()


def _stored(variables: dict[str, Any]) -> Bindings:
    bindings = Bindings()
    for name, value in variables.items():
        ref, about = api.engine().put(value, name)
        bindings.note(name, value, ref, "%put", name, about).check.budget = 10.0  # however busy
    return bindings


def _check(bindings: Bindings, variables: dict[str, Any]) -> None:
    found = Freshness(bindings, api.engine())
    for name, value in variables.items():
        found.ref(name, value)
    if found.notes or any(map(found.preview_advice, variables)):
        raise RuntimeError("something is said to have changed")
