"""To show a value, nobody's code runs and nothing is imported; data is what it is."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import pickle
import re
import sys
import uuid
import zoneinfo
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tests.unit.serialization.samples import Pair, by_value
from workbench.expressions import describe
from workbench.report.previews import Preview, preview
from workbench.serialization import codec
from workbench.serialization.safe_load import NotBuilt


def shown(value: Any) -> Any:
    return codec.peek(codec.serialize(value, {}).inline(), None)


def without_address(preview: Preview) -> str:
    return re.sub("0x[0-9a-f]+", "", str(preview))


PARIS = zoneinfo.ZoneInfo("Europe/Paris")

HARMLESS = [
    None, True, 12**30, 1.5, 1j, "text", b"bytes", bytearray(b"more"), (1, [2, {3}]), {"a": {}},
    range(3), slice(1, 2), ..., NotImplemented, ValueError("x"), Warning("x"), Exception("x"),
    collections.Counter("aab"), collections.deque([1]), collections.OrderedDict(a=1),
    array.array("d", [1.0]), decimal.Decimal("1.1"), fractions.Fraction(1, 3),
    uuid.UUID(int=3), pathlib.Path("a"), datetime.date(2020, 1, 1), datetime.timedelta(1),
    datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), datetime.datetime(2020, 1, 1, tzinfo=PARIS),
    np.float64(1), np.datetime64("2020"), np.arange(9), np.arange(9)[::2], np.array([1, None]),
    np.ma.array([1, 2], mask=[0, 1]), np.rec.array([(1, 2)]), np.dtype("f4"), memoryview(b"abc"),
    pd.Timestamp("2020", tz=PARIS), pd.Timedelta("1s"), pd.NaT, pd.NA, pd.Period("2020"),
    pd.DataFrame({"a": [1], "s": ["x"], "o": [[1]], "t": pd.date_range("2020", periods=1, tz=PARIS),
                  "c": pd.Categorical(["a"]), "i": pd.array([None], dtype="Int64"),
                  "p": pd.period_range("2020", periods=1), "v": pd.interval_range(0, 1),
                  "r": pd.array([1], dtype="int64[pyarrow]")}),
    pd.Series([1, 2], index=pd.MultiIndex.from_product([[1], [2, 3]])), pd.Index([1, 2]),
    pl.DataFrame({"a": [1], "s": ["x"]}), pl.Series([1]), pa.table({"a": [1], "l": [[1]]}),
    pa.array([1]), pa.chunked_array([[1], [2]]), pa.schema({"t": pa.timestamp("s")}),
]  # fmt: skip


@pytest.mark.parametrize("value", HARMLESS, ids=lambda value: type(value).__name__)
def test_data_is_shown_as_it_is(value: Any) -> None:
    assert type(shown(value)) is type(value)
    assert without_address(preview(shown(value))) == without_address(preview(value))
    assert without_address(preview(shown([value]))) == without_address(preview([value]))


class Loud:
    """Anything that happens to it is heard."""

    heard: list[str] = []  # noqa: RUF012

    def __init__(self, x: Any = None) -> None:
        self.x = x
        self.heard.append("init")

    def __new__(cls, *_: Any) -> Loud:
        cls.heard.append("new")
        return super().__new__(cls)

    def __repr__(self, *_: Any) -> str:
        self.heard.append("called")
        return "loud"

    __str__ = __setstate__ = __repr__

    def __hash__(self) -> int:
        self.heard.append("hash")
        return 1


class Reduced(Loud):
    def __reduce__(self) -> Any:
        return Reduced, (1,)


def ran(*_: Any) -> Any:
    Loud.heard.append("called")


class LoudList(list[Any]):
    __setstate__ = append = extend = ran  # type: ignore[assignment]


class LoudDict(dict[Any, Any]):
    __setitem__ = ran


class Calls:
    def __reduce__(self) -> Any:
        return ran, (1,)


class Buildings(enum.Enum):
    HUT = 1


@dataclasses.dataclass(slots=True)
class Node:
    value: Any
    others: list[Any]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Loud(1), "Loud(x=1)"),
        ({Loud(): 1}, "{Loud(x=None): 1}"),
        (Reduced(), "Reduced(1)"),
        (LoudList([1, 2]), "LoudList(1, 2)"),
        (LoudDict(a=1), "LoudDict(('a', 1))"),
        (Calls(), "ran(1)"),
        (Buildings.HUT, "Buildings(1)"),
        (Pair(1, 2), "Pair(1, 2)"),
        (Node(1, [2]), "Node(value=1, others=[2])"),
        (collections.defaultdict(list, a=[Loud()]), "defaultdict(list, {'a': [Loud(…)]})"),
        (print, "print"),
        (by_value("def test(): print('ran')"), "function()"),
        (by_value("class test: pass")(), "test()"),
        (pd.DataFrame({"o": [Loud()]}), "Loud(…)"),
    ],
)
def test_nobodys_code_runs(value: Any, text: str) -> None:
    pickled = codec.serialize(value, {}).inline()
    Loud.heard.clear()
    seen = preview(codec.peek(pickled, None))
    describe(codec.peek(pickled, None))
    assert Loud.heard == []
    cells = [cell for row in seen.table.rows for cell in row] if seen.table else [seen.text]
    assert text in cells


def test_a_ring_and_a_tower_end() -> None:
    ring, tower = Node(1, []), Node(1, [])
    ring.others.append(ring)
    assert len(preview(shown(ring)).text) < 200
    for _ in range(200):
        tower = Node(tower, [])
    assert preview(shown(tower)).text.startswith("Node(value=Node(value=Node(")


DANGEROUS = [
    ("os", "system", ("true",)), ("builtins", "eval", ("1",)), ("builtins", "open", ("/",)),
    ("builtins", "bytearray", (1 << 40,)), ("builtins", "list", ()), ("numpy", "memmap", ("x",)),
    ("pandas", "read_pickle", ("x",)), ("pandas.io.excel._base", "ExcelWriter", ("x",)),
    ("pyarrow.lib", "memory_map", ("x",)), ("pyarrow.lib", "foreign_buffer", (1, 1)),
    ("torch", "load", ("x",)), ("pathlib", "Path.cwd", ()), ("builtins", "getattr", (int, "real")),
    ("workbench.serialization.safe_load", "load", (b"",)),
    ("cloudpickle.cloudpickle", "subimport", ("antigravity",)),
]  # fmt: skip


@pytest.mark.parametrize(("module", "name", "arguments"), DANGEROUS)
def test_only_makers_of_data_are_called(module: str, name: str, arguments: tuple[Any, ...]) -> None:
    words = b"".join(b"\x8c" + bytes([len(word)]) + word.encode() for word in (module, name))
    call = b"\x80\x04" + words + b"\x93" + pickle.dumps(arguments, 2)[2:-1] + b"R."
    made = codec.peek(b"P" + call, None)
    assert isinstance(made, NotBuilt) or issubclass(made, NotBuilt)
    assert "antigravity" not in sys.modules
