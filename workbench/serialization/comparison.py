"""Compares a value with bytes: those in the store, or those of an earlier pickle.

Exact: the value is pickled again and compared with the old pickle, its buffers with the old ones
(but for pages that are known to have them: `known_memory`). Nothing is copied; it stops at the
first difference, or when its budget is used up.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import StoreFullError
from workbench.serialization.arrays import Array, Reducers, address, has_gaps, out_of_band, parts_of
from workbench.serialization.class_states import classes_met
from workbench.serialization.codec import Contents, is_plain, plain_form, serialize
from workbench.serialization.known_memory import KnownMemory, unread
from workbench.serialization.pickler import ByteCounter, Pickler
from workbench.system.ki_protection import ki_protection

BUDGET = 0.2
"""Least budget, in seconds of work, of one value's check: one thread compares 1 GB in it."""

AT_LEAST = 0.002
"""Seconds for a value whatever was spent on others: enough for a small one."""

PIECE = 4 << 20
"""Bytes compared at once: about half a millisecond."""

SMALL = 4 << 10
"""Bytes up to which copying is faster than asking for addresses."""

PARALLEL = 16 << 20
"""Bytes from which several threads compare."""

ONE_THREAD = 8e9
"""Bytes a second that one thread compares, about; four threads compare three times as many."""

MOST_THREADS = 4

PATIENCE = 10
"""Time that a comparison may take by the clock, in budgets: the machine may be busy."""

BUILDING = 50e6
"""Approximate bytes of pickle a second when a value is built and pickled again."""

MOST_KEPT = 16 << 20
"""Bytes of a pickle that this process keeps to compare with."""

_memcmp = ctypes.CDLL(None).memcmp  # releases the interpreter's lock
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Verdict(Enum):
    SAME = "same"
    CHANGED = "changed"
    UNKNOWN = "not compared"  # it takes too long; no difference found so far


class Comparison(NamedTuple):
    """``seconds`` of work, as `_Clock` counts it; if unfinished, an estimate for all of it."""

    verdict: Verdict
    seconds: float
    pickling: float = 0.0  # the part of `seconds` that was spent pickling
    spent: float = 0.0  # seconds of work that were really done


def compare(
    value: Any, contents: Contents, reducers: Reducers, seconds: float = BUDGET
) -> Comparison:
    """Compare a value with the bytes that it had.

    Equal values may have different pickles, if equal parts are one object in only one of them.
    So compare with a pickle made of this very value, or in this process of one built from the
    same bytes.

    Parameters
    ----------
    contents : Contents
        The earlier state. Nobody may write to its buffers: an array showing one is unchanged.
    reducers : mapping
        The custom reducers that the first pickle was made with.
    seconds : float
        Budget for the work. The user's code that pickles an object isn't interrupted.

    Returns
    -------
    Comparison
        A value that can't be pickled any more has changed.
    """
    clock, pickling = _Clock(seconds), 0.0
    try:
        buffers = _buffers(value, contents, reducers, clock)
        pickling = clock.worked
        _compare_buffers([*zip(buffers, contents.buffers, strict=True)], clock, contents.memory)
    except _TooLongError as error:
        return Comparison(Verdict.UNKNOWN, error.whole, error.pickling or pickling, clock.worked)
    except Exception:  # `_DifferentError`; or it can't be pickled: its sender will see why
        return Comparison(Verdict.CHANGED, clock.worked, 0.0, clock.worked)
    return Comparison(Verdict.SAME, clock.worked, pickling, clock.worked)


def compare_bytes(pairs: Sequence[tuple[Array, Array]], seconds: float) -> Verdict:
    """Compare each array with the bytes beside it, which have the same length."""
    try:
        _compare_buffers(pairs, _Clock(seconds))
    except _TooLongError:
        return Verdict.UNKNOWN
    except _DifferentError:
        return Verdict.CHANGED
    return Verdict.SAME


