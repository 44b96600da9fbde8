"""Values pickled together, and opened with their objects numbered alike on both sides.

The pickler and the unpickler number the objects they meet in the same order (pickle's memo). So
either side can name an object to the other by its number: nothing needs to be searched, compared
or given an id. What changed of them, `changes` finds.
"""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.serialization.arrays import Array, Reducers, address
from workbench.serialization.codec import Parts, Where, load, pickle_into
from workbench.serialization.libraries import MAPPED, writable
from workbench.serialization.pickler import BufferCallback, Pickler, Writable
from workbench.serialization.scratch import Scratch, Sink

Numbers = Mapping[int, int]
"""id of an object that the other side has → its number there."""


class NumberingPickler(Pickler):
    """Writes a number in place of an object that the other side has.

    ``met`` are the numbers written. ``root`` is written out, though it has one: where it is met
    first. Asked for every object, so a dump takes three times as long as with `Pickler`.
    """

    def __init__(
        self, file: Writable, reducers: Reducers, keep: BufferCallback, numbers: Numbers
    ) -> None:
        super().__init__(file, reducers, keep)
        self.numbers = numbers
        self.met: set[int] = set()
        self.root: Any = None

    def persistent_id(self, obj: Any) -> int | None:
        number = self.numbers.get(id(obj))
        if number is None:
            return None
        if obj is self.root:
            self.root = None
            return None
        self.met.add(number)
        return number


class _Unpickler(pickle.Unpickler):
    """A class for its method's sake: in Python 3.13.0 an instance can't be given one."""

    resolve: Callable[[int], Any] | None

    def persistent_load(self, number: int) -> Any:
        if self.resolve is None:
            raise pickle.UnpicklingError("It refers to objects of another process.")
        return self.resolve(number)


@dataclass(frozen=True, slots=True)
class PackedValues:
    """Values as they travel. ``refs`` are the handles in them: their objects live as long."""

    stream: bytes
    buffers: list[Array]
    refs: list[Any]

    def open(
        self, where: Where, resolve: Callable[[int], Any] | None = None
    ) -> tuple[Any, dict[int, Any]]:
        """Build the values anew, private and writable; and all objects met, by number.

        ``resolve`` gives the objects that travelled as numbers.

        Raises
        ------
        SerializationError
            If they can't be rebuilt in this process; the message says what in them, and why.
        """
        buffers = [private_bytes(buffer) for buffer in self.buffers]
        unpickler = _Unpickler(io.BytesIO(self.stream), buffers=buffers)
        unpickler.resolve = resolve
        value = load(self.stream, buffers, where, lambda *_, **__: unpickler.load())
        return value, unpickler.memo.copy()


def private_bytes(array: Array) -> npt.NDArray[np.uint8]:
    """The bytes of a contiguous array, which may be written to, and nobody else sees that."""
    if not array.nbytes:
        return np.empty(0, np.uint8)
    flat = array.reshape(-1).view(np.uint8)
    return flat.copy() if flat.nbytes < MAPPED else writable(flat)


def written_parts(array: Array) -> list[tuple[Array, Array]] | None:
    """Of a large array that was opened here, the bytes that may have changed, and what they were.

    None if it is none of those, or no part of one. Its pages are copies of sealed ones, made when
    they are written to; see `ReadOnly.private`.
    """
    if array.nbytes < MAPPED or not array.flags.c_contiguous:
        return None
    owner: Any = array
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    sealed = getattr(owner, "keeps", None)
    if not isinstance(sealed, np.ndarray) or sealed.dtype != np.uint8:
        return None
    flat, mapped = array.reshape(-1).view(np.uint8), np.frombuffer(owner, np.uint8)
    begins = len(mapped) - len(sealed)  # a mapping begins with a page
    start = address(flat) - address(mapped) - begins
    before = sealed[start : start + len(flat)]
    return [(flat[a:b], before[a:b]) for a, b in owner.written(address(flat), len(flat))]


def pack(
    value: Any,
    reducers: Reducers,
    refs: list[Any],
    parts: Parts,
    limit: int = 1 << 62,
    numbers: Numbers | None = None,
) -> tuple[PackedValues, Any]:
    """The values as they travel, and the pickler's memo: (number, object) by the object's id.

    The memo keeps those objects alive. ``refs`` are filled by the ``reducers``; ``parts`` is asked
    if it fails: what to look through, by the names that people know. ``limit`` are bytes of pickle.

    Raises
    ------
    SerializationError
        If something inside can't be pickled; the message says what and where.
    StoreFullError
        If the pickle passes the limit.
    """
    sink = Sink(limit, Scratch())
    make: Any = Pickler
    if numbers is not None:
        make = functools.partial(NumberingPickler, numbers=numbers)
    pickler, buffers = pickle_into(sink, value, reducers, parts, make)
    pieces = sink.pieces()
    packed = PackedValues(bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces), buffers, refs)
    pieces.clear()  # the pickler has the sink, and its memo is kept
    sink.chunks.clear()
    return packed, pickler.memo
