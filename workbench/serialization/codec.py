"""Serializes values to a header and buffers, and back: the formats and the fast paths.

Only this module reads headers. The first byte says what follows:

====  ======================================================================================
N     ``None``
P     a pickle that includes all its buffers
E     a pickled list of lengths: of the buffers, then of the pickle stream
F     a pickled ``(dtype, shape, order)``: the bytes are those of a plain array
e, f  as E and F, and the bytes themselves follow: an inline object
!     not a value: an error of the core, ``!code\\ntext``
====  ======================================================================================

The bytes lie in an extent: each buffer begins at a multiple of 64, the pickle stream comes last.
Inline bytes follow the header, each buffer at a multiple of 16.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import math
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
from workbench.format import human_bytes
from workbench.serialization import safe_load
from workbench.serialization.arrays import Array, Reducers, out_of_band
from workbench.serialization.known_memory import KnownMemory, note
from workbench.serialization.pickler import Pickler
from workbench.serialization.rebuilding import Name, cannot_rebuild
from workbench.serialization.scratch import LARGE_PIECE, Scratch, Sink

BUFFER_ALIGN = 64
"""A cache line and the widest vector register; numpy's own allocator aims at it."""

INLINE_ALIGN = 16
"""Alignment that malloc gives: arrays in a message's bytes are aligned for any number."""

MANY_OBJECTS = 64 << 10
"""Bytes of a pickle that may build enough objects to trigger the garbage collector often."""

MOST_PEEKED = 64 << 10
"""Bytes of pickle that `peek` reads: about a millisecond's worth."""

NONE = b"N"
_LENGTH = struct.Struct("<I")


class Where(NamedTuple):
    """Names, for an error, the object that can't be read, and the side on which that happened."""

    name: Name = "object"
    side: str = "in this process"


_SOMEWHERE = Where()
Bytes = npt.NDArray[np.uint8]
Load = Callable[[memoryview, Sequence[Any], Where], Any]
Parts = Callable[[], Mapping[str, Any]]


class InlineCopy(bytes):
    """Private copy that an inline object's arrays show: C code that writes to them although they
    are read-only doesn't change the object."""

    header: bytes  # the header that this is a copy of


@dataclass(slots=True)
class Serialized:
    """A pickled value; its buffers are still the value's own memory.

    ``array`` is the pickled dtype, shape and order of a plain array, which has no ``stream``;
    ``buffers`` have any strides; ``inband`` and ``outband`` are bytes of the pickle and of the
    buffers; ``chunks`` hold the stream; ``code`` lists the functions and classes
    in it that are pickled by value.
    """

    array: bytes = b""
    buffers: list[Array] = field(default_factory=list)
    stream: list[Any] = field(default_factory=list)
    seconds: float = 0.0
    inband: int = 0
    outband: int = 0
    code: list[FunctionType | type] = field(default_factory=list)
    chunks: list[bytearray] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of an extent that holds the value."""
        return sum(_aligned(b.nbytes) for b in self.buffers) + sum(map(len, self.stream))

    def header(self) -> bytes:
        if self.array:
            return b"F" + self.array
        return b"E" + pickle.dumps([*(b.nbytes for b in self.buffers), self.inband], 5)

    def inline(self) -> bytes:
        """Return a header that includes the bytes, for an object without an extent."""
        if not self.buffers:
            return b"".join([b"P", *self.stream]) if self.stream else NONE
        header = self.header()
        pieces = [header[:1].lower(), _LENGTH.pack(len(header) - 1), header[1:]]
        end = len(header) + _LENGTH.size
        for offset, part in self.layout(INLINE_ALIGN, _aligned(end, INLINE_ALIGN)):
            pieces += [bytes(offset - end), part.tobytes()]
            end = offset + part.nbytes
        return b"".join(pieces)

    def layout(self, align: int = BUFFER_ALIGN, offset: int = 0) -> Iterator[tuple[int, Array]]:
        """Yield where each part goes in the extent: (offset in bytes, array of any strides)."""
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


class Form(NamedTuple):
    """Description of a plain array without its bytes; ``order`` (C or F) is their order."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: str


def is_plain(value: Any, reducers: Reducers) -> bool:
    """True if the value is an array that its bytes describe fully, and needs no pickle."""
    return type(value) is np.ndarray and not value.dtype.hasobject and np.ndarray not in reducers


def plain_form(array: Array) -> Form:
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    return Form(array.dtype, array.shape, order)


_NUMBERS = frozenset({int, float, bool, type(None)})

_MOST_PARTS, _MOST_LETTERS = 32, 4 << 10


