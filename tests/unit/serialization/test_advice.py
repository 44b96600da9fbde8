"""Advice is given where another form is cheaper, names it, and that form holds the same."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from tests.unit.serialization.clocks import AMPLE
from tests.unit.serialization.samples import (
    Holder,
    Point,
    Slotted,
    by_value,
    closing_over,
    points,
    texts,
)
from workbench.serialization import advice, measure
from workbench.serialization.advice import SAMPLE, advise
from workbench.serialization.alternatives import MANY, Idea
from workbench.serialization.costs import explain
from workbench.serialization.measure import Figures

pyarrow = pytest.importorskip("pyarrow")

NUMBERS = np.arange(100_000.0)
FEW_TEXTS = ["low", "middle", "high"] * 2000


def objects(values: list[Any]) -> pd.Series[Any]:
    return pd.Series(values, dtype=object)


def by_size(value: Any, reducers: Any, known: Any, seconds: float) -> Figures:
    """Measures as if each byte in band took a microsecond, so that nothing hangs on the clock."""
    figures = measure.measure(value, reducers, known, 9.0)
    return figures._replace(seconds=figures.inband / 1e6)


def advice_on(value: Any, path: str = "obj", measure: Any = by_size) -> tuple[str, ...]:
    return advise(value, path, measure(value, {}, {}, 9.0), {}, measure)


TEXT_FRAME = pd.DataFrame({"n": np.arange(6000.0), "name": objects(texts(6000))})

# value, what one of the texts says, what the other form has to be equal to
GIVEN: dict[str, tuple[Any, list[str], Callable[[Any], bool]]] = {
    "text column": (
        TEXT_FRAME,
        ["column 'name' (object, 6 000 str): ", "as Arrow strings",
         "`obj['name'].astype('string[pyarrow]')`"],
        lambda other: other.tolist() == texts(6000) and other.dtype == "string[pyarrow]",
    ),
    "missing texts": (
        objects([*texts(2000), None]),
        ["obj (object, 2 001 str)", "`obj.astype('string[pyarrow]')`"],
        lambda other: other[:2000].tolist() == texts(2000) and other.isna().sum() == 1,
    ),
    "few texts": (
        pd.DataFrame({"level": objects([str(text) for text in map("".join, FEW_TEXTS)])}),
        ["column 'level'", "as a category", "`obj['level'].astype('category')`"],
        lambda other: other.tolist() == FEW_TEXTS,
    ),
    "numbers as objects": (
        objects(list(range(2000))),
        ["obj (object, 2 000 int)", "as int64", "`obj.astype('int64')`"],
        lambda other: other.tolist() == list(range(2000)) and other.dtype == np.int64,
    ),
    "column of numbers": (
        pd.DataFrame({"x": objects([float(i) for i in range(2000)])}),
        ["column 'x' (object, 2 000 float)", "`obj['x'].astype('float64')`"],
        lambda other: other.tolist() == list(range(2000)),
    ),
    "object array": (
        np.arange(4000).astype(object).reshape(2, 2000),
        ["obj (4 000 int as objects)", "`obj.astype('int64')`"],
        lambda other: np.array_equal(other, np.arange(4000).reshape(2, 2000)),
    ),
    "list": (
        [i * 1000 for i in range(9000)],
        ["obj (9 000 int)", "as an array", "`np.array(obj)`"],
        lambda other: other.tolist() == [i * 1000 for i in range(9000)],
    ),
    "tuple": (
        tuple(i / 7 for i in range(9000)),
        ["obj (9 000 float)", "`np.array(obj)`"],
        lambda other: tuple(other.tolist()) == tuple(i / 7 for i in range(9000)),
    ),
    "ints and floats": (
        [1, 0.5] * 9000,
        ["`np.array(obj)`"],
        lambda other: other.tolist() == [1, 0.5] * 9000,
    ),
    "rows": (
        [[i, i + 1.5] for i in range(2000)],
        ["obj (2 000 rows of 2)", "`np.array(obj)`"],
        lambda other: other.tolist() == [[i, i + 1.5] for i in range(2000)],
    ),
    "instances": (
        points(2000),
        ["obj (2 000 Point)", "as one array per attribute",
         "`x = np.array([o.x for o in obj])`, and so for y"],
        lambda other: list(zip(other["x"], other["y"], strict=True))
        == [(point.x, point.y) for point in points(2000)],
    ),
    "slots": (
        [Slotted(i, i / 3) for i in range(2000)],
        ["obj (2 000 Slotted)", "`a = np.array([o.a for o in obj])`, and so for b"],
        lambda other: other["b"].tolist() == [i / 3 for i in range(2000)],
    ),
    "records": (
        [{"id": i, "ratio": i / 7, "ok": i > 9} for i in range(2000)],
        ["obj (2 000 dicts with the same 3 keys)", "as a DataFrame", "`pd.DataFrame(obj)`"],
        lambda other: other.to_dict("records") == GIVEN["records"][0],
    ),
    "closure": (
        closing_over(NUMBERS),
        ["obj closes over `value` (ndarray float64 (100000,)), which travels each time",
         "100 % of 801 kB; without it ", "`ref = put(value)` and pass `ref`"],
        lambda other: other() is None,
    ),
    "global": (
        by_value("def test(x, *, y=2):\n    return [(data, i) for i in range(1)], x, y",
                 data=NUMBERS),
        ["obj has the global `data` (ndarray float64 (100000,))", "put(data)"],
        lambda other: other(1) == ([(None, 0)], 1, 2),
    ),
}  # fmt: skip


@pytest.fixture
def ideas(monkeypatch: pytest.MonkeyPatch) -> list[Idea]:
    """Those that were tried."""
    seen: list[Idea] = []
    tried = advice._tried

    def trying(idea: Idea, *rest: Any) -> Any:
        seen.append(idea)
        return tried(idea, *rest)

    monkeypatch.setattr(advice, "_tried", trying)
    return seen


@pytest.mark.parametrize("name", GIVEN)
def test_the_advice_names_a_form_that_holds_the_same(name: str, ideas: list[Idea]) -> None:
    value, parts, same = GIVEN[name]
    texts = advice_on(value)
    matching = [text for text in texts if all(part in text for part in parts)]
    assert len(matching) == 1, texts
    (idea,) = (i for i in ideas if matching[0].endswith(i.how) and i.form in matching[0])
    assert same(idea.make(idea.before))


@pytest.mark.parametrize("name", [name for name in GIVEN if name not in ("closure", "global")])
def test_the_value_is_not_changed(name: str) -> None:
    value = GIVEN[name][0]
    before = pickle.dumps(value)
    advice_on(value)
    assert pickle.dumps(value) == before


class Closer(Point):
    def __init__(self, i: int) -> None:
        super().__init__(i / 3, i / 5)


FINE: dict[str, Any] = {
    "array": NUMBERS,
    "frame": pd.DataFrame({"n": NUMBERS}),
    "Arrow strings": pd.Series(texts(3000), dtype="string[pyarrow]"),
    "category": pd.Series(texts(3000), dtype="category"),
    "objects of many kinds": objects([1, "a", None, [2]] * 500),
    "short list": list(range(MANY - 1)),
    "too large numbers": [2**63 + i for i in range(3000)],
    "numbers a float can't hold": [0.5, 2**53 + 1] * 1000,
    "bools and ints": [True, 2] * 1000,
    "ragged rows": [[1.5] * (i % 3) for i in range(3000)],
    "instances with texts": [Slotted(i, str(i)) for i in range(2000)],
    "instances of two classes": [*points(1000), *(Slotted(1, 2) for _ in range(1000))],
    "instances without attributes": [object() for _ in range(2000)],
    "different attributes": [Holder(**{"ab"[i % 2]: i}) for i in range(2000)],
    "different keys": [{"ab"[i % 2]: i} for i in range(2000)],
    "more keys": [{"a": 1}, *({"a": i, "b": i} for i in range(2000))],
    "different values": [{"a": (i, "b")[i % 2]} for i in range(2000)],
    "arrow table": pyarrow.table({"a": NUMBERS}),
    "slice of an arrow table": pyarrow.table({"a": NUMBERS}).slice(5, 10),
    "texts and numbers": objects([*texts(2000), 5]),
    "instances of a class and its subclass": [*points(1000), *map(Closer, range(1000))],
    "function of a module": copy.deepcopy,
    "function alone": by_value("def test(x): return x"),
    "function with little": closing_over(np.zeros(9)),
    "empty list": [],
    "rows of nothing": [[] for _ in range(3000)],
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_fine_is_left_alone(name: str) -> None:
    assert advice_on(FINE[name]) == ()


def test_texts_are_a_category_only_if_they_are_few() -> None:
    assert not [text for text in advice_on(TEXT_FRAME) if "category" in text]


def test_tables_of_few_rows_are_not_tried(ideas: list[Idea]) -> None:
    advice_on(pd.DataFrame({str(i): objects(["a", "b"]) for i in range(99)}))
    assert ideas == []


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
def test_it_must_be_worth_it(
    total: Figures, before: Figures, after: Figures, says: str | None
) -> None:
    value = list(range(9000))

    def measure(something: Any, reducers: Any, known: Any, seconds: float) -> Figures:
        return before if something is value else after

    given = advise(value, "obj", total, {}, measure)
    assert given == (() if says is None else (f"obj (9 000 int): {says}np.array(obj)`",))


def test_large_ones_are_tried_on_a_part_of_them_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert SAMPLE >= 10_000
    monkeypatch.setattr(advice, "SAMPLE", 2000)
    (text,) = advice_on([i / 7 for i in range(9000)])
    tried = by_size([i / 7 for i in range(2000)], {}, {}, 9.0)
    assert f": {advice.human_seconds(tried.seconds)} on 2 000 of 9 000 rows; as an array" in text


@pytest.mark.parametrize("per_row", [1e-9, 2e-8, 1e-6])
def test_what_is_saved_on_all_rows_counts_however_quick_the_machine(per_row: float) -> None:
    """What its 20 000 rows save would be below what anybody notices."""
    rows, value = 10 * SAMPLE, [i / 7 for i in range(10 * SAMPLE)]

    def measure(something: Any, reducers: Any, known: Any, seconds: float) -> Figures:
        each = per_row if isinstance(something, list) else per_row / 10
        return figures(each * len(something), 10 * len(something))

    total = figures(per_row * rows, 10 * rows)
    given = advise(value, "obj", total, {}, measure)
    assert len(given) == (per_row * rows * 0.9 >= advice.NOTICED_SECONDS)


def test_an_adviser_that_raises_gives_no_advice_and_harms_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(value: Any, name: str) -> Any:
        raise RuntimeError

    monkeypatch.setattr(advice, "ADVISERS", (broken, *advice.ADVISERS))
    assert len(advice_on([i / 7 for i in range(9000)])) == 1


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("model.rows[2]['a']", "`np.array(model.rows[2]['a'])`"),
        ("model.my__rows['a__b']", "`np.array(model.my__rows['a__b'])`"),
        ("obj[…].x", None),
        ("obj.__reduce__()[1][0]", None),
    ],
)
def test_it_is_said_where_a_person_can_write_it(path: str, written: str | None) -> None:
    given = advice_on([i / 7 for i in range(9000)], path)
    assert [text.rpartition(": ")[2] for text in given] == ([] if written is None else [written])


def test_what_a_remote_function_takes_along_is_said_as_of_the_function() -> None:
    rows = np.zeros(100_000)
    cost = explain(wb.remote(lambda: rows), {}, "search", measure=by_size, spend=AMPLE)
    assert any(text.startswith("search closes over `rows`") for text in cost.all_advice())


def test_a_variable_of_a_function_is_written_as_there() -> None:
    rows = [i / 7 for i in range(9000)]
    cost = explain({"f": lambda: rows}, {}, "model", measure=by_size, spend=AMPLE)
    assert "closure of model['f'] → rows" in str(cost.children)
    assert any("`np.array(rows)`" in text for text in cost.all_advice())


def test_a_key_may_look_like_a_path() -> None:
    rows = [i / 7 for i in range(9000)]
    (text,) = explain({"a → b": rows}, {}, "obj", measure=by_size, spend=AMPLE).all_advice()
    assert "`np.array(obj['a → b'])`" in text


def test_a_captured_variable_without_a_value_does_not_hide_another() -> None:
    def obj() -> Any:
        return data, later

    data = np.arange(1e5)
    assert len(advice_on(obj)) == 1
    later = None


def test_columns_of_one_name_are_written_by_number() -> None:
    table = pd.DataFrame({0: objects(texts(6000)), 1: objects(texts(6000))})
    table.columns = pd.Index(["x", "x"])
    assert "`obj.iloc[:, 1].astype('string[pyarrow]')`" in "".join(advice_on(table))


def test_it_stands_at_the_part_that_it_is_about() -> None:
    value = Holder(a=Holder(rows=[i / 7 for i in range(9000)]), b=[str, *texts(9000)])
    cost = explain(value, {}, "model", measure=by_size, spend=AMPLE)
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
