"""The tree of costs: its bytes are those of the pickle, it is small, it names what is large."""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tests.unit.serialization import samples
from tests.unit.serialization.clocks import AMPLE, by_bytes, by_inband
from workbench.serialization import measure
from workbench.serialization.arrays import out_of_band
from workbench.serialization.costs import MOST_PARTS, Cost, Spend, explain
from workbench.serialization.measure import Figures, MeasuringPickler, OutOfTimeError, Tally
from workbench.serialization.pickler import Pickler

FREE = Figures(0.0, 0, 0, 0)
"""The cost of a whole compared with which every part matters."""

FRAME = 9
"""Bytes before each frame of a pickle."""


def cost_of(value: Any, **options: Any) -> Cost:
    return explain(value, {}, "obj", **{"measure": by_bytes, "spend": AMPLE, **options})


def pickled(value: Any) -> tuple[bytes, int, int]:
    """The pickle, bytes beside it, and in how many buffers."""
    file, buffers = io.BytesIO(), []
    Pickler(file, {}, lambda b: buffers.append(out_of_band(b).nbytes)).dump(value)
    return file.getvalue(), sum(buffers), len(buffers)


def unframed(data: bytes) -> int:
    return len(data) - FRAME * sum(op.name == "FRAME" for op, _, _ in pickletools.genops(data))


def all_of(cost: Cost) -> Iterator[Cost]:
    yield cost
    for child in cost.children:
        yield from all_of(child)


def found(cost: Cost, path: str) -> Cost:
    """The part at a path."""
    parts = {part.path: part for part in all_of(cost)}
    assert path in parts, f"{path} is not among {list(parts)}"
    return parts[path]


TABLE = pd.DataFrame(
    {
        "n": np.arange(99.0),
        "m": np.arange(99.0),
        "c": pd.Categorical(samples.texts(99)),
        "o": pd.Series(samples.texts(99), dtype=object),
        "p": pd.Series(samples.texts(99), dtype="string[python]"),
    }
)
ARRAY = np.arange(500.0)
VALUES = {
    "strided": {"a": ARRAY[::2], "b": ARRAY.reshape(20, 25).T},
    "frame": TABLE,
    "objects": pd.DataFrame({"a": samples.texts(500), "b": samples.texts(500)}, dtype=object),
    "arrays": {f"layer {i}": {"w": np.ones(100 * i), "b": np.ones(i)} for i in range(20)},
    "global": samples.by_value("def test(x: int = 3): return data[x]", data=ARRAY),
    "points": samples.points(300),
    "mixed": [samples.Slotted(i, samples.Pair(i, None)) if i % 2 else {i} for i in range(1200)],
    "loop": samples.looped(),
    "bytes": [b"x" * 10**5, bytearray(10**5), "x" * 10**5],
    "shared": [ARRAY, ARRAY, *samples.points(2) * 3],
}


def assert_exact(value: Any) -> None:
    data, outband, buffers = pickled(value)
    cost = cost_of(value)
    assert (cost.inband, cost.outband, cost.buffers) == (len(data), outband, buffers)
    for part in all_of(cost):
        for figure in ("inband", "outband", "buffers"):
            assert sum(getattr(child, figure) for child in part.children) <= getattr(part, figure)
            assert getattr(part, figure) >= 0
    tally = MeasuringPickler({}, "obj", FREE, 10**6).count(value)
    assert tally.figures.inband == unframed(data)
    assert (tally.figures.outband, tally.figures.buffers) == (outband, buffers)


@pytest.mark.parametrize("name", VALUES)
def test_the_bytes_are_those_of_the_pickle(name: str) -> None:
    assert_exact(VALUES[name])


def test_what_stands_in_two_places_is_counted_where_it_is_saved_first() -> None:
    big = np.zeros(10**4)
    tally = MeasuringPickler({}, "obj", FREE, 10**6).count({"a": [big], "b": [big]})
    first, second = (part for part in tally.parts.values() if part.kind is list)
    assert (first.figures.outband, first.figures.buffers) == (80_000, 1)
    assert (second.figures.outband, second.figures.buffers) == (0, 0)
    assert found(cost_of({"a": [big], "b": [big]}), "obj['a'][0]").outband == 80_000


def test_seconds_are_of_the_part_alone_given_what_was_saved_before() -> None:
    shared, twice = samples.texts(1000), samples.texts(3000)
    value = [{"shared": shared}, {"deep": {"own": [twice, twice], "shared": shared}}]
    cost = cost_of(value)
    for path in ("obj[1]", "obj[1]['deep']", "obj[1]['deep']['own']"):
        part = found(cost, path)
        assert part.seconds is not None
        assert part.seconds * 1e6 == pytest.approx(part.inband, abs=99)
    known = {id(shared): (0, shared)}
    for way in (measure.measure, by_bytes):
        assert way([shared], {}, known, math.inf).inband < 100