def remember(value: Any, reducers: Reducers, most: int) -> Contents | None:
    """Record what a value is now, for `compare`. None if that would copy over ``most`` bytes.

    Buffers in memory that nobody can write to (the store's, a message's) aren't copied.
    SerializationError if it can't be pickled.
    """
    try:
        now = serialize(value, reducers, limit=most)
    except StoreFullError:
        return None
    copied = sum(map(len, now.stream)) + sum(b.nbytes for b in now.buffers if not is_sealed(b))
    if copied > most:
        return None
    form = plain_form(value) if now.array else None
    buffers = [as_bytes(b) if is_sealed(b) else as_bytes(b).copy() for b in now.buffers]
    return Contents(form, buffers, memoryview(b"".join(now.stream)))


def as_bytes(array: Array) -> Array:
    """Return the array's bytes in C order, without a copy where they lie so."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def is_sealed(array: Array) -> bool:
    """True if the array shows memory that is read-only for everyone who has it."""
    base: Any = array
    while isinstance(base, np.ndarray) and not base.flags.writeable and base.base is not None:
        base = base.base
    while isinstance(base, memoryview) and base.readonly and base.obj is not None:
        base = base.obj
    if isinstance(base, np.ndarray | bytearray):
        return False
    if type(base) is bytes or isinstance(base, memoryview):
        return type(base) is bytes
    try:
        return memoryview(base).readonly
    except TypeError:  # numpy's own stand-in for strides, as of a window's view
        return False


class ChangeCheck:
    """Compares one value with its stored bytes again and again; learns how long that takes.

    Its budget is a tenth of the ``seconds`` that storing it took, or `BUDGET`, whichever is more.
    ``is_built``: the value was built from those bytes, not they from it. Then its pickle
    may differ from theirs although nothing has changed: another value is built from the bytes and
    pickled, and the comparison uses that pickle from then on. ``pickling``: seconds that pickling
    the value is known to take.
    """

    def __init__(self, is_built: bool, seconds: float = 0.0, pickling: float = 0.0) -> None:
        self.budget = max(BUDGET, seconds / 10)
        self.pickling = pickling
        self.memory: KnownMemory = {}  # as the put, or the last check that found no change, left it
        self._is_built = is_built
        self._rebuilt: _Rebuilt | None = None

    def run(
        self, value: Any, contents: Contents, reducers: Reducers, spent: float = 0.0
    ) -> Comparison:
        """Compare. Doesn't begin if pickling alone is known to take longer than the time left.

        ``spent``: seconds that the caller has spent on other values. They count; but a value that
        takes next to no time is always compared.
        """
        left = max(self.budget - spent, AT_LEAST)
        if self.pickling > left:
            return Comparison(Verdict.UNKNOWN, self.pickling)
        if self._rebuilt is not None:
            contents = self._rebuilt.contents(contents)
        found = compare(value, contents._replace(memory=self.memory), reducers, left)
        if found.verdict is Verdict.CHANGED and self._is_built and self._rebuilt is None:
            found = self._compare_built(value, contents, reducers, left - found.seconds)
        if found.verdict is Verdict.UNKNOWN or found.pickling > 2 * self.budget:
            self.pickling = found.pickling  # user code isn't interrupted: it may take as long again
        elif found.verdict is Verdict.SAME:
            is_chance = found.pickling > self.budget > self.pickling  # try once more
            self.pickling = self.budget if is_chance else found.pickling
        return found

    def _compare_built(
        self, value: Any, contents: Contents, reducers: Reducers, seconds: float
    ) -> Comparison:
        expected = len(contents.stream) / BUILDING
        if contents.form is not None or type(value) is np.ndarray:
            return Comparison(Verdict.CHANGED, 0.0)
        if expected > seconds:
            return Comparison(Verdict.UNKNOWN, expected, expected)
        with classes_met() as classes:
            other = pickle.loads(contents.stream, buffers=contents.buffers)
        if not all(_is_current(cls, state, reducers) for cls, state in classes):
            return Comparison(Verdict.CHANGED, 0.0)
        again = serialize(other, reducers)
        stream = memoryview(b"".join(again.stream))
        buffers = [*map(as_bytes, again.buffers)]
        found = compare(value, Contents(None, buffers, stream), reducers, seconds)
        if found.verdict is not Verdict.CHANGED and len(stream) <= MOST_KEPT:
            self._rebuilt = _Rebuilt.locate(stream, buffers, contents)
            self.memory.clear()  # their order may be another
        return found


def _is_current(cls: type, state: Any, reducers: Reducers) -> bool:
    """True if a class still is what a pickle with this ``state`` made of it.

    Two pickles of equal things may differ: so its present state is pickled and rebuilt, too.
    """
    counter = ByteCounter()
    now = serialize(Pickler(counter, reducers, counter.add_buffer).class_state(cls), reducers)
    sealed = [as_bytes(buffer).data.toreadonly() for buffer in now.buffers]
    with classes_met():
        built = pickle.loads(b"".join(now.stream), buffers=sealed)
    contents = remember(built, reducers, MOST_KEPT)
    return contents is not None and compare(state, contents, reducers).verdict is Verdict.SAME


class _Rebuilt(NamedTuple):
    """Pickle of a value that was built from stored bytes, and where its buffers lie in those.

    Keeps none of the stored bytes: they belong to the store.
    """

    stream: memoryview
    places: list[tuple[int, int, int]]  # number of the stored buffer, start, end

    @classmethod
    def locate(cls, stream: memoryview, buffers: list[Array], stored: Contents) -> _Rebuilt | None:
        """Return None if some buffer has bytes of its own."""
        places = []
        for buffer in buffers:
            start = address(buffer)
            for number, each in enumerate(stored.buffers):
                offset = start - address(each)
                if offset >= 0 and offset + len(buffer) <= len(each):
                    places.append((number, offset, offset + len(buffer)))
                    break
            else:
                return None
        return cls(stream, places)

    def contents(self, stored: Contents) -> Contents:
        return Contents(None, [stored.buffers[n][a:b] for n, a, b in self.places], self.stream)


class _DifferentError(Exception):
    pass


class _TooLongError(Exception):
    def __init__(self, whole: float, pickling: float = 0.0) -> None:
        self.whole = whole  # seconds that all of it would take
        self.pickling = pickling


class _Clock:
    """Counts work, so that the load of the machine decides nothing: this thread's processor time,
    and what comparing ``elsewhere`` takes by the number of bytes."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.elsewhere = seconds, 0.0
        self._began = time.thread_time()
        self._until = time.perf_counter() + PATIENCE * seconds  # it may wait: for a file, a lock

    @property
    def worked(self) -> float:
        return time.thread_time() - self._began + self.elsewhere

    @property
    def is_late(self) -> bool:
        return time.perf_counter() > self._until

    @property
    def is_up(self) -> bool:
        return self.worked > self.seconds or self.is_late


