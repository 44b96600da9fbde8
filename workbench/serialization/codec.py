"""Values ↔ a header and buffers: the formats, the fast paths, what a put costs.

A header is opaque to everyone else. Its first byte says what follows:

====  ======================================================================================
N     ``None``
P     a pickle, all in band
E     a pickled list of lengths: those of the buffers, then the pickle stream's
F     a pickled ``(dtype, shape, order)``: the bytes are a plain array's
e, f  as E and F, and the bytes themselves follow: an inline object
!     not ours: a refusal of the core's, ``!code\\ntext``
====  ======================================================================================

The bytes lie in an extent: each buffer begins at a multiple of 64, the pickle stream comes last.
Inline they follow the header, each at a multiple of 16.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.errors import SerializationError, StoreFullError, WorkbenchError
from workbench.serialization.arrays import Array, Reducer, out_of_band
from workbench.serialization.failures import cannot_pickle, cannot_rebuild
from workbench.serialization.pickler import GlobalsRead, Pickler
from workbench.serialization.tracing import DebugPickler
from workbench.units import human_bytes

BUFFER_ALIGN = 64
"""A cache line, and the widest vector register: what numpy's own allocator aims at."""

INLINE_ALIGN = 16
"""What malloc gives, so that arrays in a message's bytes are aligned for any number."""

LARGE_PIECE = 256 << 10
"""Bytes of a piece of the stream from which it is stored as it is, instead of joined to others."""

CHUNK = 1 << 20
"""Bytes of scratch memory at a time."""

MOST_SPARE = 16
"""Chunks kept for the next stream."""

MANY_OBJECTS = 64 << 10
"""Bytes of a pickle that may build so many objects that the garbage collector would run often."""

_NONE = b"N"
_LENGTH = struct.Struct("<I")


class Where(NamedTuple):
    """What an object is called, and where it is being read, should that fail."""

    name: str = "object"
    side: str = "in this process"


_SOMEWHERE = Where()

Load = Callable[[memoryview, Sequence[Any], Where], Any]


