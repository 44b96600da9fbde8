"""Objects that several values have in common, where people could change them; arrays that share
memory share it where they are opened, and where they come back to."""

from __future__ import annotations

import copy
import functools
import tracemalloc
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.unit.serialization.samples import Holder, by_value, closing_over, looped
from workbench.serialization.aliases import MOST, MOST_REFERENCES, in_common
from workbench.serialization.arrays import Array
from workbench.serialization.codec import Where
from workbench.serialization.packing import OtherSide, PackedValues, pack
from workbench.serialization.shared_memory import ChangedBytes, SharedBlocks


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


THERE = Where("arguments", "there")


def packed(value: Any, known: Mapping[int, Array] | None = None) -> PackedValues:
    """``known``: arrays that the other side has, by their numbers there."""
    known = known or {}
    numbers = {id(array): number for number, array in known.items()}
    there = OtherSide(numbers, known=[*known.values()])
    return pack(value, {}, [], lambda: {"x": value}, there=there)[0]


def opened(value: Any) -> Any:
    return packed(value).open(THERE)[0]


VIEWS = {
    "rows": lambda a: [a, a[0], a[1:]],
    "strided": lambda a: [a[:, 1], a[::2], a.T, a[::-1, ::-1]],
    "overlapping": lambda a: [a.ravel()[:8], a.ravel()[4:]],
    "other types": lambda a: [a, a.view(np.uint8), a.view([("x", float), ("y", float)])],
    "nested": lambda a: [a, a[2:].T[1:], a[3, 3:]],
}


@pytest.mark.parametrize("kind", VIEWS)
def test_views_share_memory_where_they_are_opened(kind: str) -> None:
    views = VIEWS[kind](np.arange(24.0).reshape(4, 6))
    there = opened({"views": views})["views"]
    for one, back in zip(views, there, strict=True):
        assert (back.dtype, back.flags.writeable) == (one.dtype, True)
        np.testing.assert_array_equal(back, one)
        for other, its in zip(views, there, strict=True):
            assert np.shares_memory(back, its) == np.shares_memory(one, other)


def test_what_only_lies_side_by_side_is_sent_alone() -> None:
    wide = np.zeros((1000, 100))
    assert not SharedBlocks([wide[:, 0], wide[:, 1]])
    assert sum(each.nbytes for each in packed([wide[:, 0], wide[:, 1]]).buffers) == 16_000


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_a_view_of_what_the_other_side_has_is_a_view_of_that(order: str) -> None:
    here = np.arange(12.0).reshape(3, 4)
    if order != "C":
        here = np.asfortranarray(here) if order == "F" else here[::2, ::2]
    there = opened([here])[0]  # as a cell has it
    back, whole = packed([there[1], there], {7: there}).open(THERE, {7: here}.__getitem__)[0]
    assert whole is here
    np.testing.assert_array_equal(back, here[1])
    assert np.shares_memory(back, here) == (order != "strided")


def test_bytes_that_changed_are_no_view() -> None:
    there = np.arange(3.0)
    sent = packed([there.view(ChangedBytes)], {7: there})
    (back,) = sent.open(THERE, {7: np.zeros(3)}.__getitem__)[0]
    assert back.tolist() == [0.0, 1.0, 2.0]