# -- the pickle -----------------------------------------------------------------------------------


def _buffers(value: Any, contents: Contents, reducers: Reducers, clock: _Clock) -> Sequence[Array]:
    """Return the value's buffers; raise unless all else is the same."""
    if contents.form is not None:
        form = plain_form(value) if is_plain(value, reducers) else None
        if form != contents.form or form.dtype.metadata != contents.form.dtype.metadata:
            raise _DifferentError
        return [value.T if contents.form.order == "F" else value]
    if value is None:
        if contents.stream:
            raise _DifferentError
        return []
    buffers: list[Array] = []

    def keep(buffer: pickle.PickleBuffer) -> None:
        array = out_of_band(buffer)
        place = len(buffers)
        if place == len(contents.buffers) or array.nbytes != contents.buffers[place].nbytes:
            raise _DifferentError
        buffers.append(array)

    stream = _ComparedFile(contents, clock)
    Pickler(stream, reducers, keep).dump(value)
    if stream.at != len(contents.stream):
        raise _DifferentError
    return buffers


class _ComparedFile:
    """File for a pickler: compares what is written with what was written before."""

    def __init__(self, contents: Contents, clock: _Clock) -> None:
        self.at = 0
        self._before = np.frombuffer(contents.stream, np.uint8)
        self._outband = sum(b.nbytes for b in contents.buffers)
        self._clock = clock

    def write(self, data: Any, /) -> None:
        new = np.frombuffer(data, np.uint8)
        end = self.at + len(new)
        before = self._before[self.at : end]
        if len(before) < len(new) or not _is_same(new, before):
            raise _DifferentError
        self.at = end
        if end < len(self._before) and self._clock.is_up:
            share = (self.at or 1) / max(len(self._before), 1)
            whole = self._clock.worked / share + self._outband / ONE_THREAD
            raise _TooLongError(whole, self._clock.worked / share)


