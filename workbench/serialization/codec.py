"""Values ↔ a header and buffers: the formats, the fast paths, what a put costs.

A header is opaque to everyone else. Its first byte says what follows:

====  ======================================================================================
N     ``None``
P     a pickle, all in band
B     a pickled pair: a pickle stream and its out-of-band buffers (small, inline)
A     a pickled ``(dtype, shape, order)``, then a plain array's bytes (small, inline)
E     a pickled list of lengths: an extent with a pickle stream after its buffers
F     a pickled ``(dtype, shape, order)``: an extent that is a plain array
!     not ours: a refusal of the core's, ``!code\\ntext``
====  ======================================================================================

In an extent each buffer begins at a multiple of 64 bytes, the pickle stream comes last.
"""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.errors import SerializationError, WorkbenchError
from workbench.serialization.pickler import Pickler, Reducer

BUFFER_ALIGN = 64
"""A cache line, and the widest vector register: what numpy's own allocator aims at."""

Array = npt.NDArray[Any]

_NONE = b"N"


@dataclass(slots=True)
class Serialized:
    """A value taken apart; the buffers still belong to the value.

    ``size`` is what the buffers and the stream need in an extent, ``inband`` and ``outband``
    the bytes of each kind.
    """

    type: str
    kind: bytes
    meta: bytes
    parts: list[Array] = field(default_factory=list)
    seconds: float = 0.0
    inband: int = 0
    outband: int = 0

    @property
    def size(self) -> int:
        """Bytes of an extent that holds it."""
        return sum(_aligned(p.nbytes) for p in self.parts)

    @property
    def buffers(self) -> int:
        """How many buffers went out of band."""
        return len(self.parts) - (self.kind == b"E")

    def inline(self) -> bytes:
        """Everything in one header."""
        if self.kind == b"F":
            return b"A" + pickle.dumps((self.meta, self.parts[0].tobytes()), 5)
        if self.kind != b"E":
            return self.kind + self.meta
        *buffers, stream = self.parts
        if not buffers:
            return b"P" + stream.tobytes()
        return b"B" + pickle.dumps((stream.tobytes(), [b.tobytes() for b in buffers]), 5)

    def header(self) -> bytes:
        """What a reader of the extent needs besides the extent."""
        return self.kind + self.meta

    def layout(self) -> list[tuple[int, Array]]:
        """Where in the extent each part goes."""
        places = []
        offset = 0
        for part in self.parts:
            places.append((offset, part))
            offset += _aligned(part.nbytes)
        return places


def serialize(value: Any, reducers: Mapping[type, Reducer]) -> Serialized:
    """Take a value apart without copying its buffers.

    Parameters
    ----------
    value : object
        Anything pickle protocol 5 or cloudpickle can take.
    reducers : mapping of type → reducer
        Custom reducers, asked before cloudpickle's.

    Raises
    ------
    SerializationError
        If something inside can't be pickled; the message says what.
    """
    if value is None:
        return Serialized("NoneType", _NONE, b"")
    started = time.perf_counter()
    if type(value) is np.ndarray and not value.dtype.hasobject and np.ndarray not in reducers:
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        meta = pickle.dumps((value.dtype, value.shape, order), 5)
        flat = value.T if order == "F" else value
        seconds = time.perf_counter() - started
        return Serialized("ndarray", b"F", meta, [flat], seconds, len(meta), value.nbytes)
    buffers: list[Array] = []
    file = io.BytesIO()
    try:
        Pickler(file, reducers, lambda b: buffers.append(_as_bytes(b))).dump(value)
    except (WorkbenchError, MemoryError):  # ours say more already: a ref of another session
        raise
    except Exception as error:
        raise SerializationError(_failure(value, error)) from error
    stream = np.frombuffer(file.getbuffer(), np.uint8)
    lengths = pickle.dumps([b.nbytes for b in (*buffers, stream)], 5)
    outband = sum(b.nbytes for b in buffers)
    seconds = time.perf_counter() - started
    return Serialized(
        type_name(type(value)), b"E", lengths, [*buffers, stream], seconds, stream.nbytes, outband
    )


def deserialize_inline(header: bytes, copy: bool = False) -> Any:
    """Build the value of an inline object.

    Arrays in it are read-only, as they are from an extent; with ``copy`` they are private.

    Raises
    ------
    SerializationError
        If it can't be rebuilt in this process.
    """
    kind = header[:1]
    if kind == _NONE:
        return None
    try:
        if kind == b"P":
            return pickle.loads(memoryview(header)[1:])
        if kind == b"B":
            stream, buffers = pickle.loads(memoryview(header)[1:])
            if copy:
                buffers = [bytearray(b) for b in buffers]
            return pickle.loads(stream, buffers=buffers)
        if kind == b"A":
            meta, data = pickle.loads(memoryview(header)[1:])
            return _array(meta, bytearray(data) if copy else data)
    except Exception as error:
        raise SerializationError(_unfailure(error)) from error
    raise SerializationError(f"An object has a format this version doesn't know: {kind!r}.")


def deserialize(header: bytes, extent: npt.NDArray[np.uint8]) -> Any:
    """Build the value of an object in an extent. Its buffers are the extent's own bytes.

    Raises
    ------
    SerializationError
        If it can't be rebuilt in this process.
    """
    kind = header[:1]
    try:
        if kind == b"F":
            return _array(header[1:], extent)
        if kind == b"E":
            offset = 0
            parts = []
            for length in pickle.loads(memoryview(header)[1:]):
                parts.append(extent[offset : offset + length])
                offset += _aligned(length)
            return pickle.loads(parts.pop(), buffers=parts)  # type: ignore[arg-type]
    except Exception as error:
        raise SerializationError(_unfailure(error)) from error
    raise SerializationError(f"An object has a format this version doesn't know: {kind!r}.")


def describe(value: Any) -> str:
    """One short line for people: ``ndarray float64 (1797, 64)``, ``dict (3)``, ``Model``."""
    name = type_name(type(value))
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, np.dtype):
        name = f"{name} {dtype}"
    shape = getattr(value, "shape", None)
    if type(shape) is tuple:
        return f"{name} {shape}"
    if type(value) in (list, tuple, dict, set, frozenset, str, bytes, bytearray):
        return f"{name} ({len(value)})"
    return name


def type_name(cls: type) -> str:
    """``DataFrame``, ``Model``: as a person calls it."""
    return cls.__qualname__


def _array(meta: bytes, data: Any) -> Array:
    dtype, shape, order = pickle.loads(meta)
    return np.ndarray(shape, dtype, data, order=order)


def _as_bytes(buffer: pickle.PickleBuffer) -> Array:
    try:
        return np.frombuffer(buffer.raw(), np.uint8)
    except BufferError:  # not contiguous: pickle made it in band before it asked us
        return np.frombuffer(memoryview(buffer).tobytes(), np.uint8)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // BUFFER_ALIGN) * BUFFER_ALIGN


def _failure(value: Any, error: Exception) -> str:
    return (
        f"The {type_name(type(value))} can't be serialized: {type(error).__name__}: {error}. "
        "Locks, connections, open files and generators live in one process only: leave them out "
        "(`__getstate__`), or create them inside the task that uses them."
    )


def _unfailure(error: Exception) -> str:
    return (
        f"A stored object can't be rebuilt in this process: {type(error).__name__}: {error}. "
        "Usually its class comes from a module that can't be imported here."
    )