MANY = {
    "texts": (samples.texts(5000), {("obj[…]", "5 000 × str")}),
    "entries": ({f"a key {i:06d}": float(i) for i in range(2500)},
                {("obj keys", "2 500 × str", 2500 * (2 + 12 + 1)),
                 ("obj[…]", "2 500 × float", 2500 * 9)}),
    "a tuple": (tuple(samples.texts(5000)), {("obj[…]", "5 000 × str")}),
    "two kinds": ([v for i in range(500) for v in (i, str(i))],
                  {("obj[…]", "500 × int"), ("obj[…]", "500 × str")}),
    "points": ({"points": samples.points(2000), "n": 1},
               {("obj['points'][…]", "2 000 × Point"),
                ("obj['points'][…].x", "2 000 × float", 18_000),
                ("obj['points'][…].y", "2 000 × float", 18_000)}),
    "rows": ([{"a": i, "b": i + 0.5} for i in range(500)],
             {("obj[…]['a']", "500 × int"), ("obj[…]['b']", "500 × float")}),
    "all different": ([{str(i): float(i)} for i in range(3000)], {("obj[…]", "3 000 × dict")}),
}  # fmt: skip


@pytest.mark.parametrize("name", MANY)
def test_many_are_few_parts(name: str) -> None:
    value, parts = MANY[name]
    cost = cost_of(value)
    told = [(part.path, part.type, part.inband) for part in all_of(cost)]
    assert parts <= {*told, *(each[:2] for each in told)}
    assert len(list(all_of(cost))) < 10
    tally = MeasuringPickler({}, "obj", Figures(9.0, 10**9, 0, 0), 10**6).count(value)
    assert count(tally) < 1000


def count(tally: Tally) -> int:
    return 1 + sum(map(count, tally.parts.values()))


def test_a_tree_is_never_large() -> None:
    value = {f"a{i}": {f"b{j}": "x" * 1000 for j in range(9)} for i in range(60)}
    cost = cost_of(value)
    parts = list(all_of(cost))
    others = [part for part in parts if part.label == "others"]
    assert len(parts) - len(others) <= MOST_PARTS
    assert others
    assert all(part.seconds is None for part in others)


class Blob:
    def __reduce_ex__(self, protocol: Any) -> Any:
        return bytes, (pickle.PickleBuffer(bytearray(1000)),)


FIELDS = np.dtype([(f"field {i}", "f4") for i in range(9)])


@pytest.mark.parametrize("value", [Blob(), np.zeros(9, FIELDS), FIELDS, cost_of.__code__], ids=type)
def test_what_only_its_library_can_change_has_no_parts(value: Any) -> None:
    assert cost_of(value).children == ()


def test_parts_of_a_table_are_its_columns() -> None:
    cost = cost_of(TABLE)
    assert {"['o']", "['c']", "[['n', 'm']]"} <= {child.label for child in cost.children}
    assert not any("_mgr" in part.path or "__" in part.path for part in all_of(cost))
    for column in "op":
        assert found(cost, f"obj['{column}'][…]").type == "99 × str"
    assert found(cost, "obj[['n', 'm']]").outband == 2 * 99 * 8
    together = cost_of(VALUES["objects"])
    kinds = {c.path: c.type for c in together.children if ".columns" not in c.path}
    assert kinds == dict.fromkeys(("obj['a']", "obj['b']"), "500 × str")


@pytest.mark.parametrize("make", [pa.table, pl.DataFrame])
def test_parts_of_other_tables_are_their_columns_too(make: Any) -> None:
    table = make({"a": np.arange(1000), "b": np.arange(1000.0)})
    children = cost_of(table).children
    assert [(c.path, c.outband) for c in children] == [("obj['a']", 8000), ("obj['b']", 8000)]
    assert not any(child.children for child in children)
    assert not any("__" in part.path for part in all_of(cost_of([table[:5]])))


def test_what_a_function_takes_along_is_named() -> None:
    inside = found(
        cost_of(samples.Holder(f=samples.closing_over({"w": ARRAY}))),
        "closure of obj.f → value['w']",
    )
    assert (inside.outband, inside.type) == (ARRAY.nbytes, "ndarray float64 (500,)")
    part = found(cost_of(VALUES["global"]), "global of obj → data")
    assert (part.label, part.type) == ("global → data", "ndarray float64 (500,)")


def test_the_costliest_come_first() -> None:
    value = {"a": samples.texts(1000), "b": samples.texts(2000), "c": np.zeros(10**4)}
    cost = cost_of(value)
    assert [c.label for c in cost.children] == ["['c']", "['b']", "['a']"]
    assert cost.seconds == pytest.approx((cost.inband + cost.outband) / 1e6)
    assert cost.share == 1.0
    assert cost.children[0].share == pytest.approx(80_000 / (cost.inband + cost.outband), abs=0.01)


