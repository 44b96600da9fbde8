"""Values that people have, and random edits of them in place. No tests."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from tests.unit.serialization.samples import Holder

EDITS = 10
"""Of each value."""


def exact(value: Any) -> Any:
    """All that a reader could see of a value, in a form that compares by its bytes."""
    kind = type(value)
    parts: Any = repr(value)
    if isinstance(value, np.ndarray):
        cells = [*map(exact, value.ravel())] if value.dtype.hasobject else value.tobytes()
        parts = str(value.dtype), value.shape, cells
    elif isinstance(value, pd.DataFrame):
        columns = [exact(value.iloc[:, n]) for n in range(value.shape[1])]
        parts = exact(value.index), exact(value.columns), columns, repr(value.attrs)
    elif isinstance(value, pd.Series):
        parts = str(value.dtype), exact(value.to_numpy()), exact(value.index), value.name
    elif isinstance(value, pd.Index):
        parts = str(value.dtype), exact(value.to_numpy()), list(value.names)
    elif isinstance(value, dict):
        parts = [(exact(k), exact(v)) for k, v in value.items()]
    elif isinstance(value, set | frozenset):
        parts = sorted(map(repr, value))
    elif isinstance(value, list | tuple):
        parts = [*map(exact, value)]
    elif isinstance(value, Holder):
        parts = exact(vars(value))
    return kind, parts


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3),
    st.binary(max_size=3), st.sampled_from([2**70, -0.0, 0.0, 1, 1.0, True, "1"]),
)  # fmt: skip
KEYS = st.one_of(st.integers(0, 5), st.sampled_from("abc"))
CELLS = st.sampled_from([0.0, -0.0, 1.0, 2.5, float("nan"), 1e300])
DTYPES = st.sampled_from(["f8", "i4", "u1", "?", "M8[s]", "S3", "U2", "c8"])


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    rows, columns = draw(st.integers(0, 6)), draw(st.integers(0, 5))
    array = np.arange(rows * columns).reshape(rows, columns).astype(draw(DTYPES))
    return draw(st.sampled_from([array, array[::2], array.T, array.ravel(), array[:, ::-1]]))


@st.composite
def frames(draw: st.DrawFn) -> Any:
    n = draw(st.integers(1, 5))
    kinds: dict[str, Any] = {
        "a": np.arange(n),
        "b": np.linspace(0, 1, n),
        "c": [f"text {i}" for i in range(n)],
        "d": pd.Categorical(["x", "y"][: n % 2 + 1] * n)[:n],
        "e": pd.date_range("2020", periods=n),
        "o": np.array([[i] for i in range(n)] + [None], object)[:-1],
    }
    names = draw(st.lists(st.sampled_from("abcdeo"), unique=True, min_size=1))
    return pd.DataFrame({name: kinds[name] for name in names})


VALUES = st.recursive(
    st.one_of(LEAVES, arrays(), frames()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=4),
        st.sets(KEYS, max_size=4),
        st.builds(lambda a, b: Holder(a=a, b=b), inner, inner),
        st.tuples(inner, inner),
    ),
    max_leaves=8,
)


MUTABLE = list, dict, set, Holder, np.ndarray, pd.DataFrame


def inner_values(value: Any) -> list[Any]:
    """Its mutable parts, itself included: each may be edited."""
    inside = vars(value) if isinstance(value, Holder) else value
    parts = inside.values() if isinstance(inside, dict) else inside
    if not isinstance(value, list | dict | tuple | Holder):
        parts = ()
    own = [value] if isinstance(value, MUTABLE) else []
    return [*own, *(each for part in parts for each in inner_values(part))]


def edit(value: Any, draw: Any) -> None:
    """Change one thing in place; sometimes to what it was."""
    new = functools.partial(draw, LEAVES)
    if isinstance(value, list):
        n = draw(st.integers(0, len(value)))
        way = draw(st.sampled_from(["insert", "set", "pop", "reverse"]))
        if way == "insert":
            value.insert(n, new())
        elif way == "set" and value:
            value[n - 1] = new()
        elif way == "pop" and value:
            value.pop(n - 1)
        else:
            value.reverse()
    elif isinstance(value, dict):
        if value and draw(st.booleans()):
            value.pop(draw(st.sampled_from(list(value))))
        else:
            value[draw(KEYS)] = new()
    elif isinstance(value, set):
        value.symmetric_difference_update({draw(KEYS)})
    elif isinstance(value, Holder):
        vars(value)[draw(st.sampled_from("abc"))] = new()
    elif isinstance(value, pd.DataFrame):
        _edit_frame(value, draw)
    elif value.size:
        index = tuple(draw(st.integers(0, n - 1)) for n in value.shape)
        flat = value[index]
        value[index] = draw(st.sampled_from([flat, 0, 1, 2])) if value.dtype.kind != "S" else b"q"


def _edit_frame(frame: Any, draw: Any) -> None:
    column = draw(st.sampled_from(list(frame.columns)))
    way = draw(st.sampled_from(["new", "cell", "drop", "index", "attrs", "rename", "insert"]))
    if way == "new":
        frame[draw(st.sampled_from("abcdxyz"))] = draw(CELLS)
    elif way == "cell":
        row = draw(st.integers(0, len(frame) - 1))
        frame.iloc[row, list(frame.columns).index(column)] = frame[column].iloc[0]
    elif way == "drop" and frame.shape[1] > 1:
        del frame[column]
    elif way == "index":
        frame.index = frame.index[::-1]
    elif way == "attrs":
        frame.attrs["by"] = draw(LEAVES)
    elif way == "rename":
        frame.index.name = draw(st.sampled_from(["i", "j", None]))
    elif way == "insert" and "first" not in frame:
        frame.insert(0, "first", draw(CELLS))
