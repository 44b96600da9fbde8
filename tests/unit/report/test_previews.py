"""The beginning of a value: what is shown of it, and that no more of it is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from workbench.report.previews import COLUMNS, LINES, ROWS, preview


def test_an_array_is_shown_by_its_corners() -> None:
    shown = preview(np.arange(1_000_000).reshape(1000, 1000)).text
    assert shown.startswith("[[     0      1      2 ...")
    assert "999999" in shown
    assert len(shown.splitlines()) == 7


def test_arrays_of_any_kind_are_short() -> None:
    long = np.array(["x" * 100_000] * 3), np.array([{}, "y" * 100_000], dtype=object)
    for array in (np.array(5), np.zeros((0, 3)), np.zeros((4, 3, 2, 5, 6, 7)), *long):
        shown = preview(array).text
        assert shown
        assert len(shown.splitlines()) <= LINES + 1
        assert len(shown) < 4000


FRAME = {f"c{n}": list(range(100)) for n in range(10)} | {"name": ["<b>"] * 100}


@pytest.mark.parametrize(
    ("frame", "index"),
    [(pd.DataFrame(FRAME), 1), (pl.DataFrame(FRAME), 0), (pa.table(FRAME), 0)],
    ids=["pandas", "polars", "arrow"],
)
def test_a_table_is_shown_by_its_first_rows_and_columns(frame: Any, index: int) -> None:
    table = preview(frame).table
    assert table is not None
    assert table.head[index:] == tuple(f"c{n}" for n in range(COLUMNS))
    assert [row[index] for row in table.rows] == [str(n) for n in range(ROWS)]
    assert table.note == "95 more rows, 3 more columns"
    assert set(table.head[index:]) <= set(table.right)


def test_a_series_and_a_frame_of_a_persons_own_class() -> None:
    class Own(pd.DataFrame):
        pass

    table = preview(pd.Series([1.5, None], ["a", "b"], name="x")).table
    assert table is not None
    assert table[:4] == (("", "x"), (("a", "1.5"), ("b", "nan")), ("x",), "")
    own = preview(Own({"name": ["a", None]})).table
    assert own is not None
    assert own.right == ("",)
    assert preview(pd.DataFrame()).table is not None


def test_of_a_collection_the_first_items_are_read() -> None:
    class Counts:
        reprs = 0

        def __repr__(self) -> str:
            Counts.reprs += 1
            return "x" * 10_000

    shown = preview([Counts() for _ in range(1000)]).text
    assert 0 < Counts.reprs < 20
    assert len(shown) < 2000
    assert shown.endswith("…")
    assert preview({"a": np.zeros(10**6), "b": [1] * 99}).text == (
        "{'a': array(float64, (1000000,)), 'b': [1, 1, 1, 1, 1, 1, 1, 1, ...]}"
    )


def test_a_repr_that_fails_is_not_ours_to_mend() -> None:
    class Broken:
        __repr__ = None

    assert "Broken instance" in preview([Broken()]).text