@dataclass(slots=True)
class Serialized:
    """A value taken apart; the buffers still belong to the value.

    Attributes
    ----------
    type : str
        The value's, as a person calls it.
    array : bytes
        Of a plain array: dtype, shape and order, pickled. Else empty.
    buffers : list of array
        What went out of band, of any strides.
    stream : list of bytes-like
        The pickle, in pieces; empty for a plain array.
    seconds : float
        How long it took.
    globals_read : list of GlobalsRead
        Of the functions in it that were pickled by value.
    chunks : list of bytearray
        The scratch memory in which the stream lies.
    """

    type: str
    array: bytes = b""
    buffers: list[Array] = field(default_factory=list)
    stream: list[Any] = field(default_factory=list)
    seconds: float = 0.0
    inband: int = 0
    outband: int = 0
    globals_read: list[GlobalsRead] = field(default_factory=list)
    chunks: list[bytearray] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of an extent that holds it."""
        return sum(_aligned(b.nbytes) for b in self.buffers) + sum(map(len, self.stream))

    def header(self) -> bytes:
        """What a reader of the extent needs besides the extent."""
        if self.array:
            return b"F" + self.array
        return b"E" + pickle.dumps([*(b.nbytes for b in self.buffers), self.inband], 5)

    def inline(self) -> bytes:
        """Everything in one header."""
        if not self.buffers:
            return b"".join([b"P", *self.stream]) if self.stream else _NONE
        header = self.header()
        pieces = [header[:1].lower(), _LENGTH.pack(len(header) - 1), header[1:]]
        end = len(header) + _LENGTH.size
        for offset, part in self.layout(INLINE_ALIGN, _aligned(end, INLINE_ALIGN)):
            pieces += [bytes(offset - end), part.tobytes()]
            end = offset + part.nbytes
        return b"".join(pieces)

    def layout(self, align: int = BUFFER_ALIGN, offset: int = 0) -> Iterator[tuple[int, Array]]:
        """Where in the extent each part goes: (offset in bytes, array of any strides)."""
        for buffer in self.buffers:
            yield offset, buffer
            offset += _aligned(buffer.nbytes, align)
        small: list[Any] = []  # neighbours, to be joined
        for piece in [*self.stream, b""]:
            if piece and len(piece) < LARGE_PIECE:
                small.append(piece)
                continue
            for run in (b"".join(small), piece):
                if run:
                    yield offset, np.frombuffer(run, np.uint8)
                    offset += len(run)
            small.clear()


class Scratch:
    """Memory for streams on their way into the store, used again and again.

    New memory has to be had from the machine page by page, which takes as long as copying into
    it. Any thread may use it; each chunk is in one stream at a time.
    """

    def __init__(self) -> None:
        self._spare: list[bytearray] = []

    def take(self) -> bytearray:
        """A chunk of `CHUNK` bytes."""
        try:
            return self._spare.pop()
        except IndexError:
            return bytearray(CHUNK)

    def give_back(self, chunks: list[bytearray]) -> None:
        """Nobody reads these streams any more."""
        self._spare += chunks
        del self._spare[MOST_SPARE:]


class _Sink:
    """Where the pickler writes: into chunks, and large pieces as they are. Ends what has no end.

    A Python method, so that Ctrl-C is heard whenever a frame is full, whatever is pickled.
    """

    def __init__(self, limit: int, scratch: Scratch) -> None:
        self.chunks: list[bytearray] = []
        self._pieces: list[Any] = []
        self._scratch = scratch
        self._left = limit
        self._filled = 0  # of the last chunk; 0: its piece is complete

    def write(self, data: Any) -> None:
        size = len(data)
        self._left -= size
        if self._left < 0:
            raise StoreFullError(
                f"Pickling was given up after {human_bytes(sum(map(len, self.pieces())))}, which "
                "is more than the whole store holds. Start a larger one (`%workbench start "
                "--memory …`, `init(memory=…)`), unless something in the object has no end."
            )
        if size >= LARGE_PIECE or not self._pieces:  # most pickles are but one piece
            self._complete()
            self._pieces.append(data)
            return
        if not self._filled or self._filled + size > CHUNK:
            self._complete()
            self.chunks.append(self._scratch.take())
        end = self._filled + size
        self.chunks[-1][self._filled : end] = data
        self._filled = end

    def _complete(self) -> None:
        if self._filled:
            self._pieces.append(memoryview(self.chunks[-1])[: self._filled])
            self._filled = 0

    def pieces(self) -> list[Any]:
        """All that was written, in order."""
        self._complete()
        return self._pieces


def serialize(
    value: Any,
    reducers: Mapping[type, Reducer],
    *,
    parts: Callable[[], Mapping[str, Any]] | None = None,
    limit: int = 1 << 62,
    trace: bool = False,
    scratch: Scratch | None = None,
) -> Serialized:
    """Take a value apart without copying its buffers.

    Parameters
    ----------
    value : object
        Anything pickle protocol 5 or cloudpickle can take.
    reducers : mapping of type → reducer
        Custom reducers, asked before all others.
    parts : callable() → mapping of name → value, optional
        Asked when it fails: what to look through, and what each is called. Default: the value,
        by its type.
    limit : int
        Bytes of pickle after which to give up.
    trace : bool
        Use the pickler in Python, which shows the stack of objects when something breaks.
    scratch : Scratch, optional
        Where the stream lies until the caller gives its ``chunks`` back.

    Raises
    ------
    SerializationError
        If something inside can't be pickled; the message says what and where.
    StoreFullError
        If the pickle passes the limit.
    """
    if value is None:
        return Serialized("NoneType")
    started = time.perf_counter()
    name = type_name(type(value))
    if type(value) is np.ndarray and not value.dtype.hasobject and np.ndarray not in reducers:
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        with contextlib.suppress(Exception):  # metadata of the dtype may hold anything
            meta = pickle.dumps((value.dtype, value.shape, order), 5)
            flat = value.T if order == "F" else value
            seconds = time.perf_counter() - started
            return Serialized(name, meta, [flat], [], seconds, len(meta), value.nbytes)
    buffers: list[Array] = []
    sink = _Sink(limit, scratch or Scratch())

    def keep(buffer: pickle.PickleBuffer) -> None:
        buffers.append(out_of_band(buffer))

    try:
        if trace:
            pickler: Any = DebugPickler(reducers, name, sink, keep)
            pickler.trace(value)
        else:
            pickler = Pickler(sink, reducers, keep)
            pickler.dump(value)
    except (StoreFullError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, WorkbenchError) and not isinstance(error, SerializationError):
            raise  # says more already: a ref of another session
        named = {name: value} if parts is None else parts()
        raise cannot_pickle(error, named, reducers) from error
    seconds = time.perf_counter() - started
    stream = sink.pieces()
    inband = sum(map(len, stream))
    outband = sum(b.nbytes for b in buffers)
    return Serialized(
        name, b"", buffers, stream, seconds, inband, outband, pickler.globals_read, sink.chunks
    )


def inband_of(header: bytes) -> int:
    """Bytes that have to be unpickled to build an object: all of an inline one's, at most."""
    if header[:1] == b"F":
        return len(header)
    return int(pickle.loads(memoryview(header)[1:])[-1]) if header[:1] == b"E" else len(header)


