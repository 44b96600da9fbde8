"""Says which arrays would have the same values in a smaller type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.serialization.sampling import spread

SAMPLE = 100_000
"""Values of floats that are tried; of integers, all are."""

LEAST = 1 << 20
"""Bytes of an array below which its type doesn't matter."""


class Narrower(NamedTuple):
    """``column``: the label, in a table; ``saved``: bytes; ``tried``: values, if not all were."""

    column: Any
    dtype: str
    saved: int
    tried: int


def narrower(value: Any) -> Iterator[Narrower]:
    """Yield smaller types for an array, or for pandas' Series or the columns of its DataFrame."""
    is_pandas = type(value).__module__.partition(".")[0] == "pandas"
    is_table = is_pandas and hasattr(value, "columns")
    for label, column in value.items() if is_table else [(None, value)]:
        array = getattr(column, "values", None) if is_pandas else column
        if not isinstance(array, np.ndarray):
            continue
        if array.nbytes >= LEAST and (dtype := _smaller(array)) is not None:
            saved = array.nbytes - array.size * dtype.itemsize
            tried = SAMPLE if dtype.kind == "f" and array.size > SAMPLE else 0
            yield Narrower(label, dtype.name, saved, tried)


def _smaller(array: np.ndarray[Any, Any]) -> np.dtype[Any] | None:
    if array.dtype == np.float64:
        values = array.flat[spread(array.size, min(array.size, SAMPLE))]
        with np.errstate(all="ignore"):
            if np.array_equal(values.astype(np.float32), values, equal_nan=True):
                return np.dtype(np.float32)
    elif array.dtype == np.int64:
        least, most = array.min(), array.max()
        for dtype in map(np.dtype, ("int8", "int16", "int32")):
            if np.iinfo(dtype).min <= least and most <= np.iinfo(dtype).max:
                return dtype
    return None
