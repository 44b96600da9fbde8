"""What the survey of a process's memory finds, beside what the allocators say they gave."""

from __future__ import annotations

import gc

import numpy as np
import pandas as pd
import pytest

from workbench.heap.process import ProcessMemory
from workbench.heap.survey import HeapRoot, survey

VALUES = [
    "{k: {n: [n, str(n), pd.Timestamp(n)] for n in range(1000)} for k in range(40)}",
    "['x' * 5_000_000 if n == 777 else f'y{n}' for n in range(50_000)]",
    "['a' * 1000, 'b' * 1000] * 500_000, [np.ones(1000) for _ in range(2000)]",
    "np.ones((1000, 1000))[::2, ::2], pd.DataFrame({'s': map(str, range(10**5))}, dtype=object)",
    "(lambda t: (t, t.loc[7]))(pd.Series(1, np.random.permutation(500_000)))",
    "ensemble.RandomForestRegressor(10).fit(np.sin([[n] for n in range(5000)]), range(5000))",
]


@pytest.mark.parametrize("made", VALUES)
def test_sizes_are_what_the_allocators_gave(made: str) -> None:
    names = {"np": np, "pd": pd, "ensemble": pytest.importorskip("sklearn.ensemble")}
    sizes = []
    for _ in range(2):  # the first time imports, and fills caches
        value = None
        gc.collect()
        before = ProcessMemory()
        value = eval(made, names)
        (holder,) = survey([HeapRoot("variables", "value", value)]).holders
        now = ProcessMemory()
        sizes.append(now.python[0] + now.malloc[0] - before.python[0] - before.malloc[0])
    assert holder.nbytes == pytest.approx(sizes[1], rel=0.15)


def test_shared_parts_count_once_and_few_objects_are_looked_at() -> None:
    array = np.ones(1_000_000)
    several = {"value": array, "view": array[5:], "in": [array], "same": array}
    roots = [HeapRoot("variables", name, value) for name, value in several.items()]
    found = {each.name: each for each in survey(roots).holders}
    assert [root.name for root in found["value"].roots] == ["value", "same"]
    assert sum(each.nbytes for each in found.values()) == pytest.approx(8_000_000, rel=0.01)
    assert {found[name].shares["value"] // 10**6 for name in ("view", "in")} == {8}
    roots.append(HeapRoot("variables", "long", [[n] for n in range(10**6)]))
    assert survey(roots).looked_at < 10_000
    assert not survey(roots, most=10).is_complete
