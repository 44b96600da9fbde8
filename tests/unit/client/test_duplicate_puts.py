"""The same array serialized again is noticed, and nothing is mistaken for it."""

from __future__ import annotations

import numpy as np

from workbench.client import duplicate_puts
from workbench.client.duplicate_puts import LARGE, DuplicatePuts


def array(nbytes: int = LARGE) -> np.ndarray:
    return np.zeros(nbytes, np.uint8)


def test_the_same_array_its_views_and_its_parts() -> None:
    counted, one, other = DuplicatePuts(), array(2 * LARGE), array(2 * LARGE)
    assert [counted.count([one]) for _ in range(3)] == [0, 1, 2]
    assert counted.count([other]) == 0
    assert counted.count([one.reshape(2, -1)]) == 3  # the same bytes
    assert counted.count([one[LARGE:]]) == 0  # not all of them


def test_of_several_the_largest_counts_if_it_is_large() -> None:
    counted, large, small = DuplicatePuts(), array(2 * LARGE), array(LARGE - 1)
    assert [counted.count([small, large]), counted.count([large])] == [0, 1]
    assert [counted.count([small]), counted.count([small]), counted.count([])] == [0, 0, 0]


def test_another_array_in_the_same_place_is_another() -> None:
    counted = DuplicatePuts()
    for _ in range(20):
        made = array()
        assert counted.count([made]) == 0
        del made


def test_it_forgets_the_oldest() -> None:
    counted = DuplicatePuts()
    kept = [array() for _ in range(duplicate_puts.MOST + 1)]
    for each in kept:
        counted.count([each])
    assert counted.count([kept[-1]]) == 1
    assert counted.count([kept[0]]) == 0