def _load(stream: memoryview, buffers: Sequence[Any], where: Where) -> Any:
    # A collection while nothing but new objects come finds no garbage, and looks at all of them
    # again and again: two thirds of the time for 100 000 instances. It comes once, afterwards.
    paused = len(stream) >= MANY_OBJECTS and gc.isenabled()
    try:
        if paused:
            gc.disable()  # inside: Ctrl-C may come as it returns
        return pickle.loads(stream, buffers=buffers)
    except MemoryError:
        raise
    except Exception as error:
        if isinstance(error, WorkbenchError) and not isinstance(error, SerializationError):
            raise  # says more already: a ref of another session, a get that ran out of time
        raise cannot_rebuild(error, stream, buffers, *where) from error
    finally:
        if paused:
            gc.enable()


def deserialize_inline(
    header: bytes, copy: bool = False, where: Where = _SOMEWHERE, load: Load = _load
) -> Any:
    """Build the value of an inline object.

    Arrays in it show the header's own bytes, read-only; with ``copy`` they are private.

    Raises
    ------
    SerializationError
        If it can't be rebuilt in this process.
    """
    kind = header[:1]
    if kind == _NONE:
        return None
    if kind == b"P":
        return load(memoryview(header)[1:], (), where)
    if kind not in (b"e", b"f"):
        raise SerializationError(_UNKNOWN.format(kind))
    try:
        end = 1 + _LENGTH.size + _LENGTH.unpack_from(header, 1)[0]
    except struct.error:
        raise SerializationError(_UNKNOWN.format(kind)) from None
    data = np.frombuffer(bytearray(header) if copy else header, np.uint8)
    outside = kind.upper() + header[1 + _LENGTH.size : end]
    return deserialize(outside, data[_aligned(end, INLINE_ALIGN) :], where, INLINE_ALIGN, load)


def deserialize(
    header: bytes,
    extent: npt.NDArray[np.uint8],
    where: Where = _SOMEWHERE,
    align: int = BUFFER_ALIGN,
    load: Load = _load,
) -> Any:
    """Build the value of an object in an extent. Its buffers are the extent's own bytes.

    Parameters
    ----------
    header, extent
        What `Serialized.header` gave, and the bytes laid out as `Serialized.layout` said.
    where : Where
        For the error.
    load : callable(stream, buffers, where)
        Unpickles what of it is pickled.

    Raises
    ------
    SerializationError
        If it can't be rebuilt in this process; the message says what in it, and why.
    """
    kind = header[:1]
    meta = memoryview(header)[1:]
    if kind == b"F":
        dtype, shape, order = load(meta, (), where)
        try:
            return np.ndarray(shape, dtype, extent, order=order)
        except (TypeError, ValueError) as error:
            raise cannot_rebuild(error, b"", (), *where) from error
    if kind != b"E":
        raise SerializationError(_UNKNOWN.format(kind))
    offset = 0
    parts = []
    *lengths, streamed = _load(meta, (), where)
    for length in lengths:
        parts.append(extent[offset : offset + length])
        offset += _aligned(length, align)
    return load(extent.data[offset : offset + streamed], parts, where)


def is_all_of(array: Array, header: bytes) -> bool:
    """Whether an array that begins where an object does is what one gets from that object.

    Parameters
    ----------
    header : bytes
        The object's.
    """
    if header[:1] != b"F":
        return False
    dtype, shape, order = _load(memoryview(header)[1:], (), _SOMEWHERE)
    whole = array.flags.c_contiguous if order == "C" else array.flags.f_contiguous
    return bool(whole and array.shape == shape and array.dtype == dtype)


def describe(value: Any) -> str:
    """One short line for people: ``ndarray float64 (1797, 64)``, ``dict (3)``, ``Model``."""
    kind = type(value)
    name = type_name(kind)
    if kind in _SIZED:
        return f"{name} ({len(value)})"
    if kind is FunctionType or isinstance(value, type):
        return f"{name} {value.__qualname__}"
    try:
        dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    except Exception:  # a property of the object's own
        return name
    if isinstance(value, np.generic):
        return name  # which says it all
    if isinstance(dtype, np.dtype):
        name = f"{name} {dtype}"
    return f"{name} {shape}" if type(shape) is tuple else name


_SIZED = frozenset({list, tuple, dict, set, frozenset, str, bytes, bytearray})


def type_name(cls: type) -> str:
    """``DataFrame``, ``Model``: as a person calls it."""
    return cls.__qualname__


def _aligned(nbytes: int, align: int = BUFFER_ALIGN) -> int:
    return -(-nbytes // align) * align


_UNKNOWN = "An object has a format this version doesn't know: {!r}."
