"""Plain values take a shorter way, with the same result."""

from __future__ import annotations

import enum
import pickle
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.serialization import codec

atoms = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
    | st.binary(max_size=9)
)  # fmt: skip
plain = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)  # fmt: skip


@given(plain)
def test_it_is_the_pickle_of_the_long_way(value: Any) -> None:
    small, whole = codec.serialize_small(value), codec.serialize(value, {})
    if small is not None:
        assert small.inline() == whole.inline()
        assert (small.inband, small.outband, small.size) == (whole.inband, 0, whole.size)


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


class Pair(NamedTuple):
    a: int
    b: int


ring: list[Any] = []
ring.append(ring)


@pytest.mark.parametrize(
    "other",
    [
        Number.ONE, Text("a"), Pair(1, 2), OrderedDict(a=1), np.float64(1), np.bool_(True), 1j, {1},
        range(3), object(), len, int, np.ones(1), "x" * 10_000, b"x" * 10_000, [1] * 100, ring,
        ([Pair(1, 2)], {}), {"a": {"b": Number.ONE}}, {Pair(1, 2): 1},
    ],
    ids=lambda other: str(type(other).__name__),
)  # fmt: skip
def test_anything_else_takes_the_long_way(other: Any) -> None:
    assert codec.serialize_small(other) is None


def test_what_a_call_gets_takes_the_short_way() -> None:
    small = codec.serialize_small(((1, "a", [2.5, None]), {"b": (True, b"c")}))
    assert small is not None
    assert pickle.loads(small.stream[0]) == ((1, "a", [2.5, None]), {"b": (True, b"c")})
