"""What the survey of a process's memory finds, beside what the allocators say they gave."""

from __future__ import annotations

import gc

import numpy as np
import pandas as pd  # noqa: F401 - in `VALUES`
import pytest

from workbench.heap.process import ProcessMemory
from workbench.heap.survey import HeapRoot, survey

FOREST = "__import__('sklearn.ensemble').ensemble.RandomForestRegressor(10, random_state=0)"

VALUES = [
    "[type('Point', (), {})() for n in range(9)] + [pd.Timestamp(n) for n in range(50_000)]",
    "{k: {n: [n, str(n)] for n in range(1000)} for k in range(40)}",
    "['x' * 5_000_000 if n == 777 else f'y{n}' for n in range(50_000)]",
    "['a' * 1000, 'b' * 1000] * 500_000",
    "[np.ones(1000) for _ in range(2000)], np.ones((1000, 1000))[::2, ::2]",
    "pd.DataFrame({'s': [f'text {n}' for n in range(200_000)]}, dtype=object)",
    "(lambda t: (t, t.loc[7]))(pd.Series(1, np.random.permutation(500_000)))",
    f"{FOREST}.fit(np.sin(range(5000)).reshape(-1, 1), np.cos(range(5000)))",
]


@pytest.mark.parametrize("made", VALUES)
def test_sizes_are_what_the_allocators_gave(made: str) -> None:
    def size() -> int:
        gc.collect()
        memory = ProcessMemory()
        return memory.python[0] + memory.malloc[0]

    eval(made)  # imports, and fills caches
    before = size()
    value = eval(made)
    (holder,) = survey([HeapRoot("variable", "value", value)]).holders
    assert holder.nbytes == pytest.approx(size() - before, rel=0.15)


def test_shared_parts_count_once_and_few_objects_are_looked_at() -> None:
    array = np.ones(1_000_000)
    several = {"value": array, "view": array[5:], "in": [array], "same": array}
    several["long"] = [[n] for n in range(10**6)]  # type: ignore[assignment]
    roots = [HeapRoot("variable", name, value) for name, value in several.items()]
    found = {each.name: each for each in survey(roots[:4]).holders}
    assert [root.name for root in found["value"].roots] == ["value", "same"]
    assert sum(each.nbytes for each in found.values()) == pytest.approx(8_000_000, rel=0.01)
    assert {found[name].shares["value"] // 10**6 for name in ("view", "in")} == {8}
    assert survey(roots).looked_at < 10_000
    assert not survey(roots, most=10).is_complete
