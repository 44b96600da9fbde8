"""What each holder of a value frees, by counts of references. `why_exam` runs the remedies."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from workbench.client.value_holders import holders_of

MAIN = vars(sys.modules["__main__"])
MB = 1_000_000


@pytest.mark.parametrize(
    ("code", "asked", "frees", "together"),
    [
        ("x = value", "value", {"value": 0, "x": 0}, 8 * MB),
        ("x = value, np.ones(10**5)", "value", {"value": 0, "x": 0.8 * MB}, 8.8 * MB),
        ("x = value[3:]", "x", {"x": 0, "value": 0}, 8 * MB),
        ("x = value[3:]; value = 0", "x", {"x": 8 * MB}, 8 * MB),
        ("x = [np.zeros(10**9)]", "x", {"x": 0}, 0),  # no page was written
        ("x = [str(n) for n in range(120_000)]", "x", {"x": 7.6 * MB}, 7.6 * MB),
        ("x = {n: [[]] for n in range(20_000)}", "x", {"x": 3.55 * MB}, 3.55 * MB),
        ("value = [*map(str, range(10**5))]; x = np.array(value, 'O')[:]", "x", {"x": 8e5}, 8e5),
        ("import pandas; x = pandas.Series(['x'] * 10**6)", "x", {"x": 9 * MB}, 9 * MB),
        ("", "value + 1", {}, 8 * MB),
        ("", "7", {"int": 28}, 28),  # and no list of all libraries
        ("", "__import__('numpy')", {"numpy": 72}, 72),
    ],
)
def test_a_holder_frees_what_nothing_else_has(
    code: str, asked: str, frees: dict[str, float], together: float, monkeypatch: Any
) -> None:
    space: dict[str, Any] = {}
    exec(f"import numpy as np; value = np.ones(10**6); {code}", space)
    for name in space.keys() & {"x", "value"}:
        monkeypatch.setitem(MAIN, name, space.pop(name))
    account = holders_of([eval(asked, {**MAIN})])
    found = {each.place.path: each.frees for each in account.holders}
    assert found == {path: pytest.approx(size, 0.15, 10_000) for path, size in frees.items()}
    assert account.together == pytest.approx(together, 0.15, 10_000)
