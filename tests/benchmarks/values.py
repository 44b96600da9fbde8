"""The values that are serialized and deserialized: the same for every contestant. Data alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

MB = 1_000_000


@dataclass
class Point:
    """A small instance, as one has them by the thousand."""

    x: float
    y: float
    label: str


def array(divisor: int = 1) -> Any:
    """100 MB of float64."""
    return np.arange(100 * MB // 8 // divisor, dtype=np.float64)


def strided(divisor: int = 1) -> Any:
    """100 MB that don't lie together: every second column of a table with 200."""
    return array(divisor).repeat(2).reshape(-1, 200)[:, ::2]


def arrays(divisor: int = 1) -> Any:
    """1000 arrays of 100 kB."""
    return {f"array {n}": np.full(MB // 80, float(n)) for n in range(1000 // divisor)}


def numeric(divisor: int = 1) -> Any:
    """A frame of 1 M rows and eight columns, floats and integers."""
    import pandas as pd

    rows = MB // divisor
    kinds = (np.float64, np.int64, np.float32, np.int32) * 2
    return pd.DataFrame({f"column {n}": np.arange(rows, dtype=k) for n, k in enumerate(kinds)})


def objects(divisor: int = 1) -> Any:
    """1 M different strings, as Python's objects."""
    return _strings(divisor, object)


def arrow(divisor: int = 1) -> Any:
    """The same, as Arrow's."""
    return _strings(divisor, "string[pyarrow]")


def _strings(divisor: int, dtype: Any) -> Any:
    import pandas as pd

    rows = range(MB // divisor)
    names = pd.Series([f"name {n}" for n in rows], dtype=dtype)
    return pd.DataFrame({"number": np.arange(len(rows)), "name": names})


def ints(divisor: int = 1) -> Any:
    """A list of 1 M integers, most of them larger than those that Python keeps ready."""
    return list(range(MB // divisor))


def points(divisor: int = 1) -> Any:
    """100 k instances of a small class."""
    return [Point(float(n), -float(n), f"p{n % 100}") for n in range(MB // 10 // divisor)]


def text(divisor: int = 1) -> Any:
    """20 MB of bytes."""
    return bytes(range(256)) * (20 * MB // 256 // divisor)


def function(divisor: int = 1) -> Any:
    """A notebook's function with 50 MB in its closure: it can only travel by value."""
    weights = array(2 * divisor)

    def weighted(n: int) -> float:
        return float(weights[n])

    weighted.__module__ = "__main__"
    return weighted


_ALL = array, strided, arrays, numeric, objects, arrow, ints, points, text, function
VALUES: dict[str, Callable[[int], Any]] = {make.__name__: make for make in _ALL}
"""By the key of its row."""


def same(value: Any, other: Any) -> bool:
    """Whether what came back is what was given."""
    if type(value) is not type(other):
        return False
    if isinstance(value, np.ndarray):
        return value.dtype == other.dtype and np.array_equal(value, other)
    if isinstance(value, dict):
        return value.keys() == other.keys() and all(same(value[k], other[k]) for k in value)
    if callable(value):
        cells = [f.__closure__[0].cell_contents for f in (value, other)]
        return value is not other and same(*cells) and value(7) == other(7)
    if hasattr(value, "equals"):
        return bool(value.dtypes.equals(other.dtypes) and value.equals(other))
    return bool(value == other)
