"""Values come back as they were, inline and from an extent, and arrays without a copy."""

from __future__ import annotations

import contextlib
import enum
import gc
import pickle
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.unit.serialization.samples import Pair, extent_of, looped
from workbench.errors import SerializationError
from workbench.expressions import describe
from workbench.serialization import codec
from workbench.serialization.scratch import LARGE_PIECE, Scratch


def inline(value: Any, copy: bool = False) -> Any:
    return codec.deserialize_inline(codec.serialize(value, {}).inline(), copy)


def stored(value: Any) -> Any:
    serialized = codec.serialize(value, {})
    if not serialized.size:  # None has nothing to store
        return codec.deserialize_inline(serialized.inline())
    return codec.deserialize(serialized.header(), extent_of(serialized))


WAYS = {"inline": inline, "stored": stored}


@pytest.fixture(params=WAYS)
def travel(request: pytest.FixtureRequest) -> Any:
    """There and back, one way or the other."""
    return WAYS[request.param]


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


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(graphs())
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    """Equal, with the same objects shared, in the same layout."""
    for name, way in WAYS.items():
        got = way(value)
        assert_same(value, got, {})
        assert not any(one.flags.writeable for one in got if isinstance(one, np.ndarray)), name


PLAIN = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.dates()
    ),
    lambda it: st.one_of(st.lists(it), st.tuples(it, it), st.dictionaries(st.text(), it)),
    max_leaves=10,
)


@given(PLAIN)
def test_plain_values_take_a_shorter_way(value: Any) -> None:
    small, whole = codec.serialize_small(value), codec.serialize(value, {})
    if small is not None:
        assert small.inline() == whole.inline()
        assert (small.inband, small.outband, small.size) == (whole.inband, 0, whole.size)


def test_a_copy_is_private_and_writable() -> None:
    for value in (np.arange(3), [np.arange(3)]):
        got = inline(value, copy=True)
        array = got if isinstance(value, np.ndarray) else got[0]
        array[0] = 7
        assert array.tolist() == [7, 1, 2]


def explode() -> None:
    raise ImportError("No module named 'elsewhere'")


class Unreadable:
    def __reduce__(self) -> Any:
        return explode, ()


def test_what_cannot_be_rebuilt_says_so() -> None:
    for way in WAYS.values():
        with pytest.raises(SerializationError, match="ImportError: No module named 'elsewhere'"):
            way([Unreadable(), np.arange(10)])


@given(st.binary(max_size=50))
def test_junk_is_an_error_of_our_own(junk: bytes) -> None:
    """Headers come from processes of the same user; what is broken must still not crash."""
    if junk[:1] in (b"P", b"e", b"f", b"E", b"F"):
        junk = junk[:1] + b"\x80\x05" + junk[1:] + b"\x00"
    for read in (codec.deserialize_inline, lambda j: codec.deserialize(j, np.zeros(8, np.uint8))):
        if junk[:1] != b"N":
            # MemoryError: bytes of a length that no machine has.
            with pytest.raises((SerializationError, MemoryError)):
                read(junk)


