"""Advice is given where another form is cheaper; that form, pasted, holds the same."""

from __future__ import annotations

import array
import copy
import datetime
import decimal
import pickle
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.dtypes import StringDType

import workbench as wb
from tests.unit.serialization.clocks import AMPLE, by_inband
from tests.unit.serialization.samples import (
    Holder,
    Pair,
    Point,
    Slotted,
    by_value,
    closing_over,
    points,
    texts,
)
from workbench.format import human_seconds
from workbench.serialization import codec
from workbench.serialization.advice import NOTICED_SECONDS, SAMPLE, advise
from workbench.serialization.alternatives import MANY
from workbench.serialization.costs import explain
from workbench.serialization.measure import Figures

pa = pytest.importorskip("pyarrow")
sparse = pytest.importorskip("scipy.sparse")

N = 1200
NUMBERS = np.arange(100_000.0)
FLOATS = [i / 7 for i in range(9000)]
TEXTS = texts(N)
DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i) for i in range(N)]
TIMES = [datetime.datetime(2020, 1, 1) + datetime.timedelta(seconds=i) for i in range(N)]
CENTS = [decimal.Decimal(i) / 100 for i in range(N)]


def objects(values: list[Any]) -> pd.Series[Any]:
    return pd.Series(values, dtype=object)


def column(values: list[Any]) -> Any:
    return pd.DataFrame({"n": np.arange(len(values)), "it's": objects(values)})


def advice_on(value: Any, path: str = "obj", measure: Any = by_inband) -> tuple[str, ...]:
    return advise(value, path, measure(value, {}, {}, 9.0), {}, measure)


COLUMN = 'column "it\'s" (object, '
ARRAY = "`np.array(obj)`"
ARROW = "`pa.array(obj)`"
STRINGS = ".astype('string[pyarrow]')`"

INTO_ATTRIBUTES = "`a = np.array([o.a for o in obj])`, and so for b"

