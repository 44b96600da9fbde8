"""Objects that several values have in common, where people could change them."""

from __future__ import annotations

import copy
import functools
import tracemalloc
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.unit.serialization.samples import Holder, by_value, closing_over, looped
from workbench.serialization.aliases import MOST, MOST_REFERENCES, in_common


class Own(Holder):
    """A class that travels by value."""

    def get(self) -> Any:
        return self


class OwnList(list[Any]): ...


Own.__module__ = OwnList.__module__ = "__main__"

HOLDERS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "nested": lambda x: [{"a": ({"b": x},)}],
    "deque": lambda x: deque([x]),
    "defaultdict": lambda x: defaultdict(list, a=x),
    "attribute": lambda x: Own(x=x),
    "bound method": lambda x: Own(x=x).get,
    "array": lambda x: np.array([x, None], dtype=object)[:1],
    "closure": lambda x: closing_over(x),
    "global": lambda x: by_value("def test(): return data", data=x),
    "partial": lambda x: functools.partial(print, x),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_two_have_in_common_is_found(holder: str) -> None:
    objects = [1], {"k": 1}, {1}, np.zeros(3), pd.DataFrame({"a": [1]}), Own(), Holder()
    for x in objects:
        values = {"first": HOLDERS[holder](x), "n": 1, "second": [x, looped()], "third": [[1], "a"]}
        assert in_common(values, ["first"])[0] == [("first", "second")]
        assert in_common(values, ["second"])[0] == [("second", "first")]
        assert in_common(values, ["first", "second"])[0] == [("second", "first")]
        assert in_common(values, ["third"]) == ([], [])
        assert in_common({**values, "second": [copy.copy(x)]}, ["first"]) == ([], [])


FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FRAME, FRAME[["a"]]),  # has the same index
        ([len, print, np, pd.DataFrame, Own], [len, print, np, pd.DataFrame, Own]),
        ([np.dtype("f8"), 1.5, None, (), frozenset()],) * 2,
        (np.float64(1.0), [np.float64(1.0)]),
    ],
    ids=str,
)
def test_what_nobody_changes_is_not_in_common(first: Any, second: Any) -> None:
    pair = {"first": first, "second": [*second] if isinstance(second, list) else second}
    assert in_common(pair, ["first"]) == ([], [])


def test_what_is_too_much_is_told() -> None:
    x = [0]
    many = [[i] for i in range(MOST)]
    assert in_common({"many": many, "x": x}, ["many"]) == ([], ["many"])
    assert in_common({"many": many[: MOST // 2], "x": x}, ["many"]) == ([], [])
    numbers = list(range(2 * MOST))
    assert in_common({"numbers": [numbers, x], "x": x}, ["numbers"]) == ([("numbers", "x")], [])
    assert in_common({"same": [x] * 2 * MOST, "x": x}, ["same"]) == ([("same", "x")], [])


CROWDS: dict[str, Callable[[list[Any]], Any]] = {
    "list": OwnList,
    "dict": lambda many: dict(enumerate(many)),
    "set": lambda many: {*range(len(many))},
    "array": lambda many: np.array([*many, None], dtype=object),
    "nested": lambda many: [[many]],
}


@pytest.mark.parametrize("crowd", CROWDS)
def test_what_is_too_much_is_not_even_listed(crowd: str) -> None:
    x = [0]
    many = CROWDS[crowd]([x] * MOST_REFERENCES)
    tracemalloc.start()
    try:
        assert in_common({"many": many, "x": x}, ["many"]) == ([], ["many"])
        assert tracemalloc.get_traced_memory()[1] < MOST_REFERENCES
    finally:
        tracemalloc.stop()
    few = CROWDS[crowd]([x] * 500)
    found = [] if crowd == "set" else [("few", "x")]
    assert in_common({"few": few, "x": x}, ["few"]) == (found, [])


def test_a_read_only_array_is_not_changed_through_anybody() -> None:
    x = np.zeros(3)
    x.flags.writeable = False
    assert in_common({"x": x, "holder": {"x": x}}, ["x"]) == ([], [])
    objects = np.array([[1]], dtype=object).reshape(1, 1)
    objects[0, 0] = inner = [1]
    objects.flags.writeable = False
    assert in_common({"x": objects, "y": inner}, ["x"]) == ([("x", "y")], [])


def test_arrays_have_memory_in_common() -> None:
    base = np.zeros(6)
    assert in_common({"left": base[:4], "right": [base[2:]]}, ["left"])[0] == [("left", "right")]
    assert in_common({"left": base, "right": base.copy()}, ["left"])[0] == []