class Shapeless:
    """Its shape is an error, or says what is of no use."""

    dtype = np.dtype("f8")

    def __init__(self, *shape: Any) -> None:
        self.given = shape

    @property
    def shape(self) -> Any:
        return (1 // len(self.given), *self.given)


def test_descriptions_are_short() -> None:
    assert describe(np.zeros((3, 4))) == "ndarray float64 (3, 4)"
    assert describe({"a": 1}) == "dict (1)"
    assert describe(pd.DataFrame({"a": [1, 2]})) == "DataFrame (2, 1)"
    assert describe(Shapeless()) == "Shapeless"
    assert describe(Shapeless("odd", -3)) == "Shapeless float64"


COLLECTING: list[bool] = []


def look() -> None:
    COLLECTING.append(gc.isenabled())


class Looks:
    def __reduce__(self) -> Any:
        return look, ()


@pytest.mark.parametrize("fails", [False, True])
def test_the_garbage_collector_rests_while_many_objects_are_built(fails: bool) -> None:
    """And goes on afterwards, whatever happened; unless it was off before."""
    few = codec.serialize([Looks()], {}).inline()
    many = codec.serialize([*range(50_000), Looks(), *[Unreadable()] * fails], {}).inline()
    COLLECTING.clear()
    codec.deserialize_inline(few)
    for was_on in (True, False):
        (gc.enable if was_on else gc.disable)()
        try:
            with pytest.raises(SerializationError) if fails else contextlib.nullcontext():
                codec.deserialize_inline(many)
            assert gc.isenabled() == was_on
        finally:
            gc.enable()
    assert COLLECTING[0]
    assert not any(COLLECTING[1:])


def test_who_changes_a_dtype_changes_nobody_elses() -> None:
    """Headers are read once, but for dtypes that can be changed in place."""
    points = np.zeros(3, [("x", "f8"), ("y", "f8")])
    header = codec.serialize(points, {}).header()
    extent = np.zeros(points.nbytes, np.uint8)
    first = codec.deserialize(header, extent)
    first.dtype.names = ("a", "b")
    assert codec.deserialize(header, extent).dtype.names == ("x", "y")


@pytest.mark.parametrize("dtype", ["f8", ">i4", "M8[ns]", "U2"])
def test_a_header_that_was_read_before_says_the_same(dtype: str) -> None:
    array = np.zeros((2, 3), dtype, order="F")
    header = codec.serialize(array, {}).header()
    extent = np.zeros(array.nbytes, np.uint8)
    for _ in range(2):
        found = codec.deserialize(header, extent)
        assert (found.dtype, found.shape) == (array.dtype, (2, 3))
        assert found.flags.f_contiguous


def test_metadata_of_a_dtype_may_be_anything_cloudpickle_takes() -> None:
    array = np.zeros(3, np.dtype("f8", metadata={"unit": lambda: "m"}))
    got = codec.deserialize_inline(codec.serialize(array, {}).inline())
    assert got.dtype.metadata["unit"]() == "m"
    with pytest.raises(SerializationError, match="lock"):
        codec.serialize(np.zeros(3, np.dtype("f8", metadata={"lock": threading.Lock()})), {})


@pytest.mark.parametrize("code", "cbB?hHiIlLqQnNfdP")
def test_memoryviews_of_all_formats_that_python_has(travel: Any, code: str) -> None:
    view = memoryview(bytes(range(64))).cast(code)
    for part in (view, view[::2], view[:0], view.cast("B").cast(code, [2, len(view) // 2])):  # type: ignore[call-overload]
        got = travel(part)
        assert (got.format, got.shape) == (part.format, part.shape)
        assert got.tobytes() == part.tobytes()
        assert got.readonly


@pytest.mark.parametrize("view", [slice(None), slice(8, 24)])
def test_a_memoryview_of_a_bytearray_is_one_of_it(travel: Any, view: slice) -> None:
    owner = bytearray(32)
    there, part = travel((owner, memoryview(owner)[view].cast("i").toreadonly()))
    there[view.start or 0] = 7
    assert (part[0], part.readonly, part.shape) == (7, True, (len(range(32)[view]) // 4,))


def test_a_memoryview_may_be_a_key(travel: Any) -> None:
    for key in (memoryview(b"abcd" * 9).cast("b"), memoryview(b"abcd" * 9)[::-2]):
        got = travel([{key}, {key: 1}, frozenset([key])])
        assert got == [{key}, {key: 1}, frozenset([key])]
    assert inline({key: 1}, copy=True) == {key: 1}


def test_a_released_memoryview_is_refused_as_such() -> None:
    view = memoryview(b"x")
    view.release()
    with pytest.raises(SerializationError, match="memoryview"):
        codec.serialize(view, {})
    with pytest.raises(SerializationError) as caught:
        codec.serialize([view], {})
    assert "deep" not in str(caught.value)


def test_scratch_memory_is_used_again_and_nothing_is_mixed_up() -> None:
    scratch = Scratch()
    large = [bytes([n]) * LARGE_PIECE for n in range(3)]
    assert any(piece is large[0] for piece in codec.serialize([1, large[0], 2], {}).stream)
    values = [
        [list(range(n, n + 400_000)), large[0], "x" * 1000, large[1], list(range(n))]
        for n in (1, 300_000)
    ]
    seen: set[int] = set()
    for value in [*values, 1, *values]:
        serialized = codec.serialize(value, {}, scratch=scratch)
        if seen and serialized.chunks:
            assert {id(chunk) for chunk in serialized.chunks} & seen
        seen |= {id(chunk) for chunk in serialized.chunks}
        assert sum(map(len, serialized.stream)) == serialized.inband
        got = codec.deserialize(serialized.header(), extent_of(serialized))
        serialized.stream.clear()
        scratch.give_back(serialized.chunks)
        assert got == value
    first, second = (codec.serialize(value, {}, scratch=scratch) for value in values)
    assert not {*map(id, first.chunks)} & {*map(id, second.chunks)}, "two streams in one chunk"
    assert codec.deserialize(first.header(), extent_of(first)) == values[0]


MODEL = "class Model:\n  count = 0\n  def top(self): return limit"


def test_a_class_of_this_process_is_not_changed_by_reading_its_instance() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__", "limit": 1}
    exec(MODEL, namespace)
    model, kind = namespace["Model"](), namespace["Model"]
    stored = codec.serialize([model, kind], {}).inline()
    kind.count, namespace["limit"] = 5, 2
    again, same = codec.deserialize_inline(stored)
    assert same is kind
    assert (again.count, again.top(), kind().top()) == (5, 2, 2)


def test_a_class_of_another_process_is_what_came_last() -> None:
    code = (
        "import sys; from workbench.serialization import codec\n"
        "for text in sys.argv[1:]: made = codec.deserialize_inline(bytes.fromhex(text))\n"
        "print(made.count, made.top())"
    )
    namespace: dict[str, Any] = {"__name__": "__main__", "limit": 1}
    exec(MODEL, namespace)
    model, streams = namespace["Model"](), []
    for count in range(2):
        namespace["Model"].count = namespace["limit"] = count
        streams.append(codec.serialize(model, {}).inline().hex())
    assert subprocess.check_output([sys.executable, "-c", code, *streams]) == b"1 1\n"


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "other",
    [
        Number.ONE, Text("a"), Pair(1, 2), OrderedDict(a=1), np.float64(1), np.bool_(True), 1j, {1},
        range(3), object(), len, int, np.ones(1), "x" * 10_000, b"x" * 10_000, [1] * 100, looped(),
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
