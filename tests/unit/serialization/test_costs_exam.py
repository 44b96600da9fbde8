"""The exam of `explain`: objects of each kind, how large they are said to be, and how soon."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.unit.serialization.clocks import AMPLE, Looks, by_inband
from tests.unit.serialization.samples import Holder, html, texts
from workbench.serialization import codec
from workbench.serialization import measure as measuring
from workbench.serialization.costs import FIRST, WHOLE, Cost, Spend, explain
from workbench.serialization.measure import Figures, OutOfTimeError
from workbench.serialization.sampling import choose

sparse = pytest.importorskip("scipy.sparse")


def records(count: int) -> list[Any]:
    return [{"a": i, "b": [str(i)] * 3, "c": {"d": i / 7}} for i in range(count)]


def column(values: list[Any]) -> Any:
    return pd.DataFrame({"n": np.arange(len(values)), "o": pd.Series(values, dtype=object)})


SIZED: dict[str, Callable[[], Any]] = {
    "one large": lambda: [*map(np.zeros, [3] * 1500), np.zeros(10**6), np.zeros(3)],
    "lists in a dict": lambda: {f"k{i}": [j / 7 for j in range(2500)] for i in range(20)},
    "object column": lambda: column(texts(20_000)),
    "texts of all lengths": lambda: ["x" * (i * 7919 % 400) + str(i) for i in range(10_000)],
}


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


@pytest.mark.thorough
@pytest.mark.parametrize("name", SIZED)
def test_an_estimate_is_within_a_tenth_and_always_the_same(name: str) -> None:
    value = SIZED[name]()
    stored = codec.serialize(value, {})
    cost = explain(value, {}, "obj", measure=never_whole, spend=PATIENT)
    assert cost.is_estimate
    assert "Estimated from a" in str(cost)
    assert "Estimated from a" in html(cost)
    assert cost.inband == pytest.approx(stored.inband, rel=0.1)
    assert cost.outband == pytest.approx(stored.outband, rel=0.1)
    again = explain(value, {}, "obj", measure=never_whole, spend=PATIENT)
    assert (again.inband, again.outband) == (cost.inband, cost.outband)
    whole = explain(value, {}, "obj", measure=by_inband, spend=WHOLE)
    assert (whole.inband, whole.outband) == (stored.inband, stored.outband)
    assert not whole.is_estimate
    no_part_costs_more_than_what_it_is_in(cost)
    no_part_costs_more_than_what_it_is_in(whole)
    if name == "one large":
        assert "obj[1500]" in {part.path for part in walked(cost)}


def test_a_sample_stands_for_all_and_what_is_large_for_itself() -> None:
    (numbers, some, weight), (_, others, stands_for) = choose([*range(1000)], 1000, 100, [3, 500])
    assert (numbers, some, weight) == ([3, 500], [3, 500], 1.0)
    assert stands_for * len(others) == pytest.approx(998)
    assert not {3, 500} & {*others}


@contextlib.contextmanager
def told_by(clock: Any) -> Iterator[None]:
    """By another clock than the machine's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "time", clock)
        yield


def explained(value: Any, clock: Looks, spend: Spend = FIRST) -> Cost:
    with told_by(clock):
        return explain(value, {}, "obj", spend=spend)


@pytest.mark.parametrize("value", [texts(2000), records(300)], ids=["texts", "records"])
def test_the_same_object_gets_the_same_answer(value: Any) -> None:
    """All of it, with seconds, parts and advice, though others had the processor in between."""
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


@pytest.mark.parametrize("around", [lambda it: it, lambda it: [it], lambda it: {1: Holder(x=it)}])
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
