"""Reducers for objects that can't be pickled but offer their data to other libraries: by Arrow's
PyCapsule interface, or DLPack. Used only if the same class can be rebuilt from that data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from workbench.serialization.arrays import Array, Reducer
from workbench.serialization.libraries import writable

Maker = Callable[[Any], Any]

CPU = 1
"""DLPack's number for ordinary memory, ``kDLCPU``."""

_OFFERS = ("__arrow_c_array__", "__arrow_c_stream__", "__dlpack__")

_PICKLED = frozenset({"builtins", "dask", "numpy", "pandas", "polars", "scipy", "torch", "xarray"})
"""Packages whose classes offer such data, but can be pickled."""


def find(kind: type) -> Reducer | None:
    """Return the reducer for a type that offers its data; None: it doesn't, or can be pickled."""
    return _reduce if _offers(kind, _OFFERS) else None


def _offers(kind: type, names: Iterable[str]) -> bool:
    return any(hasattr(kind, name) for name in names) and not any(
        _package(base) in _PICKLED for base in kind.__mro__[:-1]
    )


def _package(kind: type) -> str:
    return str(kind.__module__).partition(".")[0]


def _reduce(value: Any) -> Any:
    """Reduce by its own pickle (not jax), else by Arrow or DLPack."""
    if _is_copied(value) and (other := _by_dlpack(value)) is not None:
        return other
    try:
        reduced = value.__reduce_ex__(5)
        _check_state(value)
        return reduced
    except (MemoryError, RecursionError):
        raise
    except Exception:
        other = _by_arrow(value) or _by_dlpack(value)
        if other is None:
            raise
        return other


def _has_all(again: Any, value: Any) -> bool:
    """True if the rebuilt ``again`` has all attributes of ``value`` besides its data.

    Attributes of plain types are compared; those of other types need only exist.
    """
    new = _attributes(again)
    return all(
        name in new and (type(part) not in _PLAIN or _is_equal(part, new[name]))
        for name, part in _attributes(value).items()
    )


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes, including those in slots."""
    state = object.__getstate__(value)
    parts = state if type(state) is tuple else (state,)
    return {name: part for each in parts for name, part in (each or {}).items()}


def _is_equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and (one == other or repr(one) == repr(other))  # NaN


_PLAIN = frozenset({bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset})


def _is_copied(value: Any) -> bool:
    """True if it is a jax array that DLPack can describe (its own pickle would copy all bytes): one
    without a weak type, which gives way to others'."""
    kind = type(value)
    return (_package(kind), kind.__name__) == ("jaxlib", "ArrayImpl") and not value.weak_type


def _check_state(value: Any) -> None:
    """Raise if a plain object keeps something that can't be pickled: a C part of its library."""
    kind = type(value)
    plain = all(getattr(kind, n, None) is getattr(object, n, None) for n in _PICKLING)
    for part in vars(value).values() if plain and hasattr(value, "__dict__") else ():
        if type(part).__name__ == "PyCapsule" or _package(type(part)) == _package(kind):
            part.__reduce_ex__(5)


_PICKLING = ("__getstate__", "__reduce__", "__reduce_ex__")


# -- Arrow -----------------------------------------------------------------------------------------


def _by_arrow(value: Any) -> Any:
    """Reduce by its Arrow data; None if that lacks something."""
    kind = type(value)
    if is_read_once(kind) or find_spec("pyarrow") is None:
        return None
    for read in _readers(kind):
        with suppress(Exception):  # it has an array but no table, or wrong data
            data = read(value)
            data.validate()
            made = from_arrow(kind, data)
            if _shape(read(made)) == _shape(data) and _has_all(made, value):
                return from_arrow, (kind, data)
    return None


def _readers(kind: type) -> Iterator[Maker]:
    """Yield functions that read its Arrow data. Tables first: they keep the columns' metadata."""
    import pyarrow as pa

    if hasattr(kind, "__arrow_c_array__"):
        yield from (pa.record_batch, pa.array)
    if hasattr(kind, "__arrow_c_stream__"):
        yield from (pa.table, pa.chunked_array)


def _shape(data: Any) -> tuple[Any, int]:
    return getattr(data, "schema", None) or data.type, len(data)


def is_read_once(kind: type) -> bool:
    """True if it is a stream: reading it would consume its owner's data."""
    return hasattr(kind, "read_all") or hasattr(kind, "__next__")


def from_arrow(kind: Any, data: Any) -> Any:
    """Build an object of a class from Arrow data, by its library's own function."""
    package = _package(kind)
    maker = _ARROW_MAKERS.get((package, kind.__name__), "")
    made = getattr(sys.modules[package], maker)(data) if maker else kind.from_arrow(data)
    return _checked(kind, made)


_ARROW_MAKERS = {("nanoarrow", "Array"): "Array", ("nanoarrow", "CArray"): "c_array"}
"""The package's function, by package and class; others have a class method ``from_arrow``."""


def _checked(kind: type, made: Any) -> Any:
    if type(made) is not kind:
        raise TypeError(f"its library makes {type(made).__qualname__} of its data")
    return made


# -- DLPack ----------------------------------------------------------------------------------------


def _by_dlpack(value: Any) -> Any:
    """Reduce by its DLPack array; None if that lacks something."""
    with suppress(Exception):  # it is on several devices, or has a dtype that numpy doesn't know
        if value.__dlpack_device__()[0] == CPU:
            array = np.from_dlpack(value)
            how = type(value), _array_module(value), array
            made = from_dlpack(*how)
            again = np.from_dlpack(made)
            is_same = (again.shape, again.dtype) == (array.shape, array.dtype)
            if is_same and _has_all(made, value):
                return from_dlpack, how
    return None


def _array_module(value: Any) -> str:
    """Return the module with its ``from_dlpack``, as in the array API; '': the class has one."""
    if hasattr(type(value), "from_dlpack"):
        return ""
    if hasattr(value, "__array_namespace__"):
        return str(value.__array_namespace__().__name__)
    return _package(type(value))


def from_dlpack(kind: Any, module: str, array: Array) -> Any:
    """Build an array of another library on the memory of a numpy array.

    A library without a read-only flag (DLPack 1 has one) gets pages that are copied on the first
    write.
    """
    owner: Any = import_module(module) if module else kind
    make = owner.from_dlpack
    try:
        return _checked(kind, make(array))
    except BufferError:
        return _checked(kind, make(writable(array)))


# -- advice about what can't be stored anyway ------------------------------------------------------


def advice(value: Any) -> str:
    """Advise which data of an unpicklable value to store instead; '' if it offers none."""
    kind = type(value)  # not `isinstance`: a proxy's `__class__` may raise
    if issubclass(kind, type) or not _offers(kind, _INSTEAD):
        return ""
    if is_read_once(kind):
        return f"{kind.__name__} can be read only once: store what it reads, `pyarrow.table(x)`."
    what = next(what for name, what in _INSTEAD.items() if hasattr(kind, name))
    return f"Store the data of the {kind.__name__}: `{what}(x)`. It is read where it lies."


_INSTEAD = {
    "__arrow_c_stream__": "pyarrow.table",
    "__arrow_c_array__": "pyarrow.array",
    "__dlpack__": "numpy.from_dlpack",
    "__array__": "numpy.asarray",
}