# what the advice says at the beginning, and at the end
ADVISED: dict[str, tuple[Any, str, str]] = {
    "floats": (FLOATS, "obj (9 000 float): ", ARRAY),
    "rows": ([[i, i + 1.5] for i in range(N)], "obj (1 200 rows of 2): ", ARRAY),
    "texts with gaps": ([*TEXTS, None], "obj (1 201 str): ", ARROW),
    "dates": (DAYS, "obj (1 200 date): ", "`np.array(obj, 'datetime64[D]')`"),
    "times": (TIMES, "obj (1 200 datetime): ", "`np.array(obj, 'datetime64[us]')`"),
    "decimals": (CENTS, "obj (1 200 Decimal): ", ARROW),
    "a set": ({*range(10**9, 10**9 + N)}, "obj (set of 1 200 int): ", "`np.array([*obj])`"),
    "a dict": ({i / 7: i / 3 for i in range(N)}, "obj (dict of 1 200 float): ",
               "`np.array([*obj]), np.array([*obj.values()])`"),
    "instances": (points(N), "obj (1 200 Point): ",
                  "`x = np.array([o.x for o in obj])`, and so for y"),
    "named tuples": ([Pair(i / 7, i) for i in range(N)], "obj (1 200 Pair): ", INTO_ATTRIBUTES),
    "named tuples with texts": ([Pair(i, str(i)) for i in range(N)], "obj", "`pd.DataFrame(obj)`"),
    "instances with texts": ([Holder(x=i, y=str(i)) for i in range(N)], "obj (1 200 Holder): ",
                             "`pd.DataFrame([vars(o) for o in obj])`"),
    "records": ([{"id": i, "ratio": i / 7, "ok": i > 9} for i in range(N)],
                "obj (1 200 dicts with the same 3 keys): ", "`pd.DataFrame(obj)`"),
    "object array": (np.arange(4000).astype(object).reshape(2, 2000),
                     "obj (4 000 int as objects): ", "`obj.astype('int64')`"),
    "texts in an array": (np.array(TEXTS, object), "obj (1 200 str as objects): ", ARROW),
    "numpy's texts": (np.array(TEXTS, StringDType()), "obj (1 200 texts of numpy): ", ARROW),
    "text column": (column(TEXTS), f"{COLUMN}1 200 str): ", f"`obj[\"it's\"]{STRINGS}"),
    "few texts": (column([str(each) for each in map("".join, ["low", "middle", "high"] * 2000)]),
                  f"{COLUMN}6 000 str): ", "`obj[\"it's\"].astype('category')`"),
    "pandas' texts": (pd.DataFrame({"a": pd.Series(TEXTS, dtype="string[python]")}),
                      "column 'a' (string, 1 200 str): ", f"`obj['a']{STRINGS}"),
    "missing texts": (column([*TEXTS, None, float("nan")]), f"{COLUMN}1 202 str): ", STRINGS),
    "ints as objects": (column([*range(N)]), f"{COLUMN}1 200 int): ", ".astype('int64')`"),
    "missing ints": (column([*range(N), None]), f"{COLUMN}1 201 int): ", ".astype('Int64')`"),
    "missing bools": (column([True, False, None] * N), COLUMN, ".astype('boolean')`"),
    "missing dates": (column([*DAYS, None]), COLUMN, ".astype('date32[pyarrow]')`"),
    "times of a column": (column([*TIMES, pd.NaT]), COLUMN, "`pd.to_datetime(obj[\"it's\"])`"),
    "spans": (column([t - TIMES[0] for t in TIMES]), COLUMN, "`pd.to_timedelta(obj[\"it's\"])`"),
    "clocks": (column([t.time() for t in TIMES]), COLUMN, ".astype('time64[us][pyarrow]')`"),
    "decimal column": (column(CENTS), COLUMN, ".astype(pd.ArrowDtype(pa.decimal128(4, 2)))`"),
    "an index": (pd.Index(TEXTS, dtype=object), "obj (object, 1 200 str): ", f"`obj{STRINGS}"),
    "text index": (column(TEXTS).set_index("it's"), "obj.index (object, 1 200 str): ",
                   f"`obj.index{STRINGS}"),
    "index of levels": (
        column(TEXTS).set_index(["it's", "n"], drop=False), "obj.index level 0 (object, ",
        "`obj.index.set_levels(obj.index.levels[0].astype('string[pyarrow]'), level=0)`",
    ),
    "lil": (sparse.random(200, 200, 0.05, "lil"),
            "obj (lil_matrix (200, 200), 2 000 values): ", "`obj.tocsr()`"),
    "bytes": (bytes(10**6), "obj (bytes, 1 MB), which each reader copies: ", "`memoryview(obj)`"),
    "array.array": (array.array("d", bytes(10**6)), "obj (array, 1 MB), ", "`memoryview(obj)`"),
}  # fmt: skip


def contents(value: Any) -> Any:
    """What is in it, whatever its form."""
    if isinstance(value, pd.DataFrame):
        return [*value.itertuples(index=False, name=None)]
    if isinstance(value, pd.Series | pd.Index) and not isinstance(value, pd.MultiIndex):
        return [None if pd.isna(each) else each for each in value.astype(object)]
    if isinstance(value, memoryview | array.array):
        return bytes(value)
    for name in ("to_pylist", "toarray", "tolist"):
        if hasattr(value, name):
            return contents(getattr(value, name)())
    return value


SAME: dict[str, Callable[[Any, Any], bool]] = {
    "a set": lambda value, other: set(contents(other)) == value,
    "a dict": lambda value, other: dict(zip(*map(contents, other), strict=True)) == value,
    "instances": lambda value, other: contents(other) == [o.x for o in value],
    "named tuples": lambda value, other: contents(other) == [o.a for o in value],
    "instances with texts": lambda value, other: contents(other) == [(o.x, o.y) for o in value],
    "records": lambda value, other: other.to_dict("records") == value,
}


@pytest.mark.parametrize("name", ADVISED)
def test_the_advice_pasted_is_cheaper_and_holds_the_same(name: str) -> None:
    value, before, after = ADVISED[name]
    stored = pickle.dumps(value)
    (text,) = (text for text in advice_on(value) if text.endswith(after))
    assert text.startswith(before)
    assert pickle.dumps(value) == stored, "it has changed the value"
    code = text.rpartition(": ")[2].split("`")[1].removeprefix("x = ").removeprefix("a = ")
    names = {"obj": value, "np": np, "pd": pd, "pa": pa}
    other = eval(code, names)
    part = re.match(r"(?:pd\.to_\w+\()?(obj(?:\.index|\[[^]]*\])?)", code)
    what = eval(part[1], names) if part and isinstance(value, pd.DataFrame) else value
    if name in SAME:
        assert SAME[name](what, other)
    else:
        assert contents(other) == contents(what)
    was, now = (codec.serialize(each, {}).inband for each in (what, other))
    assert now * 2 < was


