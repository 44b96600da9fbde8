"""Arrays that share memory travel as views of one block, so that they share memory there, too."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from workbench.serialization.arrays import Array, Reducers, address, reduce_array

Thing = TypeVar("Thing")

MOST_PAIRS = 1000
"""Pairs of arrays that are looked at, of those that lie in one stretch of memory. If there are
more, the stretch counts as shared, and is sent whole."""

MOST_WORK = 1000
"""What `numpy.shares_memory` may try for a pair; what it can't tell by then counts as shared."""


class ChangedBytes(np.ndarray[Any, Any]):
    """An array of which the bytes travel, whatever else shows the same memory."""

    def __reduce__(self) -> Any:
        return reduce_array(self.view(np.ndarray))


class SharedBlocks:
    """The stretches of memory of which several arrays show the same bytes, or one shows some twice.

    Keeps those arrays alive: the blocks have their memory, and not them. The other side has the
    ``known`` arrays: what lies in one of them is a view of that. Arrays of ``frames``, objects of
    pandas, travel alone: pandas itself knows which of its objects share memory, and copies it
    before it writes; it wouldn't know that of what is built from a pickle.
    """

    def __init__(
        self, arrays: Sequence[Array], known: Iterable[Array] = (), frames: Iterable[Any] = ()
    ) -> None:
        self._apart = {bounds(array) for each in frames for array in arrays_of(each)}
        arrays = [each for each in arrays if bounds(each) not in self._apart]
        self._known = _Known(known)
        self._is_known = any(self._known.around(each) is not None for each in arrays)
        self._begins: list[int] = []
        self._blocks: list[npt.NDArray[np.uint8]] = []
        self._arrays: list[Array] = []
        for begin, end, group in stretches((*bounds(each), each) for each in arrays if each.nbytes):
            self._add(begin, end, group)

    def _add(self, begin: int, end: int, group: list[Array]) -> None:
        pairs = combinations(group, 2)
        is_folded = any(each.nbytes > np.subtract(*bounds(each)[::-1]) for each in group)
        if (
            is_folded
            or any(_share(one, two) for one, two in islice(pairs, MOST_PAIRS))
            or next(pairs, None)
        ):
            memory: Any = (ctypes.c_char * (end - begin)).from_address(begin)
            memory.shows = group[0]
            self._begins.append(begin)
            self._blocks.append(np.frombuffer(memory, np.uint8))
            self._arrays += group

    def __bool__(self) -> bool:
        return bool(self._blocks) or self._is_known

    def reducers(self, others: Reducers) -> Reducers:
        """Return the reducers with one of ours for arrays, by which they are views of blocks."""
        return {np.ndarray: self._reduce, **others}

    def _reduce(self, array: Array) -> Any:
        if array.nbytes and not array.dtype.hasobject and bounds(array) not in self._apart:
            if (whole := self._known.around(array)) is not None and array is not whole:
                offset = address(array) - address(whole)
                layout = array.shape, array.dtype, offset, array.strides
                return view_of, (whole, whole.strides, *layout)
            begin, end = bounds(array)
            place = bisect_right(self._begins, begin) - 1
            if place >= 0:
                block, offset = self._blocks[place], address(array) - self._begins[place]
                if array is not block and end <= self._begins[place] + block.nbytes:
                    return np.ndarray, (array.shape, array.dtype, block, offset, array.strides)
        return reduce_array(array)


class _Known:
    """Arrays by the memory that they span, none of them within another."""

    def __init__(self, arrays: Iterable[Array]) -> None:
        self._begins: list[int] = []
        self._spans: list[tuple[int, Array]] = []
        last = 0
        spans = [(*bounds(array), array) for array in arrays if array.nbytes]
        for begin, end, array in sorted(spans, key=lambda each: (each[0], -each[1])):
            if end > last:
                self._begins.append(begin)
                self._spans.append((end, array))
                last = end

    def around(self, array: Array) -> Array | None:
        """Return the array in whose span this one lies."""
        if not (self._spans and array.nbytes) or array.dtype.hasobject:
            return None
        begin, end = bounds(array)
        place = bisect_right(self._begins, begin) - 1
        whole_end, whole = self._spans[place]
        return whole if place >= 0 and end <= whole_end else None


def view_of(
    whole: Array,
    strides_there: tuple[int, ...],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    offset: int,
    strides: tuple[int, ...],
) -> Array:
    """Return the view of an array that begins so many bytes behind its first element.

    An array that has another layout here than there had no array beside it in its memory: the
    view is of a copy.
    """
    if whole.strides != strides_there:
        whole = whole.copy("F" if strides_there[0] < strides_there[-1] else "C")
    begin, memory = _memory(whole)
    view = np.ndarray(shape, dtype, memory, address(whole) + offset - begin, strides)
    view.flags.writeable = whole.flags.writeable
    return view


def _memory(array: Array) -> tuple[int, Any]:
    """Return the address of the memory that an array spans, and that memory; it keeps the array."""
    begin, end = bounds(array)
    memory: Any = (ctypes.c_char * (end - begin)).from_address(begin)
    memory.keeps = array
    return begin, memory


def is_of_pandas(kind: type) -> bool:
    """True if its instances are parts of pandas's own, like a block of a frame."""
    return kind.__module__.partition(".")[0] == "pandas"


def arrays_of(value: Any) -> list[Array]:
    """Return the arrays that a part of pandas's consists of."""
    own = {"series": "_values", "": "values"}.get(getattr(value, "_typ", ""), "_data")
    found = [getattr(value, name, None) for name in (own, "_ndarray", "_data", "_mask")]
    return [each for each in found if isinstance(each, np.ndarray)]


def bounds(array: Array) -> tuple[int, int]:
    """Return the addresses of an array's first byte and behind its last."""
    begin = address(array)
    if array.flags.c_contiguous:
        return begin, begin + array.nbytes
    reach = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    low, high = sum(min(0, each) for each in reach), sum(max(0, each) for each in reach)
    return begin + low, begin + high + array.itemsize


def stretches(spans: Iterable[tuple[int, int, Thing]]) -> Iterator[tuple[int, int, list[Thing]]]:
    """Yield the stretches of memory that ``spans`` cover together, in order: the beginning, the
    end, and of which things the spans are that overlap there."""
    begin, end, group = 0, 0, list[Thing]()
    for first, last, thing in sorted(spans, key=lambda each: each[:2]):
        if first >= end and group:
            yield begin, end, group
            group = []
        begin, end = (begin, max(end, last)) if group else (first, last)
        group.append(thing)
    if group:
        yield begin, end, group


def _share(one: Array, two: Array) -> bool:
    try:
        return bool(np.shares_memory(one, two, max_work=MOST_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
