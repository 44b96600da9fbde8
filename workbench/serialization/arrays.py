"""Reducers that put the buffers of numpy's arrays and of memoryviews out of band.

A pickler's buffers must be contiguous and of a format that Python knows, which leaves out strided
arrays, dates and much else. So the pickler gets a stand-in of one byte that carries the array;
`out_of_band` takes the array back. Any array is then copied once, into the store, and rebuilt by
a plain call of ``numpy.ndarray`` on those bytes.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Iterator, Mapping
from pickle import PickleBuffer
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Reducer = Callable[[Any], Any]
Reducers = Mapping[type, Reducer]
"""Reducers by exact type; each returns what `__reduce__` of an instance would."""


def address(array: Array) -> int:
    """Return the address of the array's first element, in this process."""
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


def owner_of(array: Array) -> Any:
    """Return what has the memory that the array shows, through all arrays and memoryviews, and
    the blocks of `shared_memory`, each of which ``shows`` an array's."""
    owner: Any = array
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
        if isinstance(owner, ctypes.Array):
            owner = getattr(owner, "shows", owner)
    return owner


def has_gaps(dtype: np.dtype[Any]) -> bool:
    """True if there are bytes between its fields, which mean nothing and may not be copied."""
    if dtype.subdtype is not None:
        return has_gaps(dtype.subdtype[0])
    if dtype.fields is None:
        return False
    kinds = [field[0] for field in dtype.fields.values()]
    return sum(kind.itemsize for kind in kinds) != dtype.itemsize or any(map(has_gaps, kinds))


def parts_of(array: Array) -> Iterator[Array]:
    """Yield the parts of an array that have no fields."""
    if array.dtype.names is None:
        yield array
    for name in array.dtype.names or ():
        yield from parts_of(array[name])


class _ArrayStandIn(bytearray):
    """Replaces its array in the pickler. Writable, so that the rebuilt array can be."""

    __slots__ = ("array",)

    array: Array


def reduce_array(array: Array) -> Any:
    """Reduce a plain array of any strides, and any dtype without objects."""
    if array.dtype.hasobject:
        return NotImplemented
    stand_in = _ArrayStandIn(1)
    if array.flags.c_contiguous or not array.flags.f_contiguous:
        stand_in.array = array
        return np.ndarray, (array.shape, array.dtype, PickleBuffer(stand_in))
    stand_in.array = array.T
    return np.ndarray, (array.shape, array.dtype, PickleBuffer(stand_in), 0, None, "F")


def out_of_band(buffer: PickleBuffer) -> Array:
    """Return the array of an out-of-band buffer: the one that was reduced, or plain bytes."""
    with memoryview(buffer) as view:
        owner = view.obj
    if type(owner) is _ArrayStandIn:
        return owner.array
    return np.frombuffer(buffer.raw(), np.uint8)


def _reduce_memmap(array: np.memmap[Any, Any]) -> Any:
    """Reduce as a plain array: a reader may not have the file."""
    return _as_subclass, (np.ndarray, array.view(np.ndarray), array.dtype)


def _reduce_element(element: Any) -> Any:
    """Reduce an element of a structured array so that it shows the array's memory there, too."""
    if element.base is None or element.dtype.hasobject:
        return NotImplemented
    return operator.getitem, (np.asarray(element), ())


def reduce_subclass(array: Array) -> Any:
    """Reduce an instance of numpy's own subclasses, which add methods but no data."""
    if array.dtype.hasobject:
        return NotImplemented
    return _as_subclass, (type(array), array.view(np.ndarray), array.dtype)


def reduce_own_subclass(array: Array) -> Any:
    """Reduce an array of a person's class, with its attributes, which numpy leaves out."""
    if array.dtype.hasobject:
        return NotImplemented
    make, arguments = _as_subclass, (type(array), array.view(np.ndarray), array.dtype)
    return make, arguments, vars(array), None, None, _set_attributes


def has_attributes(kind: type) -> bool:
    """True if it is a person's subclass of ndarray that leaves pickling to numpy."""
    ways = ("__reduce__", "__reduce_ex__", "__setstate__")
    return (
        issubclass(kind, np.ndarray)
        and kind.__module__.partition(".")[0] != "numpy"
        and kind.__dictoffset__ != 0
        and all(getattr(kind, way) is getattr(np.ndarray, way) for way in ways)
    )


def _set_attributes(array: Any, attributes: dict[str, Any]) -> None:
    vars(array).update(attributes)


def _as_subclass(cls: type[Array], array: Array, dtype: np.dtype[Any]) -> Array:
    return array.view(dtype, cls)


def reduce_masked(array: Any) -> Any:
    if array.dtype.hasobject:
        return NotImplemented
    mask = None if array.mask is np.ma.nomask else array.mask
    return _as_masked, (array.data, mask, array.fill_value, array.hardmask)


def _as_masked(data: Array, mask: Array | None, fill_value: Any, hard: bool = False) -> Any:
    known: Any = np.ma.nomask if mask is None else mask
    return np.ma.MaskedArray(data, known, fill_value=fill_value, hard_mask=hard)


_CAST = frozenset("cnNqQP")
"""Formats of memoryviews that numpy changes or rejects."""

_HASHED = frozenset("cbB")
"""Formats whose views have a hash, if they are read-only and their owner has one."""


class _Hashable(np.ndarray[Any, Any]):
    """Bytes shown by a hashable memoryview: the view's hash needs that of its owner."""

    __hash__ = object.__hash__  # type: ignore[assignment]


MOST_SHARED = 1_000_000
"""Bytes of a bytearray up to which its views travel as views of it: it is copied with them."""


def _reduce_memoryview(view: memoryview) -> Any:
    try:
        if type(view.obj) is bytearray and 0 < len(view.obj) <= MOST_SHARED and view.c_contiguous:
            begin = address(np.asarray(view.cast("B"))) - address(np.frombuffer(view.obj, np.uint8))
            how = begin, begin + view.nbytes, view.format, view.shape
            return _part_of, (view.obj, *how, view.readonly)
        cast, shape = view.format, view.shape
        if cast in _CAST:
            array = np.asarray(view.cast("B") if view.c_contiguous else bytearray(view.tobytes()))
        else:
            cast, array = "", np.asarray(memoryview(view))
    except (ValueError, TypeError):  # it was released, or has an unknown format
        return NotImplemented
    has_hash = view.readonly and view.format in _HASHED and type(view.obj).__hash__ is not None
    return _as_memoryview, (array, cast, shape if cast else (), has_hash)


def _part_of(
    owner: bytearray, begin: int, end: int, cast: str, shape: tuple[int, ...], is_readonly: bool
) -> memoryview:
    view = memoryview(owner)[begin:end]
    view = view.toreadonly() if is_readonly else view
    return view if view.shape == shape and cast == "B" else view.cast(cast, shape)  # type: ignore[call-overload]


def _as_memoryview(array: Any, cast: str, shape: tuple[int, ...], has_hash: bool) -> memoryview:
    view = memoryview(array.view(_Hashable)).toreadonly() if has_hash else memoryview(array)
    if not cast:
        return view
    return view.cast(cast, shape) if array.size else view.cast(cast)  # type: ignore[call-overload, no-any-return]


REDUCERS: dict[type, Reducer] = {
    np.ndarray: reduce_array,
    np.memmap: _reduce_memmap,
    np.matrix: reduce_subclass,
    np.recarray: reduce_subclass,
    np.record: _reduce_element,
    np.void: _reduce_element,
    memoryview: _reduce_memoryview,
}
"""Reducers by exact type, for picklers whose buffers go out of band."""
