"""What can't be pickled and offers its data (Arrow's PyCapsules, DLPack) comes as its own class."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.serialization.samples import extent_of
from workbench.errors import SerializationError
from workbench.serialization import codec

N = 10_000
TABLE = pa.table({"n": np.arange(N), "s": ["text"] * N}, metadata={"made": "here"})


class InC:
    """As a class in C: no attributes that pickle could take."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("no default __reduce__ due to non-trivial __cinit__")


class Frame(InC):
    """Rows, as arro3's Table and many have them."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.data.__arrow_c_stream__(requested_schema)

    @classmethod
    def from_arrow(cls, data: Any) -> Any:
        return cls(pa.table(data))


class Column(InC):
    """One array."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.data.__arrow_c_array__(requested_schema)

    @classmethod
    def from_arrow(cls, data: Any) -> Self:
        return cls(pa.array(data))


class Holder:
    """A plain object with something in it that nobody can pickle."""

    def __init__(self, data: Any) -> None:
        self.owner = data
        self.capsule = data.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.owner.__arrow_c_stream__(requested_schema)

    @classmethod
    def from_arrow(cls, data: Any) -> Self:
        made = cls.__new__(cls)
        made.owner, made.capsule = pa.table(data), None
        return made


class Vector(InC):
    """An array that DLPack describes. ``knows_flags``: whether it reads DLPack's version 1."""

    knows_flags = True
    device = (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    @classmethod
    def from_dlpack(cls, array: Any) -> Any:
        if not cls.knows_flags:
            array.__dlpack__()
        return cls(np.from_dlpack(array))


class OldVector(Vector):
    knows_flags = False


class OfNamespace(InC):
    """As the array API has it."""

    __dlpack__ = Vector.__dlpack__
    __dlpack_device__ = Vector.__dlpack_device__
    device = (1, 0)

    def __array_namespace__(self) -> Any:
        return sys.modules[__name__]


def from_dlpack(array: Any) -> OfNamespace:
    """What the namespace has."""
    return OfNamespace(np.from_dlpack(array))


def there_and_back(value: Any) -> tuple[Any, Any, codec.Serialized]:
    serialized = codec.serialize({"inside": [value]}, {})
    extent = extent_of(serialized)
    got = codec.deserialize(serialized.header(), extent)["inside"][0]
    inline = codec.deserialize_inline(codec.serialize(value, {}).inline())
    assert type(inline) is type(got) is type(value)
    return got, extent, serialized


@pytest.mark.parametrize(
    "value",
    [
        Frame(TABLE.slice(5, 100)),
        Frame(TABLE[:0]),
        Column(TABLE["n"].chunk(0)),
        Column(pa.array([None, {"a": [1]}] * N)),
        Holder(TABLE),
    ],
    ids=["slice", "no rows", "array", "struct", "a part in C"],
)
def test_arrow_data_comes_as_its_class(value: Any) -> None:
    read = pa.array if isinstance(value, Column) else pa.table
    got, extent, serialized = there_and_back(value)
    before, after = read(value), read(got)
    assert after.equals(before)
    if isinstance(after, pa.Table):
        assert after.schema.equals(before.schema, check_metadata=True)
    assert serialized.inband < 2000
    assert serialized.outband <= before.nbytes * 1.1 + 1000
    again = codec.serialize(got, {})
    large = [buffer for buffer in again.buffers if buffer.nbytes > 1000]
    assert all(np.may_share_memory(buffer, extent) for buffer in large)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(float(N)), np.arange(N)[::-3], np.arange(N).reshape(100, -1).T,
        np.zeros((0, 3), np.int16), np.array(5), np.arange(N) % 2 == 0,
    ],
    ids=["plain", "backwards", "transposed", "empty", "0-d", "bool"],
)  # fmt: skip
@pytest.mark.parametrize("kind", [Vector, OldVector, OfNamespace])
def test_dlpack_data_comes_as_its_class(kind: Any, array: Any) -> None:
    got, extent, serialized = there_and_back(kind(array))
    assert np.array_equal(got.data, array)
    assert got.data.dtype == array.dtype
    assert serialized.outband == array.nbytes
    if kind is not OldVector and array.size > 1:  # in a segment: see test_interchange of processes
        assert np.may_share_memory(got.data, extent)
        assert not got.data.flags.writeable


