"""Values come back as they were, inline and from an extent, and arrays without a copy."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import enum
import functools
import gc
import operator
import pickle
import subprocess
import sys
import threading
from collections import OrderedDict
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.unit.serialization.extents import extent_of
from tests.unit.serialization.samples import Pair, looped
from workbench.errors import SerializationError
from workbench.serialization import codec
from workbench.serialization.expressions import describe
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


def same(a: Any, b: Any) -> bool:
    """Equal, and arrays of one dtype, shape and layout."""
    if isinstance(a, np.ndarray):
        return (
            type(a) is type(b)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and np.array_equal(a, b, equal_nan=a.dtype.kind in "fcmM")
        )
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and bool(a == b)


ARRAYS = {
    "plain": np.arange(12.0).reshape(3, 4),
    "fortran": np.asfortranarray(np.arange(12).reshape(3, 4)),
    "transposed": np.arange(12).reshape(3, 4).T,
    "strided": np.arange(24)[::2].reshape(3, 4)[:, ::-1],
    "broadcast": np.broadcast_to(np.float32(2), (3, 4)),
    "0-d": np.array(3.5),
    "empty": np.empty((0, 3), "c16"),
    "bool": np.array([True, False]),
    "datetime": np.array(["2026-11-21", "NaT"], "M8[D]"),
    "text": np.array(["a", "ü"]),
    "void": np.zeros(2, "V5"),
    "big endian": np.arange(3, dtype=">i8"),
    "structured": np.array([(1, 2.5, b"ab")], [("i", "i4"), ("f", "f8"), ("s", "S4")]),
    "subarray": np.zeros(2, dtype=[("m", "f4", (2, 2))]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_plain_arrays(name: str) -> None:
    array = ARRAYS[name]
    for way in WAYS.values():
        got = way(array)
        assert same(array, got)
        assert not got.flags.writeable
        assert got.flags.f_contiguous if array.flags.f_contiguous else got.flags.c_contiguous


@given(hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_side=4), fill=st.nothing()))
def test_any_plain_array(array: npt.NDArray[Any]) -> None:
    for way in WAYS.values():
        got = way(array)
        assert got.dtype == array.dtype
        assert got.shape == array.shape
        assert got.tobytes() == array.tobytes()


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(),
    st.dates(), hnp.arrays(st.sampled_from(["u1", "<f8", "M8[s]"]), hnp.array_shapes(max_side=3)),
)  # fmt: skip
NESTED = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner), st.tuples(inner, inner), st.dictionaries(st.text(), inner)
    ),
    max_leaves=10,
)


@given(NESTED)
def test_any_nested_value(value: Any) -> None:
    for way in WAYS.values():
        assert same(value, way(value))
    small, whole = codec.serialize_small(value), codec.serialize(value, {})
    if small is not None:  # plain values take a shorter way
        assert small.inline() == whole.inline()
        assert (small.inband, small.outband, small.size) == (whole.inband, 0, whole.size)


@dataclasses.dataclass(slots=True)
class Slotted:
    a: Any
    b: Any


VALUES = [
    None,
    True,
    12**50,
    "text",
    b"bytes",
    bytearray(b"array"),
    {1, 2},
    frozenset({1}),
    range(5),
    slice(1, 2),
    OrderedDict(b=1, a=2),
    datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC),
    Slotted(1, [2]),
    int,
    operator.attrgetter("x").__class__,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: repr(v).partition(" object at")[0])
def test_other_values(travel: Any, value: Any) -> None:
    got = travel(value)
    assert got == value
    assert type(got) is type(value)


def test_functions_of_all_kinds(travel: Any) -> None:
    k = 3

    def closure(x: int) -> int:
        return x * k

    def factorial(n: int) -> int:
        return n * factorial(n - 1) if n else 1

    assert travel(closure)(2) == 6
    assert travel(factorial)(5) == 120
    assert travel(lambda x: x + 1)(1) == 2
    assert travel(functools.partial(closure, 5))() == 15
    assert travel([1, 2].append).__self__ == [1, 2]


def test_identity_inside_a_value_is_kept(travel: Any) -> None:
    array = np.zeros(42)
    many = travel([array] * 99)
    assert all(one is many[0] for one in many)
    loop: list[Any] = []
    loop.append(loop)
    got = travel(loop)
    assert got[0] is got


def test_buffers_are_the_extents_own_bytes() -> None:
    for value in (np.arange(100.0), {"a": np.arange(100.0), "b": "text"}):
        serialized = codec.serialize(value, {})
        extent = extent_of(serialized)
        got = codec.deserialize(serialized.header(), extent)
        array = got if isinstance(value, np.ndarray) else got["a"]
        assert np.shares_memory(array, extent)
        assert array.ctypes.data % codec.BUFFER_ALIGN == extent.ctypes.data % codec.BUFFER_ALIGN


def test_serializing_copies_no_buffer() -> None:
    array = np.arange(1000.0)
    for value in (array, [array], array.T, array.reshape(10, 100).T):
        buffers = codec.serialize(value, {}).buffers
        assert any(np.shares_memory(buffer, array) for buffer in buffers)


def test_a_copy_is_private_and_writable() -> None:
    for value in (np.arange(3), [np.arange(3)]):
        got = inline(value, copy=True)
        array = got if isinstance(value, np.ndarray) else got[0]
        array[0] = 7
        assert array.tolist() == [7, 1, 2]


def test_sizes_are_counted() -> None:
    array = codec.serialize(np.zeros(1000), {})
    assert (array.outband, len(array.buffers), array.size) == (8000, 1, 8000)
    frame = codec.serialize([np.zeros(1000), b"x" * 10], {})
    assert frame.outband == 8000
    assert len(frame.buffers) == 1
    assert 10 < frame.inband < 300
    assert frame.size == 8000 + frame.inband


FAILING = [
    threading.Lock(),
    {"deep": [threading.Lock()]},
    (i for i in range(3)),
    type("Odd", (), {"__reduce__": lambda self: 7})(),
    type("Bad", (), {"__reduce__": lambda self: 1 / 0})(),
]


@pytest.mark.parametrize("value", FAILING, ids=lambda v: type(v).__name__)
def test_what_cannot_be_taken_apart_says_so(value: Any) -> None:
    with pytest.raises(SerializationError) as caught:
        codec.serialize(value, {})
    assert f"{type(value).__qualname__} can't be serialized" in str(caught.value)
    assert caught.value.__cause__ is not None
    assert caught.value.failures


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
    """Its properties raise until it has been used, or say what is of no use."""

    dtype = np.dtype("f8")

    def __init__(self, *shape: Any) -> None:
        self.given = shape

    @property
    def shape(self) -> Any:
        return (1 // len(self.given), *self.given)


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError("odd")


def test_descriptions_are_short() -> None:
    assert describe(np.zeros((3, 4))) == "ndarray float64 (3, 4)"
    assert describe({"a": 1}) == "dict (1)"
    assert describe(pd.DataFrame({"a": [1, 2]})) == "DataFrame (2, 1)"
    assert describe(Slotted(1, 2)) == "Slotted"
    assert describe(Shapeless()) == "Shapeless"
    assert describe(Shapeless(Silent(), -3)) == "Shapeless float64"


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


@pytest.mark.parametrize("dtype", ["f8", ">i4", "M8[ns]", "S3", "U2", "c16", "?", "f2"])
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


@pytest.mark.parametrize("code", "cbB")
def test_a_memoryview_may_be_a_key(travel: Any, code: str) -> None:
    for key in (memoryview(b"abcd" * 9).cast(code), memoryview(b"abcd" * 9).cast(code)[::-2]):  # type: ignore[call-overload]
        got = travel([{key}, {key: 1}, frozenset([key])])
        assert got == [{key}, {key: 1}, frozenset([key])]
    private = codec.deserialize_inline(codec.serialize({key: 1}, {}).inline(), copy=True)
    assert private == {key: 1}


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
    done = subprocess.run(
        [sys.executable, "-c", code, *streams], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1 1\n"


# -- the shorter way of plain values --------------------------------------------------------------


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
