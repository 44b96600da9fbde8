"""The exam of `explain`: objects of each kind, how large they are said to be, and the advice.

Following the advice, pasted as it stands, lowers what it says it lowers.
"""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.dtypes import StringDType

from tests.patience import THOROUGH
from tests.unit.serialization.clocks import AMPLE, Looks
from tests.unit.serialization.samples import Holder, Pair, Point, Slotted, points, texts
from workbench.serialization import advice, codec, costs
from workbench.serialization import measure as measuring
from workbench.serialization.costs import FIRST, WHOLE, Cost, Spend, explain
from workbench.serialization.measure import Figures, OutOfTimeError, measure

pa = pytest.importorskip("pyarrow")
sparse = pytest.importorskip("scipy.sparse")


def objects(values: list[Any]) -> pd.Series[Any]:
    return pd.Series(values, dtype=object)


pytestmark = pytest.mark.thorough
SIZE = 4 if THOROUGH else 1
N = 1000 * SIZE
DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i) for i in range(N)]
TIMES = [datetime.datetime(2020, 1, 1) + datetime.timedelta(seconds=i) for i in range(N)]
CENTS = [decimal.Decimal(i) / 100 for i in range(N)]
FEW = ["low", "middle", "high", "none"] * (N // 4)


def column(values: list[Any]) -> Any:
    return pd.DataFrame({"n": np.arange(len(values)), "it's": objects(values)})


# an object, and a piece of the advice
ADVISED: dict[str, tuple[Callable[[], Any], str]] = {
    "floats": (lambda: [i / 7 for i in range(N)], "np.array(obj)"),
    "ints": (lambda: tuple(range(10**6, 10**6 + N)), "np.array(obj)"),
    "rows": (lambda: [[i / 7, i / 3] for i in range(N)], "np.array(obj)"),
    "texts in a list": (lambda: texts(N), "pa.array(obj)"),
    "texts with gaps": (lambda: [*texts(N), None], "pa.array(obj)"),
    "dates in a list": (lambda: [*DAYS], "datetime64[D]"),
    "times in a list": (lambda: [*TIMES], "datetime64[us]"),
    "decimals in a list": (lambda: [*CENTS], "pa.array(obj)"),
    "a set": (lambda: set(range(10**9, 10**9 + N)), "np.array([*obj])"),
    "a deque": (lambda: collections.deque(i / 7 for i in range(N)), "np.array([*obj])"),
    "a dict": (lambda: {i / 7: i / 3 for i in range(N)}, "np.array([*obj]), np.array("),
    "instances": (lambda: points(N), "np.array([o.x for o in obj])"),
    "slots": (lambda: [Slotted(i / 7, i) for i in range(N)], "np.array([o.a for o in obj])"),
    "named tuples": (lambda: [Pair(i / 7, i) for i in range(N)], "np.array([o.a for o in obj])"),
    "named tuples with texts": (lambda: [Pair(i, str(i)) for i in range(N)], "pd.DataFrame(obj)"),
    "instances with texts": (
        lambda: [Point(i, str(i)) for i in range(N)],  # type: ignore[arg-type]
        "pd.DataFrame([vars(o) for o in obj])",
    ),
    "records": (lambda: [{"a": i, "b": str(i)} for i in range(N)], "pd.DataFrame(obj)"),
    "object array": (lambda: np.arange(N).astype(object), "obj.astype('int64')"),
    "texts in an array": (lambda: np.array(texts(N), dtype=object), "pa.array(obj)"),
    "times in an array": (lambda: np.array(TIMES, dtype=object), "astype('datetime64[us]')"),
    "numpy's texts": (lambda: np.array(texts(N), dtype=StringDType()), "pa.array(obj)"),
    "text column": (lambda: column(texts(N)), "astype('string[pyarrow]')"),
    "few texts": (lambda: column([str(t + "") for t in FEW]), "string[pyarrow]"),
    "pandas' texts": (
        lambda: pd.DataFrame({"a": pd.Series(texts(N), dtype="string[python]")}),
        "obj['a'].astype('string[pyarrow]')",
    ),
    "texts with missing ones": (lambda: column([*texts(N), None, float("nan")]), "string[pyarrow]"),
    "ints with missing ones": (lambda: column([*range(N), None]), "astype('Int64')"),
    "floats with missing ones": (lambda: column([*(i / 7 for i in range(N)), None]), "Float64"),
    "bools with missing ones": (lambda: column([True, False, None] * N), "astype('boolean')"),
    "date column": (lambda: column([*DAYS]), "astype('date32[pyarrow]')"),
    "dates with missing ones": (lambda: column([*DAYS, None]), "astype('date32[pyarrow]')"),
    "time column": (lambda: column([*TIMES, pd.NaT]), "pd.to_datetime(obj["),
    "span column": (lambda: column([t - TIMES[0] for t in TIMES]), "pd.to_timedelta(obj["),
    "clock column": (lambda: column([t.time() for t in TIMES]), "time64[us][pyarrow]"),
    "decimal column": (lambda: column([*CENTS]), "pd.ArrowDtype(pa.decimal128("),
    "column of bytes": (lambda: column([t.encode() for t in texts(N)]), "binary[pyarrow]"),
    "series of dates": (lambda: objects([*DAYS]), "obj.astype('date32[pyarrow]')"),
    "text index": (
        lambda: pd.DataFrame({"n": np.arange(N)}, index=pd.Index(texts(N), dtype=object)),
        "obj.index.astype('string[pyarrow]')",
    ),
    "an index": (lambda: pd.Index(texts(N), dtype=object), "obj.astype('string[pyarrow]')"),
    "index of dates": (
        lambda: pd.Series(np.arange(N), index=pd.Index(DAYS, dtype=object)),
        "obj.index.astype('date32[pyarrow]')",
    ),
    "index of levels": (
        lambda: pd.DataFrame(
            {"n": np.arange(N)},
            index=pd.MultiIndex.from_arrays([pd.Index(texts(N), dtype=object), np.arange(N)]),
        ),
        "obj.index.set_levels(obj.index.levels[0].astype('string[pyarrow]'), level=0)",
    ),
    "lil": (lambda: sparse.random(200 * SIZE, 200 * SIZE, 0.05, "lil"), "obj.tocsr()"),
    "lil array": (
        lambda: sparse.lil_array(sparse.random(200 * SIZE, 200 * SIZE, 0.05)),
        "obj.tocsr()",
    ),
    "dok": (lambda: sparse.random(80 * SIZE, 80 * SIZE, 0.05, "dok"), "obj.tocsr()"),
    "bytes": (lambda: bytes(2 * 10**6), "memoryview(obj)"),
    "bytearray": (lambda: bytearray(2 * 10**6), "memoryview(obj)"),
    "array.array": (lambda: array.array("d", bytes(2 * 10**6)), "memoryview(obj)"),
}
AROUND: dict[str, tuple[Callable[[Any], Any], str]] = {
    "itself": (lambda value: value, "obj"),
    "in a dict": (lambda value: {"the key": value, "n": 1}, "obj['the key']"),
    "an attribute": (lambda value: Holder(data=[0, value]), "obj.data[1]"),
}


def by_size(value: Any, reducers: Any, known: Any, seconds: float) -> Figures:
    """As if each byte of the pickle took a microsecond, so that nothing hangs on the clock."""
    figures = measure(value, reducers, known, 9.0)
    return figures._replace(seconds=figures.inband / 1e6)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", ADVISED)
def test_the_advice_pasted_lowers_what_is_pickled(name: str, around: str) -> None:
    make, piece = ADVISED[name]
    put, path = AROUND[around]
    value = make()
    cost = explain(put(value), {}, "obj", measure=by_size, spend=AMPLE)
    piece = re.sub(r"\bobj\b", lambda _: path, piece)
    given = [text for text in cost.all_advice() if piece in text]
    assert len(given) == 1, cost.all_advice()
    pasted = re.search(r"`(.*)`", given[0].rpartition(": ")[2])
    assert pasted is not None
    code = pasted[1].split("`")[0]
    names = {"obj": put(value), "np": np, "pd": pd, "pa": pa}
    made = names if re.match(r"\w+ = ", code) else None
    other = exec(code, names) if made else eval(code, names)
    if made:
        other = names[code.partition(" ")[0]]
    before, after = (codec.serialize(each, {}) for each in (value, other))
    assert after.inband * 2 < before.inband


# -- sizes ----------------------------------------------------------------------------------------


class Node:
    def __init__(self, depth: int) -> None:
        self.value = depth / 7
        self.children = [Node(depth - 1) for _ in range(4)] if depth else []


def varied(count: int) -> list[str]:
    return ["x" * (i * 7919 % 400) + str(i) for i in range(count)]


SIZED: dict[str, Callable[[], Any]] = {
    "floats": lambda: [float(i) for i in range(75_000 * SIZE)],
    "texts": lambda: texts(50_000 * SIZE),
    "texts of all lengths": lambda: varied(25_000 * SIZE),
    "two kinds": lambda: [v for i in range(25_000 * SIZE) for v in (i, str(i))],
    "a dict": lambda: {f"key {i}": i / 7 for i in range(50_000 * SIZE)},
    "a set": lambda: {*range(10**9, 10**9 + 50_000 * SIZE)},
    "a tuple": lambda: tuple(texts(50_000 * SIZE)),
    "a frozen set": lambda: frozenset(texts(25_000 * SIZE)),
    "a deque": lambda: collections.deque(texts(25_000 * SIZE)),
    "instances": lambda: points(15_000 * SIZE),
    "named tuples": lambda: [Pair(i, str(i)) for i in range(15_000 * SIZE)],
    "records": lambda: [
        {"a": i, "b": [str(i)] * 3, "c": {"d": i / 7}} for i in range(10_000 * SIZE)
    ],
    "lists in a dict": lambda: {f"k{i}": [j / 7 for j in range(5_000 * SIZE)] for i in range(20)},
    "rows": lambda: [[i, str(i), i / 7] * 20 for i in range(2_500 * SIZE)],
    "arrays": lambda: [np.zeros(100 + i % 100) for i in range(10_000 * SIZE)],
    "one large": lambda: [
        *(np.zeros(3) for _ in range(10_000 * SIZE)),
        np.zeros(10**6),
        np.zeros(3),
    ],
    "one large text": lambda: {**{i: str(i) for i in range(12_500 * SIZE)}, -1: "x" * 10**7},
    "object column": lambda: column(texts(50_000 * SIZE)),
    "object array": lambda: np.array([[str(i), i] for i in range(12_500 * SIZE)], dtype=object),
    "numpy's texts": lambda: np.array(texts(25_000 * SIZE), dtype=StringDType()),
    "a tree": lambda: Node(5 + (SIZE > 1)),
    "lil": lambda: sparse.random(1000 * SIZE, 1000 * SIZE, 0.01, "lil"),
}


def never_whole(value: Any, reducers: Any, known: Any, seconds: float) -> Figures:
    """The whole takes too long; parts are quick."""
    if not known and seconds == FIRST.total:
        raise OutOfTimeError(Figures(0.0, 10**6, 0, 0))
    return measure(value, reducers, known, 9.0)


PATIENT = AMPLE._replace(total=FIRST.total, advice=-1.0)
"""A first answer, on a machine however busy."""


def walked(cost: Cost) -> list[Cost]:
    return [cost, *(inner for child in cost.children for inner in walked(child))]


@pytest.mark.parametrize("name", SIZED)
def test_an_estimate_is_within_a_tenth_and_always_the_same(name: str) -> None:
    value = SIZED[name]()
    stored = codec.serialize(value, {})
    cost = explain(value, {}, "obj", measure=never_whole, spend=PATIENT)
    assert cost.is_estimate
    assert "Estimated from a" in str(cost)
    assert "Estimated from a" in cost._repr_html_()
    if name != "a tree":
        assert cost.inband == pytest.approx(stored.inband, rel=0.1)
        assert cost.outband == pytest.approx(stored.outband, rel=0.1)
    again = explain(value, {}, "obj", measure=never_whole, spend=PATIENT)
    assert (again.inband, again.outband) == (cost.inband, cost.outband)
    whole = explain(value, {}, "obj", spend=WHOLE)
    assert (whole.inband, whole.outband) == (stored.inband, stored.outband)
    assert not whole.is_estimate


@pytest.mark.parametrize("name", SIZED)
def test_no_part_costs_more_than_what_it_is_in(name: str) -> None:
    for spend in (AMPLE, FIRST):
        for cost in walked(explain(SIZED[name](), {}, "obj", spend=spend)):
            for child in cost.children:
                if child.seconds is not None and cost.seconds is not None:
                    assert child.seconds <= cost.seconds
                if child.share is not None and cost.share is not None:
                    assert child.share <= cost.share
                assert child.inband <= cost.inband
                assert child.outband <= cost.outband


def test_what_is_large_among_many_is_named() -> None:
    for name, path in (("one large", f"obj[{10_000 * SIZE}]"), ("one large text", "obj[-1]")):
        cost = explain(SIZED[name](), {}, "obj", spend=PATIENT)
        assert path in {part.path for part in walked(cost)}


def test_items_of_a_sample_are_not_parts_of_their_own() -> None:
    cost = explain(SIZED["records"](), {}, "obj", spend=AMPLE)
    assert not [part.path for part in walked(cost) if re.search(r"\[\d+\]", part.path)]
    assert f"{10 * SIZE} 000 × dict" in {part.type for part in walked(cost)}


def explained(value: Any, clock: Looks, spend: Spend = FIRST) -> Cost:
    """By another clock than the machine's."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (advice, costs, measuring):
            patch.setattr(module, "time", clock)
        return explain(value, {}, "obj", spend=spend)


@pytest.mark.parametrize("name", ["floats", "texts", "object column", "records"])
def test_the_same_object_gets_the_same_answer(name: str) -> None:
    """All of it, with seconds, parts and advice, though others had the processor in between."""
    value = SIZED[name]()
    cost = explained(value, Looks(2**-20), WHOLE)
    assert cost.seconds
    assert cost.children
    for hiccups in (range(0), range(1, 100, 7)):
        clock = Looks(2**-20, hiccups)
        assert explained(value, clock, WHOLE) == cost
        assert clock.looks > 100


class Endless:
    """Is pickled for a long time, in many small steps."""

    def __init__(self) -> None:
        self.taken = 0

    def items(self) -> Iterator[float]:
        for self.taken in range(10**9):
            yield float(self.taken)

    def __reduce__(self) -> Any:
        return list, (), None, self.items()


def test_the_first_answer_is_soon_there_whatever_the_object() -> None:
    """Soon by its own clock; and in between two looks it does little."""
    for around in (lambda it: it, lambda it: [it, 1], lambda it: {"a": Holder(x=it)}):
        value, clock = Endless(), Looks(2**-10)
        cost = explained(around(value), clock)
        assert cost.is_estimate
        assert clock.now < 2.0
        assert value.taken < 10_000 * clock.looks


def test_it_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    for where in ("_counted", "_corrected", "advise"):
        with monkeypatch.context() as patch:
            patch.setattr(costs, where, _stopped)
            with pytest.raises(KeyboardInterrupt):
                explain(texts(5000), {}, "obj")


def _stopped(*_: Any) -> Any:
    raise KeyboardInterrupt
