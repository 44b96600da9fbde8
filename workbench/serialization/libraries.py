"""Reducers for libraries whose own ones copy, pickle too much, or ignore the read-only flag.

A library is imported only after an object of it was met.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from workbench.serialization.arrays import Array, Reducer, owner_of, reduce_masked, reduce_subclass

MAPPED = 256 << 10
"""Bytes from which an array is mapped copy-on-write instead of copied: a mapping takes as long as
copying that much, and a file descriptor."""

SPARE = 4096
"""Bytes that an Arrow object's buffers may have beyond what it shows of them."""


def find(kind: type) -> Reducer | None:
    """Return the reducer for a type of one of these libraries; None: its own is as good."""
    package = str(kind.__module__).partition(".")[0]  # `str`: somebody may have set something else
    if package == "polars" and find_spec("pyarrow") is None:
        return None
    if package == "pyarrow" and hasattr(kind, "get_total_buffer_size"):
        return _reduce_arrow
    found = _REDUCERS.get((package, kind.__name__))
    if package in ("numpy", "pandas"):  # their classes have many bases, none of them below
        return _reduce_without_cache if found is None and _may_cache(kind) else found
    for base in kind.__mro__:
        module, reducer = _WITH_SUBCLASSES.get(base.__name__, ("", None))
        if module == base.__module__:
            return reducer
    return found


# -- multiprocessing: a proxy pickles its manager's key only for children of this process ----------


def _reduce_proxy(proxy: Any) -> Any:
    """Include the key: a stored proxy stays among its owner's processes, as with children."""
    rebuild, (cls, token, serializer, options) = proxy.__reduce__()
    key = {"authkey": bytes(proxy._authkey)}
    return rebuild, (cls, token, serializer, {**options, **key})


# -- Arrow: the pickle of a slice has all of the buffers that it was sliced from -------------------


def _reduce_arrow(data: Any) -> Any:
    try:
        held, shown = data.get_total_buffer_size(), data.nbytes
    except Exception:  # types that don't know
        return NotImplemented
    if held <= shown * 5 // 4 + SPARE:
        return NotImplemented
    import pyarrow as pa

    what = _ARROW_KINDS.get(type(data).__name__, "array")
    try:
        table = data
        if what != "table":
            table = pa.Table.from_batches([data]) if what == "batch" else pa.table({"": data})
    except Exception:  # extension types that a table can't hold
        return NotImplemented
    sink = pa.BufferOutputStream()  # Arrow's own stream has only the slice: one copy
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream = sink.getvalue()
    if pa.ipc.open_stream(stream).schema != table.schema:  # extension types not registered
        return NotImplemented
    return _read_arrow, (stream, what)


_ARROW_KINDS = {"Table": "table", "RecordBatch": "batch", "ChunkedArray": "chunked"}


def _read_arrow(stream: Any, what: str) -> Any:
    import pyarrow as pa

    table = pa.ipc.open_stream(stream).read_all()
    if what == "table":
        return table
    if what == "batch":
        return pa.RecordBatch.from_arrays([*map(_piece, table.columns)], schema=table.schema)
    return table.column(0) if what == "chunked" else _piece(table.column(0))


def _piece(column: Any) -> Any:
    """Return a column's only chunk, or an empty one: no rows are written as no chunk."""
    return column.chunk(0) if column.num_chunks else column.combine_chunks()


def _reduce_arrow_tensor(tensor: Any) -> Any:
    return _arrow_tensor, (tensor.to_numpy(), tensor.dim_names)


def _arrow_tensor(array: Array, names: Any) -> Any:
    import pyarrow as pa

    # `to_numpy` returns an array that can be made writable, whatever the tensor was.
    return pa.Tensor.from_numpy(writable(array), names or None)


# -- pandas: an Arrow-backed column copies itself into one chunk, even if it has only one ----------


def _reduce_arrow_backed(column: Any) -> Any:
    data = column.__arrow_array__()
    if getattr(data, "num_chunks", 0) != 1:
        return NotImplemented
    return _arrow_backed, (column.dtype, data.chunk(0))