def serialize_small(value: Any) -> Serialized | None:
    """Serialize a few numbers and short texts, or lists, tuples and dicts of them.

    The C pickler needs no reducers for these types. None: the value may contain something else.
    """
    started = time.perf_counter()
    left = [value]
    for each in left:  # grows while it is read
        kind = type(each)
        if kind in _NUMBERS:
            continue
        if kind is str or kind is bytes:
            if len(each) > _MOST_LETTERS:
                return None
        elif kind is tuple or kind is list or kind is dict:
            if len(left) + 2 * len(each) > _MOST_PARTS:
                return None
            left += each
            if kind is dict:
                left += each.values()
        else:
            return None
    if value is None:
        return Serialized()
    try:
        stream = pickle.dumps(value, 5)
    except Exception:  # another thread has put something into it meanwhile
        return None
    seconds = time.perf_counter() - started
    return Serialized(b"", [], [stream], seconds, len(stream))


def serialize(
    value: Any,
    reducers: Reducers,
    *,
    parts: Parts | None = None,
    limit: int = 1 << 62,
    scratch: Scratch | None = None,
    beyond: Callable[[], int] = int,
) -> Serialized:
    """Pickle a value without copying its buffers.

    ``parts`` is called on failure: it names the parts to search for the cause; by default the
    value, by its type. ``limit`` is a number of bytes of pickle; when it is reached, ``beyond``
    returns how many more are allowed. The stream lies in ``scratch`` until the caller gives its
    ``chunks`` back. SerializationError if something inside can't be pickled; the message says what
    and where. StoreFullError if the pickle passes the limit.
    """
    if value is None:
        return Serialized()
    started = time.perf_counter()
    if is_plain(value, reducers):
        with contextlib.suppress(Exception):  # metadata of a dtype may hold anything
            form = plain_form(value)
            meta = pickle.dumps(tuple(form), 5)
            flat = value.T if form.order == "F" else value
            seconds = time.perf_counter() - started
            note(value, [flat])
            return Serialized(meta, [flat], [], seconds, len(meta), value.nbytes)
    sink = Sink(limit, scratch or Scratch(), beyond)
    pickler, buffers = pickle_into(sink, value, reducers, parts)
    seconds = time.perf_counter() - started
    stream = sink.pieces()
    inband = sum(map(len, stream))
    outband = sum(b.nbytes for b in buffers)
    note(value, buffers)
    return Serialized(b"", buffers, stream, seconds, inband, outband, pickler.code, sink.chunks)


def pickle_into(
    sink: Sink, value: Any, reducers: Reducers, parts: Parts | None, make: Any = Pickler
) -> tuple[Any, list[Array]]:
    """Pickle a value with the pickler that ``make`` makes; return that pickler, and the buffers.

    For ``parts`` and the errors raised, see `serialize`.
    """
    buffers: list[Array] = []

    def keep(buffer: pickle.PickleBuffer) -> None:
        buffers.append(out_of_band(buffer))

    pickler = make(sink, reducers, keep)
    try:
        pickler.dump(value)
    except (StoreFullError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, WorkbenchError) and not isinstance(error, SerializationError):
            raise  # its text is better: a ref of another session
        # Late: a session's start needn't load what is used only to describe errors.
        from workbench.serialization.inspection import cannot_pickle

        named = {type(value).__qualname__: value} if parts is None else parts()
        raise cannot_pickle(error, named, reducers) from error
    return pickler, buffers


def load(
    stream: Any, buffers: Sequence[Any], where: Where, loads: Callable[..., Any] = pickle.loads
) -> Any:
    """Build a value from its pickle; ``loads`` has the signature of ``pickle.loads``.
    SerializationError if it can't be rebuilt in this process; the message says which part, and
    why."""
    # Collections during the load find no garbage, and visit all the new objects again and again:
    # two thirds of the time for 100 000 instances. One collection afterwards is enough.
    paused = len(stream) >= MANY_OBJECTS and gc.isenabled()
    try:
        if paused:
            gc.disable()  # inside: Ctrl-C may come as it returns
        return loads(stream, buffers=buffers)
    except MemoryError:
        raise
    except Exception as error:
        if isinstance(error, WorkbenchError) and not isinstance(error, SerializationError):
            raise  # its text is better: a ref of another session, a get that timed out
        raise cannot_rebuild(error, stream, buffers, *where) from error
    finally:
        if paused:
            gc.enable()


def deserialize_inline(
    header: bytes, copy: bool = False, where: Where = _SOMEWHERE, load: Load = load
) -> Any:
    """Build the value of an inline object; see `deserialize`.

    Its arrays are read-only views of an `InlineCopy`, or with ``copy`` private and writable.
    """
    kind = header[:1]
    if kind == NONE:
        return None
    if kind == b"P":
        return load(memoryview(header)[1:], (), where)
    if kind not in (b"e", b"f"):
        raise SerializationError(_UNKNOWN.format(kind))
    data: bytes | bytearray
    if copy:
        data = bytearray(header)
    else:
        data = own = InlineCopy(header)
        own.header = header
    try:
        outside, extent = _outside(header, data)
    except (struct.error, ValueError):
        raise SerializationError(_UNKNOWN.format(kind)) from None
    return deserialize(outside, extent, where, INLINE_ALIGN, load)