def without_it(text: str) -> float:
    """Bytes, according to the text."""
    number, unit = re.search(r"without it .*?(\S+) (k?B)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"B": 1, "kB": 1000}[unit]


@pytest.mark.parametrize(
    ("function", "rest", "parts"),
    [
        (closing_over(NUMBERS), 500,
         ("obj closes over `value` (ndarray float64 (100000,)), which travels each time",
          "100 % of 801 kB; without it ", "`ref = put(value)` and pass `ref`")),
        (by_value("def test(x=b'x' * 5000, *, y=b'y' * 3000): return [lambda: data]",
                  data=NUMBERS), 8000,
         ("obj has the global `data` (ndarray float64 (100000,))", "put(data)")),
    ],
    ids=["closure", "global"],
)  # fmt: skip
def test_what_functions_take_is_best_put(function: Any, rest: int, parts: tuple[str, ...]) -> None:
    (text,) = advice_on(function)
    assert all(part in text for part in parts), text
    assert rest < without_it(text) < rest + 1500


class Closer(Point):
    def __init__(self, i: int) -> None:
        super().__init__(i / 3, i / 5)


FINE: dict[str, Any] = {
    "frame": pd.DataFrame({"n": NUMBERS}),
    "Arrow strings": pd.Series(texts(3000), dtype="string[pyarrow]"),
    "objects of many kinds": objects([1, "a", None, [2]] * 500),
    "few rows": pd.DataFrame({str(i): objects(["a", "b"]) for i in range(99)}),
    "short list": list(range(MANY - 1)),
    "too large numbers": [2**63 + i for i in range(3000)],
    "numbers a float can't hold": [0.5, 2**53 + 1] * 1000,
    "bools and ints": [True, 2] * 1000,
    "ragged rows": [[1.5] * (i % 3) for i in range(3000)],
    "instances with texts": [Slotted(i, str(i)) for i in range(2000)],
    "different attributes": [Holder(**{"ab"[i % 2]: i}) for i in range(2000)],
    "different values": [{"a": (i, "b")[i % 2]} for i in range(2000)],
    "different keys": [{"ab"[i % 2]: i} for i in range(2000)],
    "more keys": [{"a": 1}, *({"a": i, "b": i} for i in range(2000))],
    "slice of an arrow table": pa.table({"a": NUMBERS}).slice(5, 10),
    "instances of a class and its subclass": [*points(1000), *map(Closer, range(1000))],
    "function of a module": copy.deepcopy,
    "function with little": closing_over(np.zeros(9)),
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_fine_is_left_alone(name: str) -> None:
    assert advice_on(FINE[name]) == ()


def figures(seconds: float, size: int) -> Figures:
    return Figures(seconds, size, 0, 0)


@pytest.mark.parametrize(
    ("total", "before", "after", "says"),
    [
        (figures(2.1, 10**6), figures(2.0, 10**6), figures(0.03, 10**6),
         "95 % of 2.1 s; as an array 30 ms: `"),
        (figures(2.1, 10**6), figures(2.0, 10**6), figures(2.0, 10**5),
         "100 % of 1 MB; as an array 100 kB: `"),
        (figures(2.0, 10**6), figures(1.0, 10**6), figures(0.5, 5 * 10**5),
         "50 % of 2 s and 100 % of 1 MB; as an array 500 ms, 500 kB: `"),
        (figures(2.0, 10**6), figures(1.0, 10**6), figures(0.6, 6 * 10**5), None),  # not worth it
        (figures(9.0, 10**6), figures(0.4, 10**4), figures(0.01, 10), None),  # a small part
        (figures(1e-3, 9999), figures(9e-4, 9999), figures(1e-6, 10), None),  # too little
    ],
)  # fmt: skip
def test_it_must_pay(total: Figures, before: Figures, after: Figures, says: str | None) -> None:
    value = list(range(9000))

    def measure(something: Any, reducers: Any, known: Any, seconds: float) -> Figures:
        return before if something is value else after

    given = advise(value, "obj", total, {}, measure)
    assert given == (() if says is None else (f"obj (9 000 int): {says}np.array(obj)`",))


def test_large_ones_are_tried_on_a_part_of_them_and_that_is_said() -> None:
    assert SAMPLE == 20_000
    (text,) = advice_on([i / 7 for i in range(50_000)])
    tried = by_inband([i / 7 for i in range(SAMPLE)], {}, {}, 9.0)
    assert f": {human_seconds(tried.seconds)} on 20 000 of 50 000 rows; as an array" in text
    assert advise(FLOATS, "obj", figures(1.0, 10**5), {}, by_inband, -1.0) == (), "no time for it"


@pytest.mark.parametrize("per_row", [1e-9, 2e-8, 1e-6])
def test_what_is_saved_on_all_rows_counts_however_quick_the_machine(per_row: float) -> None:
    """What its 20 000 rows save would be below what anybody notices."""
    rows, value = 10 * SAMPLE, [i / 7 for i in range(10 * SAMPLE)]

    def measure(something: Any, reducers: Any, known: Any, seconds: float) -> Figures:
        each = per_row if isinstance(something, list) else per_row / 10
        return figures(each * len(something), 10 * len(something))

    given = advise(value, "obj", figures(per_row * rows, 10 * rows), {}, measure)
    assert len(given) == (per_row * rows * 0.9 >= NOTICED_SECONDS)


class Odd(Holder):
    """One adviser asks for its format, another for what it wraps."""

    @property
    def format(self) -> str:
        raise ZeroDivisionError

    def __call__(self) -> None: ...


def test_an_adviser_that_raises_gives_no_advice_and_harms_no_other() -> None:
    (text,) = advice_on(Odd(__wrapped__=closing_over(NUMBERS)))
    assert "closes over `value`" in text


def test_it_is_said_where_a_person_can_write_it() -> None:
    for path in ("model.rows[2]['a']", "model.my__rows['a__b']"):
        (text,) = advice_on(FLOATS, path)
        assert text.endswith(f": `np.array({path})`")
    assert advice_on(FLOATS, "obj[…].x") == advice_on(FLOATS, "obj.__reduce__()[1][0]") == ()


ROWS: Any = np.zeros(100_000)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (wb.remote(closing_over(ROWS)), "obj closes over `value`"),
        ({"a → b": FLOATS}, "`np.array(obj['a → b'])`"),
        (Holder(data=[0, column(TEXTS)]), f'`obj.data[1]["it\'s"]{STRINGS}'),
    ],
    ids=["remote function", "key like a path", "attribute's item"],
)
def test_it_is_written_as_there(value: Any, says: str) -> None:
    cost = explain(value, {}, "obj", measure=by_inband, spend=AMPLE)
    assert any(says in text for text in cost.all_advice()), cost.all_advice()


