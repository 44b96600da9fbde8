"""The exam of `explain`: objects of each kind, how large they are said to be, and how soon."""

from __future__ import annotations

import collections
import contextlib
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.dtypes import StringDType

from tests.unit.serialization.clocks import AMPLE, Looks, by_inband
from tests.unit.serialization.samples import Holder, Pair, html, points, texts
from workbench.serialization import advice, codec, costs
from workbench.serialization import measure as measuring
from workbench.serialization.costs import FIRST, WHOLE, Cost, Spend, explain
from workbench.serialization.measure import Figures, OutOfTimeError
from workbench.serialization.sampling import choose

sparse = pytest.importorskip("scipy.sparse")


class Node:
    def __init__(self, depth: int) -> None:
        self.value = depth / 7
        self.children = [Node(depth - 1) for _ in range(4)] if depth else []


def records(count: int) -> list[Any]:
    return [{"a": i, "b": [str(i)] * 3, "c": {"d": i / 7}} for i in range(count)]


def column(values: list[Any]) -> Any:
    return pd.DataFrame({"n": np.arange(len(values)), "o": pd.Series(values, dtype=object)})


SIZED: dict[str, Callable[[], Any]] = {
    "one large": lambda: [*map(np.zeros, [3] * 4000), np.zeros(10**6), np.zeros(3)],
    "lists in a dict": lambda: {f"k{i}": [j / 7 for j in range(5000)] for i in range(20)},
    "object column": lambda: column(texts(50_000)),
    "texts of all lengths": lambda: ["x" * (i * 7919 % 400) + str(i) for i in range(25_000)],
}
MORE_SIZED: dict[str, Callable[[], Any]] = {
    "floats": lambda: [float(i) for i in range(75_000)],
    "texts": lambda: texts(50_000),
    "two kinds": lambda: [v for i in range(25_000) for v in (i, str(i))],
    "a dict": lambda: {f"key {i}": i / 7 for i in range(50_000)},
    "a set": lambda: {*range(10**9, 10**9 + 50_000)},
    "a tuple": lambda: tuple(texts(50_000)),
    "a frozen set": lambda: frozenset(texts(25_000)),
    "a deque": lambda: collections.deque(texts(25_000)),
    "instances": lambda: points(15_000),
    "named tuples": lambda: [Pair(i, str(i)) for i in range(15_000)],
    "records": lambda: records(10_000),
    "rows": lambda: [[i, str(i), i / 7] * 20 for i in range(2500)],
    "arrays": lambda: [np.zeros(100 + i % 100) for i in range(10_000)],
    "one large text": lambda: {**{i: str(i) for i in range(12_500)}, -1: "x" * 10**7},
    "object array": lambda: np.array([[str(i), i] for i in range(12_500)], dtype=object),
    "numpy's texts": lambda: np.array(texts(25_000), dtype=StringDType()),
    "a tree": lambda: Node(5),
    "lil": lambda: sparse.random(1000, 1000, 0.01, "lil"),
}
LARGE = {"one large": "obj[4000]", "one large text": "obj[-1]"}


def never_whole(value: Any, reducers: Any, known: Any, seconds: float) -> Figures:
    """The whole takes too long; parts are quick."""
    if not known and seconds == FIRST.total:
        raise OutOfTimeError(Figures(0.0, 10**6, 0, 0))
    return by_inband(value, reducers, known, seconds)


PATIENT = Spend(FIRST.total, AMPLE.tracing, AMPLE.parts, AMPLE.part, -1.0)
"""A first answer, on a machine however busy."""


def walked(cost: Cost) -> list[Cost]:
    return [cost, *(inner for child in cost.children for inner in walked(child))]


def no_part_costs_more_than_what_it_is_in(whole: Cost) -> None:
    for cost in walked(whole):
        for child in cost.children:
            for figure in ("seconds", "share", "inband", "outband"):
                inner, outer = getattr(child, figure), getattr(cost, figure)
                assert inner is None or outer is None or inner <= outer


def extended(names: Any) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.extended) for name in names]


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*SIZED, *extended(MORE_SIZED)])
def test_an_estimate_is_within_a_tenth_and_always_the_same(name: str) -> None:
    value = (SIZED | MORE_SIZED)[name]()
    stored = codec.serialize(value, {})
    cost = explain(value, {}, "obj", measure=never_whole, spend=PATIENT)
    assert cost.is_estimate
    assert "Estimated from a" in str(cost)
    assert "Estimated from a" in html(cost)
    if name != "a tree":
        assert cost.inband == pytest.approx(stored.inband, rel=0.1)
        assert cost.outband == pytest.approx(stored.outband, rel=0.1)
    again = explain(value, {}, "obj", measure=never_whole, spend=PATIENT)
    assert (again.inband, again.outband) == (cost.inband, cost.outband)
    whole = explain(value, {}, "obj", measure=by_inband, spend=WHOLE)
    assert (whole.inband, whole.outband) == (stored.inband, stored.outband)
    assert not whole.is_estimate
    no_part_costs_more_than_what_it_is_in(cost)
    no_part_costs_more_than_what_it_is_in(whole)
    if name in LARGE:
        assert LARGE[name] in {part.path for part in walked(cost)}


