"""What is put comes back equal, with the same objects shared, in the same layout: properties.

Of tables: `tests/unit/serialization/test_libraries.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import workbench as wb
from tests.patience import THOROUGH
from workbench.engine.base import Engine

# Some values small enough to travel inside messages, some in a segment.
SIZES = st.sampled_from([0, 1, 7, 3000])
LAYOUTS: list[Callable[[Any], Any]] = [
    lambda a: a, np.asfortranarray, lambda a: a[::2, 1:4], lambda a: a[::-1], lambda a: a.T,
]  # fmt: skip
DTYPES = hnp.scalar_dtypes() | hnp.array_dtypes(allow_subarrays=True)


@dataclass
class Node:
    left: Any
    right: Any


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Any dtype without objects, any layout."""
    dtype, n = draw(DTYPES).base, draw(SIZES)
    some = np.frombuffer(draw(st.binary(min_size=8, max_size=8)), np.uint8)
    data = np.resize(some, n * 6 * max(dtype.itemsize, 1))
    return draw(st.sampled_from(LAYOUTS))(np.ndarray((n, 6), dtype, data))


ATOMS = st.one_of(
    st.none(), st.integers(), st.floats(), st.text(), st.dates(), st.complex_numbers(),
    st.sampled_from([b"large" * 5000, "groß" * 5000]),
)  # fmt: skip
SHARED = st.one_of(
    arrays(), SIZES.map(bytearray), st.just([]), st.builds(dict),
)  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn) -> Any:
    """Containers in containers, in which what can be shared is: some of it is there twice."""
    leaves = draw(st.lists(SHARED, min_size=1, max_size=4))
    some = st.sampled_from(leaves) | ATOMS  # an element of a list drawn once: the very object
    value = draw(
        st.recursive(
            some,
            lambda inner: st.one_of(
                st.lists(inner, max_size=4),
                st.tuples(inner, inner),
                st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=4),
                st.builds(Node, inner, inner),
            ),
            max_leaves=8,
        )
    )
    top = [value, *leaves]
    if draw(st.booleans()):
        top.append(top)  # contains itself
    return top


def assert_same(a: Any, b: Any, twins: dict[int, Any]) -> None:
    """Equal, and ``twins`` maps each object of one to its one counterpart in the other."""
    assert type(a) is type(b)
    if not isinstance(a, str | bytes | int | float | complex | tuple | None):
        if id(a) in twins:
            assert twins[id(a)] is b, "shared there, not here"
            return
        assert all(b is not other for other in twins.values()), "shared here, not there"
        twins[id(a)] = b
    match a:
        case np.ndarray():
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert a.tobytes() == b.tobytes()
            assert b.flags.f_contiguous if a.flags.f_contiguous else b.flags.c_contiguous
        case list() | tuple():
            assert len(a) == len(b)
            for one, other in zip(a, b, strict=True):
                assert_same(one, other, twins)
        case dict():
            assert [*a] == [*b]
            for key in a:
                assert_same(a[key], b[key], twins)
        case Node():
            assert_same(a.left, b.left, twins)
            assert_same(a.right, b.right, twins)
        case float() | complex():
            assert repr(a) == repr(b)
        case _:
            assert a == b


def test_any_value_comes_back_as_it_was(session: Engine) -> None:
    echo = wb.remote(lambda value: value)
    read = wb.remote(lambda refs: wb.get(refs[0]))
    ways: dict[str, Callable[[Any], Any]] = {
        "put": lambda value: wb.get(wb.put(value)),
        "copy": lambda value: wb.get(wb.put(value), copy=True),
        "a task's argument": lambda value: wb.get(echo.remote(value)),
        "a task's argument by ref": lambda value: wb.get(echo.remote(wb.put(value))),
        "got in a task": lambda value: wb.get(read.remote([wb.put(value)])),
    }

    @given(graphs(), st.sampled_from([*ways]))
    @settings(
        max_examples=400 if THOROUGH else 15,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    def check(value: Any, way: str) -> None:
        got = ways[way](value)
        assert_same(value, got, {})
        for one in got:
            if isinstance(one, np.ndarray) and one.size:
                assert one.flags.writeable == (way == "copy")

    check()