class Slow(samples.Holder):
    def __reduce__(self) -> Any:
        sum(range(self.work))
        return Slow, ()


def test_a_part_that_was_slow_by_chance_is_counted_with_its_like() -> None:
    def never_slow(value: Any, reducers: Any, known: Any, seconds: float) -> Figures:
        return Figures(1e-2 if value is many else 1e-9, 10**9, 0, 0)

    many = [Slow(work=10**6 if i == 150 else 0) for i in range(300)]
    assert "obj[150]" not in {part.path for part in all_of(cost_of(many, measure=never_slow))}
    always = measure.measure(many, {}, {}, 9.0)
    assert "obj[150]" in {part.path for part in all_of(cost_of(many, measure=lambda *_: always))}


def tree(depth: int) -> samples.Holder:
    return samples.Holder(n=0.5, **{side: tree(depth - 1) for side in ("l", "r") if depth})


def test_what_is_not_looked_at_is_said_and_counted() -> None:
    value = tree(9)  # has no containers to be sampled
    assert "obj not looked at" not in {c.path for c in all_of(cost_of(value, most=10**5))}
    cost = cost_of(value, most=501)
    rest = found(cost, "obj not looked at")
    assert cost.inband == len(pickled(value)[0])
    assert cost.inband / 2 < rest.inband < cost.inband
    assert sum(child.inband for child in cost.children) <= cost.inband


def test_a_part_that_takes_too_long_is_estimated_from_how_far_it_came() -> None:
    def cut_short(*args: Any) -> Figures:
        figures = by_bytes(*args)
        if figures.seconds > args[3]:
            raise OutOfTimeError(Figures(0.0, int(args[3] * 1e6), 0, 0))
        return figures

    value = {"a": samples.texts(9000)[:5000], "b": samples.texts(9000)[5000:]}
    cut = cost_of(value, measure=cut_short, spend=AMPLE._replace(part=0.005))
    for part in all_of(cost_of(value)):
        assert found(cut, part.path).seconds == pytest.approx(part.seconds, rel=0.3)


def test_without_time_only_the_whole_is_measured() -> None:
    value = [samples.texts(5000), [i / 7 for i in range(5000)]]
    assert cost_of(value, measure=by_inband).all_advice()
    cost = cost_of(value, measure=by_inband, spend=Spend(9.0, 9.0, -1.0, 1.0, -1.0))
    assert cost.seconds is not None
    assert [c.seconds for c in cost.children] == [None, None]
    assert not cost.all_advice()


@pytest.mark.parametrize("name", VALUES)
def test_all_bytes_are_in_the_table_however_little_time_there_is(name: str) -> None:
    """Under what they belong to, or as others, or as not looked at."""
    value = [b"x" * 9000, VALUES[name], {"more": samples.texts(9000)}]
    data, *beside = pickled(value)
    once = Figures(1.0, len(data), *beside)
    for seconds in (0.0, 1e-3):
        hurried = Spend(9.0, seconds, seconds, seconds, -1.0)
        cost = explain(value, {}, "obj", measure=lambda *_: once, spend=hurried)
        assert cost.inband + cost.outband == once.bytes
        assert sum(part.inband + part.outband for part in cost.children) >= 0.9 * once.bytes


def test_a_part_that_cannot_stand_alone_is_not_measured() -> None:
    def only_whole(whole: Any, reducers: Any, known: Any, seconds: float) -> Figures:
        if whole is not value:
            raise TypeError("not alone")
        return by_bytes(whole, reducers, known, seconds)

    value = [samples.texts(100), samples.texts(200)]
    cost = cost_of(value, measure=only_whole)
    assert [c.seconds for c in cost.children] == [None, None]


def test_it_can_be_read() -> None:
    value = {"a": np.zeros(10**6), "b": samples.texts(10**5)}
    lines = str(cost_of(value)).splitlines()
    assert lines[0].split() == ["time", "share", "pickled", "copied", "directly", "path", "type"]
    assert lines[1].split()[-3:] == ["obj", "dict", "(2)"]
    assert lines[2].split()[:3] == ["8", "s", "86%"]
    assert lines[2].index("8 s") + 3 == lines[0].index("time") + 4
    assert lines[2].index("['a']") - lines[1].index("obj") == 2
    assert lines[2].endswith("['a']  ndarray float64 (1000000,)")
    cost = cost_of({"<b>": [1] * 5000})
    page = samples.html(cost)
    assert "[&#x27;&lt;b&gt;&#x27;]" in page
    assert page.count("<tr ") == 1 + len(list(all_of(cost)))
    assert "<li>a &lt; b</li>" in samples.html(replace(cost, advice=("a < b",)))