@pytest.mark.extended
@pytest.mark.parametrize("name", SIZED | MORE_SIZED)
def test_no_part_costs_more_than_what_it_is_in_by_the_machines_clock(name: str) -> None:
    for spend in (AMPLE, FIRST):
        cost = explain((SIZED | MORE_SIZED)[name](), {}, "obj", spend=spend)
        no_part_costs_more_than_what_it_is_in(cost)


def test_a_sample_stands_for_all_and_what_is_large_for_itself() -> None:
    (numbers, some, weight), (_, others, stands_for) = choose([*range(1000)], 1000, 100, [3, 500])
    assert (numbers, some, weight) == ([3, 500], [3, 500], 1.0)
    assert stands_for * len(others) == pytest.approx(998)
    assert not {3, 500} & {*others}


def test_items_of_a_sample_are_not_parts_of_their_own() -> None:
    cost = explain(records(3000), {}, "obj", measure=by_inband, spend=AMPLE)
    assert not [part.path for part in walked(cost) if re.search(r"\[\d+\]", part.path)]
    assert "3 000 × dict" in {part.type for part in walked(cost)}


@contextlib.contextmanager
def told_by(clock: Any) -> Iterator[None]:
    """By another clock than the machine's."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (advice, costs, measuring):
            patch.setattr(module, "time", clock)
        yield


def explained(value: Any, clock: Looks, spend: Spend = FIRST) -> Cost:
    with told_by(clock):
        return explain(value, {}, "obj", spend=spend)


@pytest.mark.parametrize("name", ["texts", "records", *extended(["floats", "object column"])])
def test_the_same_object_gets_the_same_answer(name: str) -> None:
    """All of it, with seconds, parts and advice, though others had the processor in between."""
    value = {
        "floats": lambda: [i / 7 for i in range(20_000)],
        "texts": lambda: texts(2000),
        "object column": lambda: column(texts(5000)),
        "records": lambda: records(300),
    }[name]()
    cost = explained(value, Looks(2**-20), WHOLE)
    assert cost.seconds
    assert cost.children
    for hiccups in (range(0), range(1, 100, 7)):
        clock = Looks(2**-20, hiccups)
        assert explained(value, clock, WHOLE) == cost
        assert clock.looks > 100


class Busy(Looks):
    """Others work between any two looks."""

    def thread_time(self) -> float:
        return 0.0


def test_a_busy_machine_takes_no_time_from_what_is_measured() -> None:
    with told_by(clock := Busy(1.0)):
        assert measuring.measure(texts(50_000), {}, {}, 5.0).inband > 500_000
    assert 5 < clock.now < 20
    with told_by(Busy(4.0)), pytest.raises(OutOfTimeError):
        measuring.measure(texts(50_000), {}, {}, 5.0)


class Endless:
    """Is pickled for a long time, in many small steps."""

    def __init__(self) -> None:
        self.taken = 0

    def items(self) -> Iterator[float]:
        for self.taken in range(10**9):
            yield float(self.taken)

    def __reduce__(self) -> Any:
        return list, (), None, self.items()


@pytest.mark.parametrize(
    "around", [lambda it: it, lambda it: [it, 1], lambda it: {"a": Holder(x=it)}]
)
def test_the_first_answer_is_soon_there_whatever_the_object(around: Any) -> None:
    """Soon by its own clock; and in between two looks it does little."""
    value, clock = Endless(), Looks(2**-8)
    cost = explained(around(value), clock)
    assert cost.is_estimate
    assert clock.now < 2.0
    assert value.taken < 10_000 * clock.looks


@pytest.mark.parametrize("at", [1, 2, 3])
def test_it_can_be_stopped(at: int) -> None:
    """While the whole is measured, a part, or what is advised."""
    calls = itertools.count(1)

    def stopped(*args: Any) -> Figures:
        if next(calls) == at:
            raise KeyboardInterrupt
        return by_inband(*args)

    with pytest.raises(KeyboardInterrupt):
        explain(texts(5000), {}, "obj", measure=stopped, spend=AMPLE)