def _arrow_backed(dtype: Any, data: Any) -> Any:
    return dtype.__from_arrow__(data)


def _reduce_without_cache(thing: Any) -> Any:
    """Leave out cached results, which are recomputed on use and aren't part of the value."""
    reduced = thing.__reduce_ex__(5)
    if type(reduced) is not tuple or len(reduced) < 3:
        return reduced
    made, args, state, *more = reduced
    if type(state) is dict:
        state = _without(state, "_cache") or None
    elif type(state) is tuple and type(state[-1]) is dict:
        attributes = _without(state[-1], "_cache")
        state = (*state[:-1], attributes) if attributes else state[:-1]
    return made, args, state, *more


@lru_cache(256)
def _may_cache(kind: type) -> bool:
    """True for pandas' arrays that wrap numpy's (dates), and for its extension dtypes."""
    return any(base.__name__ in ("NDArrayBacked", "ExtensionDtype") for base in kind.__mro__)


def _without(attributes: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name not in names}


# -- scipy: whether indices are sorted and unique is computed on first use -------------------------


def _reduce_sparse(matrix: Any) -> Any:
    made, args, state, *more = matrix.__reduce_ex__(5)
    if type(state) is not dict:
        return NotImplemented
    return made, args, _without(state, "_has_canonical_format", "_has_sorted_indices"), *more


# -- polars: through Arrow, whose buffers go out of band -------------------------------------------


def _reduce_polars(data: Any) -> Any:
    import polars as pl

    frame = data if isinstance(data, pl.DataFrame) else data.to_frame()
    if not frame.width or pl.Object in frame.dtypes:  # Arrow has no rows, nothing but pointers
        return NotImplemented
    try:
        table = frame.to_arrow(compat_level=pl.CompatLevel.newest())
    except Exception:  # dtypes that Arrow lacks: Int128
        return NotImplemented
    ordered = {
        number: flags["SORTED_DESC"]
        for number, flags in enumerate(column.flags for column in frame)
        if flags["SORTED_ASC"] or flags["SORTED_DESC"]
    }
    return _read_polars, (table, frame.columns, isinstance(data, pl.Series), ordered)


def _read_polars(
    table: Any, names: list[str], is_series: bool, ordered: dict[int, bool] | None = None
) -> Any:
    """Build the frame; ``ordered`` maps each sorted column to whether it descends."""
    import polars as pl

    frame: Any = pl.from_arrow(table)
    frame.columns = names  # a column without a name has got one
    for number, descending in (ordered or {}).items():
        column = frame.to_series(number)
        frame.replace_column(number, column.set_sorted(descending=descending))
    return frame.to_series() if is_series else frame


# -- matplotlib: drawing writes to the arrays of transforms, boxes and paths -----------------------

# Drawing only reads the arrays of what is shown (a line's data, an image).

_ONLY_READ = frozenset({"_A"})
"""Attributes with what is shown."""

SMALL = 4096
"""Bytes of an array up to which it is pickled in-band, and not copied out of a buffer."""