# -- the buffers ----------------------------------------------------------------------------------


def _compare_buffers(
    pairs: Sequence[tuple[Array, Array]], clock: _Clock, known: KnownMemory | None = None
) -> None:
    """Compare each array, of any strides, with plain bytes."""
    pieces: list[tuple[Array, Array]] = []
    new: KnownMemory = {}
    for number, (now, before) in enumerate(pairs):
        if not now.nbytes:
            continue
        if now.nbytes > SMALL and address(now) == address(before) and now.flags.c_contiguous:
            continue  # a view of the same bytes
        if now.flags.c_contiguous and not has_gaps(now.dtype):
            flat = now.reshape(-1).view(np.uint8)
            parts = [(0, now.nbytes)] if known is None else unread(number, flat, known, new)
            for begin, end in parts:
                pieces += _pieces(flat[begin:end], before[begin:end])
        else:
            shaped: Array = np.ndarray(now.shape, now.dtype, before)
            for both in zip(parts_of(now), parts_of(shaped), strict=True):
                pieces += _pieces(*both)
    _compare_pieces(pieces, clock)
    if known is not None:
        known.clear()
        known |= new


def _pieces(now: Array, before: Array) -> Iterator[tuple[Array, Array]]:
    """Yield matching pieces of two arrays of one shape, of about `PIECE` bytes each."""
    if now.nbytes <= PIECE or not now.ndim:
        yield now, before
        return
    rows = PIECE * len(now) // now.nbytes
    for start in range(0, len(now), rows or 1):
        if rows:
            yield now[start : start + rows], before[start : start + rows]
        else:
            yield from _pieces(now[start], before[start])


def _compare_pieces(pieces: Sequence[tuple[Array, Array]], clock: _Clock) -> None:
    total = sum(now.nbytes for now, _ in pieces)
    if not total:
        return
    # A changed array has mostly changed in many places: first compare pieces spread all over it.
    stride = max(len(pieces) // 64, 1)
    order = sorted(range(len(pieces)), key=lambda n: n % stride)
    threads = min(MOST_THREADS, os.cpu_count() or 1) if total >= PARALLEL else 1
    speed = ONE_THREAD * threads
    ends = [*accumulate(pieces[n][0].nbytes for n in order)]
    count = max(bisect_right(ends, (clock.seconds - clock.worked) * speed), 1)
    left = iter(order[:count])  # shared by the threads: each piece is compared once
    differ: list[bool] = []  # exceptions would form a cycle
    done: list[int] = []  # bytes; `append` is atomic

    def run() -> None:
        for number in left:
            if differ or (number != order[0] and clock.is_late):
                return
            done.append(pieces[number][0].nbytes)
            if not _is_same(*pieces[number]):
                differ.append(True)

    if threads < 2:
        run()
    else:
        with ThreadPoolExecutor(threads, "workbench-compare") as pool:
            try:
                # CPython 3.11 may raise what is meant for this thread in one that it starts, which
                # then never says that it has started.
                with ki_protection():
                    running = [pool.submit(run) for _ in range(threads)]
                for future in running:
                    future.result()
            except BaseException:  # Ctrl-C
                differ.append(False)
                raise
        clock.elsewhere += sum(done) / speed
    if differ:
        raise _DifferentError
    if len(done) < len(order):
        raise _TooLongError(clock.worked + (total - sum(done)) / speed)


def _is_same(a: Array, b: Array) -> bool:
    """True if two arrays of one shape have the same bytes."""
    if a.nbytes <= SMALL:
        return a.tobytes() == b.tobytes()
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)  # a copy, if they are strided
    return not _memcmp(address(a), address(b), a.nbytes)