class Wrapper:
    """It can be pickled, and has more than its data."""

    __dlpack__ = __array__ = __arrow_c_stream__ = None  # nobody needs them

    def __init__(self, data: Any) -> None:
        self.data, self.title = data, "mine"


def test_what_can_be_pickled_is() -> None:
    got, extent, _ = there_and_back(Wrapper(np.arange(N)))
    assert got.title == "mine"
    assert np.may_share_memory(got.data, extent)


def raises(self: Any, **options: Any) -> Any:
    raise ZeroDivisionError("not today")


def made(base: type, **attributes: Any) -> Any:
    """An instance of a class that is another in one way."""
    return type("Other", (base,), {"__module__": __name__, **attributes})(
        TABLE if base is Frame else np.arange(9)
    )


def builds(build: Callable[[Any, Any], Any]) -> Any:
    return classmethod(build)


class NoWay(InC):
    """Nobody could build it again."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.data)


class Slotted(Frame):
    __slots__ = ("meta",)


class Defaulted(Frame):
    """It has more than its data, which its library builds again."""

    meta: Any = None

    @classmethod
    def from_arrow(cls, data: Any) -> Any:
        return labelled(cls(pa.table(data)), "m")


def labelled(value: Any, meta: Any = "km") -> Any:
    value.meta = meta
    return value


TABLE_ADVICE, ARRAY_ADVICE = "pyarrow.table(x)", "numpy.from_dlpack(x)"

NOT_BUILT = {
    "raises": (made(Frame, __arrow_c_stream__=raises), TABLE_ADVICE),
    "no capsule": (made(Frame, __arrow_c_stream__=lambda self, _=None: b"none"), TABLE_ADVICE),
    "another class": (made(Frame, from_arrow=builds(lambda cls, data: pa.table(data))),
                      TABLE_ADVICE),
    "fewer rows": (made(Frame, from_arrow=builds(lambda cls, data: cls(pa.table(data)[:3]))),
                   TABLE_ADVICE),
    "on a GPU": (made(Vector, device=(2, 0)), ARRAY_ADVICE),
    "another shape": (made(Vector, from_dlpack=builds(lambda cls, array: cls(array[:-1]))),
                      ARRAY_ADVICE),
    "busy": (made(Vector, __dlpack__=raises), ARRAY_ADVICE),
    "attribute": (labelled(made(Frame, meta=None)), TABLE_ADVICE),
    "slot": (labelled(Slotted(TABLE)), TABLE_ADVICE),
    "another default": (labelled(Defaulted(TABLE)), TABLE_ADVICE),
    "no way back": (NoWay(np.arange(9)), "numpy.asarray(x)"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_BUILT)
def test_what_cannot_be_built_again_is_an_error(name: str) -> None:
    value, advice = NOT_BUILT[name]
    for inside in (value, [value], {"a": value}):
        with pytest.raises(SerializationError) as caught:
            codec.serialize(inside, {})
        text = str(caught.value)
        assert "no default __reduce__ due to non-trivial __cinit__" in text
        assert f"Store the data of the {type(value).__name__}: `{advice}`" in text


def test_attributes_that_its_library_builds_are_no_obstacle() -> None:
    got, _, _ = there_and_back(labelled(Defaulted(TABLE), "m"))
    assert got.meta == "m"


def test_what_can_be_read_once_is_not_read() -> None:
    reader = TABLE.to_reader()
    with pytest.raises(SerializationError, match="can be read only once"):
        codec.serialize([reader], {})
    assert reader.read_all().equals(TABLE)