def test_a_captured_variable_without_a_value_does_not_hide_another() -> None:
    def obj() -> Any:
        return data, later

    data = np.arange(1e5)
    assert len(advice_on(obj)) == 1
    later = None


def test_columns_of_one_name_are_written_by_number() -> None:
    table = pd.DataFrame({0: objects(TEXTS), 1: objects(TEXTS)})
    table.columns = pd.Index(["x", "x"])
    assert "`obj.iloc[:, 1].astype('string[pyarrow]')`" in "".join(advice_on(table))


def test_it_stands_at_the_part_that_it_is_about() -> None:
    value = Holder(a=Holder(rows=FLOATS), b=[str, *texts(9000)])
    cost = explain(value, {}, "model", measure=by_inband, spend=AMPLE)
    assert cost.advice == ()
    (text,) = cost.all_advice()
    assert "`np.array(model.a.rows)`" in text
    holder = next(part for part in cost.children if part.path == "model.a")
    assert holder.children[0].advice == (text,)
    assert f"• {text}" in str(cost)


def test_records_become_arrays_where_pandas_is_not_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pandas")
    (text,) = advice_on([{"x": i, "y": i / 7} for i in range(2000)])
    assert "as one array per key" in text
    assert "`{k: np.array([r[k] for r in obj]) for k in obj[0]}`" in text
    assert advice_on([{"x": i, "y": str(i)} for i in range(2000)]) == ()