class OwnArray:
    """Stands for an array that must be writable after unpickling."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __reduce__(self) -> Any:
        if self.array.nbytes <= SMALL:  # most are of a few numbers
            return self.array.__reduce__()
        return _copied, (self.array,)


def _copied(array: Array) -> Array:
    return array.copy(order="K")


def _reduce_with_own_arrays(thing: Any) -> Any:
    reduced = thing.__reduce_ex__(2)
    if type(reduced) is not tuple or len(reduced) < 3 or type(reduced[2]) is not dict:
        return NotImplemented
    made, arguments, state, *rest = reduced
    state = {
        name: OwnArray(value) if isinstance(value, np.ndarray) and name not in _ONLY_READ else value
        for name, value in state.items()
    }
    return made, arguments, state, *rest


def _reduce_callbacks(registry: Any) -> Any:
    """Reduce with the next number derived from the callbacks: each pickle of it would count up."""
    made, arguments, state, *_ = registry.__reduce_ex__(2)
    numbers = (number for each in state["callbacks"].values() for number in each)
    return made, arguments, {**state, "_cid_gen": 1 + max(numbers, default=-1)}


# -- torch: tensors on the CPU ---------------------------------------------------------------------


def _reduce_tensor(tensor: Any) -> Any:
    torch = sys.modules["torch"]
    plain = tensor.detach()
    if plain.device.type != "cpu" or plain.layout is not torch.strided or plain.is_quantized:
        return NotImplemented
    # No public API tells whether it has hooks: torch warns of those that it leaves out.
    if tensor.__dict__ or tensor._backward_hooks or plain.is_conj() or plain.is_neg():
        return NotImplemented
    try:
        array = plain.numpy()
    except TypeError:  # bfloat16 and other dtypes that numpy lacks: by their bytes
        array = plain.contiguous().reshape(-1).view(torch.uint8).numpy()
    return _tensor, (type(tensor), array, plain.dtype, tuple(plain.shape), tensor.requires_grad)


def _tensor(
    kind: type, array: Array, dtype: Any, shape: tuple[int, ...], requires_grad: bool
) -> Any:
    import torch

    if array.dtype == np.uint8 and dtype is not torch.uint8:
        tensor = torch.empty(shape, dtype=dtype)
        if array.size:
            tensor = torch.from_numpy(writable(array)).view(dtype).reshape(shape)
    else:
        tensor = torch.from_numpy(writable(array))
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def writable(array: Array) -> Array:
    """Return a writable array of the same values, for libraries that have no read-only flag.

    A write to the store's read-only pages would end the process. A large array of a segment is
    mapped copy-on-write: only changed pages are copied (see `memory.segment.ReadOnly`).
    """
    if array.flags.writeable:
        return array
    owner = owner_of(array)
    private = getattr(owner, "private", None)
    if private is None or array.nbytes < MAPPED:
        return array.copy(order="K")
    offset = array.ctypes.data - np.frombuffer(owner, np.uint8).ctypes.data
    try:
        mapping, start = private(offset, array.nbytes, array)
    except OSError:
        return array.copy(order="K")
    return np.ndarray(array.shape, array.dtype, mapping, start, array.strides)


# -- objects that pickle would take, but by a number that is valid only in this process ------------


def _refuse(obj: Any) -> Any:
    kind = type(obj)
    raise TypeError(
        f"cannot pickle {kind.__qualname__!r} object: it is known by a number that "
        "means something else in another process"
    )


_REDUCERS: dict[tuple[str, str], Reducer] = {
    ("ctypes", "CDLL"): _refuse,
    ("matplotlib", "CallbackRegistry"): _reduce_callbacks,
    ("multiprocessing", "Connection"): _refuse,  # its copy would close the descriptor
    ("numpy", "chararray"): reduce_subclass,  # of numpy.char, which it doesn't import either
    ("numpy", "MaskedArray"): reduce_masked,  # of numpy.ma, which numpy doesn't import
    ("pandas", "ArrowExtensionArray"): _reduce_arrow_backed,
    ("pandas", "ArrowStringArray"): _reduce_arrow_backed,
    ("pandas", "ArrowStringArrayNumpySemantics"): _reduce_arrow_backed,
    ("polars", "DataFrame"): _reduce_polars,
    ("polars", "Series"): _reduce_polars,
    ("pyarrow", "Tensor"): _reduce_arrow_tensor,
    **{
        ("scipy", f"{form}_{kind}"): _reduce_sparse
        for form in ("bsr", "csc", "csr")
        for kind in ("array", "matrix")
    },
    ("torch", "Parameter"): _reduce_tensor,
    ("torch", "Tensor"): _reduce_tensor,
}
"""By package and class name."""

_WITH_SUBCLASSES: dict[str, tuple[str, Reducer]] = {
    "BaseProxy": ("multiprocessing.managers", _reduce_proxy),
    "Colormap": ("matplotlib.colors", _reduce_with_own_arrays),
    "Path": ("matplotlib.path", _reduce_with_own_arrays),
    "QuadMesh": ("matplotlib.collections", _reduce_with_own_arrays),
    "TransformNode": ("matplotlib.transforms", _reduce_with_own_arrays),
}
"""By class name, with its module: also for subclasses."""
