"""Arrays that share memory share it where they are opened, and where they come back to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from workbench.serialization.arrays import Array
from workbench.serialization.codec import Where
from workbench.serialization.packing import OtherSide, PackedValues, pack
from workbench.serialization.shared_memory import ChangedBytes, SharedBlocks

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