def deserialize(
    header: bytes,
    extent: Bytes,
    where: Where = _SOMEWHERE,
    align: int = BUFFER_ALIGN,
    load: Load = load,
) -> Any:
    """Build the value of an object in an extent. Its arrays are views of the extent.

    ``align``: alignment in bytes of the extent's buffers; ``load`` unpickles the pickled parts.
    SerializationError if it can't be rebuilt in this process; the message says which part, and why.
    """
    kind = header[:1]
    if kind == b"F":
        dtype, shape, order = _usual_form(header) or load(memoryview(header)[1:], (), where)
        try:
            return np.ndarray(shape, dtype, extent, order=order)
        except (TypeError, ValueError) as error:
            raise cannot_rebuild(error, b"", (), *where) from error
    if kind != b"E":
        raise SerializationError(_UNKNOWN.format(kind))
    _, parts, stream, _ = contents(header, extent, align, where, load)
    return load(stream, parts, where)


@functools.lru_cache(maxsize=1000)
def _usual_form(header: bytes) -> tuple[Any, ...] | None:
    """Return a plain array's dtype, shape and order, cached; None unless the dtype is numpy's own:
    others can be changed in place."""
    try:
        dtype, shape, order = pickle.loads(memoryview(header)[1:])
        own = np.dtype(dtype.str)
    except Exception:  # the caller's own load reports it
        return None
    is_own = own.isbuiltin == 1 and own == dtype and dtype.metadata is None
    return (own, shape, order) if is_own else None


def from_parts(
    header: bytes, parts: Sequence[Any], where: Where = _SOMEWHERE, load: Load = load
) -> Any:
    """Build a value whose buffers and pickle are separate; the pickle comes last."""
    if header[:1] == b"F":
        return deserialize(header, parts[0], where, load=load)
    return load(memoryview(parts[-1]), parts[:-1], where)


class Contents(NamedTuple):
    """Bytes of a stored value, not copied: with ``form`` a plain array's, else a pickle. ``memory``
    is where a value is known to have these bytes."""

    form: Form | None
    buffers: Sequence[Bytes]
    stream: memoryview
    memory: KnownMemory | None = None


def contents(
    header: bytes,
    extent: Bytes | None = None,
    align: int = BUFFER_ALIGN,
    where: Where = _SOMEWHERE,
    load: Load = load,
) -> Contents:
    """Take an object's bytes apart, and build nothing. Without an ``extent`` they are inline."""
    kind = header[:1]
    if kind in (b"N", b"P"):
        return Contents(None, (), memoryview(header)[1:])
    if extent is None:
        outside, extent = _outside(header, header)
        return contents(outside, extent, INLINE_ALIGN, where, load)
    meta = memoryview(header)[1:]
    if kind == b"F":
        form = Form(*load(meta, (), where))
        length = form.dtype.itemsize * math.prod(form.shape)
        return Contents(form, [extent[:length]], memoryview(b""))
    parts: list[Bytes] = []
    offset = 0
    *apart, streamed = load(meta, (), where)
    for length in apart:
        parts.append(extent[offset : offset + length])
        offset += _aligned(length, align)
    return Contents(None, parts, extent.data[offset : offset + streamed])


def _outside(header: bytes, data: bytes | bytearray) -> tuple[bytes, Bytes]:
    """Describe an inline object as one with an extent in ``data``: the header or a copy of it."""
    end = 1 + _LENGTH.size + _LENGTH.unpack_from(header, 1)[0]
    outside = header[:1].upper() + header[1 + _LENGTH.size : end]
    return outside, np.frombuffer(data, np.uint8, -1, _aligned(end, INLINE_ALIGN))


def peek(header: bytes, extent: Bytes | None) -> Any:
    """Build a value only to show it, its arrays without a copy.

    Unlike `deserialize` it runs no user's code: what isn't known to be harmless becomes a
    `safe_load.NotBuilt`. Without an ``extent`` its bytes are in the header. LookupError if it is
    too large, or of a module that isn't imported; the text says which.
    """
    size = len(header)  # an upper bound for an inline object
    if header[:1] == b"E":
        size = safe_load.load(memoryview(header)[1:])[-1]
    if size > MOST_PEEKED:
        raise LookupError(f"{human_bytes(size)} of it are pickled")
    if extent is None:
        return deserialize_inline(header, load=safe_load.load)
    return deserialize(header, extent, load=safe_load.load)


def is_all_of(array: Array, header: bytes) -> bool:
    """True if ``array``, which begins where a stored object does, is a view of all of it."""
    if header[:1] != b"F":
        return False
    dtype, shape, order = _usual_form(header) or load(memoryview(header)[1:], (), _SOMEWHERE)
    whole = array.flags.c_contiguous if order == "C" else array.flags.f_contiguous
    return bool(whole and array.shape == shape and array.dtype == dtype)


def _aligned(nbytes: int, align: int = BUFFER_ALIGN) -> int:
    return -(-nbytes // align) * align


_UNKNOWN = "An object has a format this version doesn't know: {!r}."
