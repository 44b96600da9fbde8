"""Measures what each part of an object takes in its pickle: exact bytes, approximate seconds.

A tracing pickler that counts and writes nothing. Small parts are counted together with similar
ones, so that it keeps little however large the object is.
"""

from __future__ import annotations

import contextlib
import math
import operator
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, ClassVar, NamedTuple

from workbench.serialization.arrays import Reducers, out_of_band
from workbench.serialization.paths import LARGE_DICT, Step
from workbench.serialization.pickler import ByteCounter, Pickler
from workbench.serialization.sampling import choose, large_among
from workbench.serialization.tracing import TooManyObjectsError, TracingPickler

MATTERS = 0.01
"""Share of all bytes or seconds from which a part is counted separately from similar ones."""

NOTICED = 1e-3
"""Seconds; if the whole takes less, the time of its parts doesn't matter."""

MOST_KINDS = 64
"""Parts of one parent that are counted separately, by name and type."""

SHORT_SECONDS, MOST_TIMES = 0.2, 50
"""A pickling quicker than this is repeated, at most this many times; the best counts."""

PATIENCE = 4
"""Limit of elapsed time, in multiples of the allowed thread time: other processes work too."""

Known = Mapping[int, tuple[int, Any]]
"""Objects that were saved before, as in a pickler's memo."""


class Figures(NamedTuple):
    """Cost of a pickle: seconds, bytes, number of buffers."""

    seconds: float = 0.0
    inband: int = 0
    outband: int = 0
    buffers: int = 0

    @property
    def bytes(self) -> int:
        return self.inband + self.outband

    def plus(self, other: Figures) -> Figures:
        return Figures._make(map(operator.add, self, other))

    def minus(self, other: Figures) -> Figures:
        return Figures._make(map(operator.sub, self, other))


class OutOfTimeError(Exception):
    """Pickling takes longer than allowed; ``figures`` are those up to there."""

    def __init__(self, figures: Figures) -> None:
        super().__init__(figures)
        self.figures = figures


Measure = Callable[[Any, Reducers, Known, float], Figures]


def measure(value: Any, reducers: Reducers, known: Known, seconds: float) -> Figures:
    """Measure pickling a value as a put does it; the pickle is thrown away.

    A quick one is repeated: the best time is that without disturbance. OutOfTimeError if one run
    takes longer than ``seconds``: see `Allowance`.
    """
    taken: list[Figures] = []
    began, allowance = time.perf_counter(), Allowance(seconds)
    enough = min(SHORT_SECONDS, seconds / 5)
    while len(taken) < MOST_TIMES and (not taken or time.perf_counter() - began < enough):
        counter = _Stopwatch(allowance)
        started = time.perf_counter()
        pickler = Pickler(counter, reducers, counter.add_buffer)
        if known:
            pickler.memo = known
            started = time.perf_counter()
        try:
            pickler.dump(value)
        except OutOfTimeError:
            if taken:
                break
            raise
        took = time.perf_counter() - started
        taken.append(Figures(took, counter.inband, counter.outband, counter.buffers))
        del pickler  # freeing its memo takes time, which must not count for the next one
    return min(taken)


class Allowance:
    """Allowance of this thread's processor time, so that a busy machine changes no answer; but at
    most `PATIENCE` times as much elapsed time."""

    def __init__(self, seconds: float) -> None:
        self._of_thread = time.thread_time() + seconds
        self._by_clock = time.perf_counter() + PATIENCE * seconds

    @property
    def seconds_left(self) -> float:
        """Seconds left; 0 or less once it is used up."""
        return min(self._of_thread - time.thread_time(), self._by_clock - time.perf_counter())


class _Stopwatch(ByteCounter):
    def __init__(self, allowance: Allowance) -> None:
        super().__init__()
        self._allowance = allowance

    def write(self, data: Any, /) -> None:
        super().write(data)
        if self._allowance.seconds_left < 0:
            raise OutOfTimeError(Figures(0.0, self.inband, self.outband, self.buffers))


class Tally:
    """Figures of one part, or of many similar ones, including all that is in them.

    ``objects`` may be a sample of about ``count`` objects; the figures are for all of them.
    ``label``, ``of``, ``before`` and ``group`` are as in `Step`; of many parts, the label is their
    common one; ``is_inner``: only its owner's library can change it. The seconds in ``figures`` are
    those of tracing, for comparison with other parts. ``start`` is the length of the pickler's memo
    before the first of the ``objects``; ``known`` are the earlier objects that these refer to.
    ``parts`` are by label and type, or by ``id`` if they matter on their own.
    """

    __slots__ = (
        "before", "count", "figures", "group", "is_inner", "kind", "known", "label", "objects",
        "of", "parts", "start",
    )  # fmt: skip

    def __init__(self, step: Step, objects: list[Any], start: int = 0, weight: float = 1.0) -> None:
        self.label, self.of, self.group = step.label, step.of, step.group
        self.before = step.before
        self.is_inner = step.role == "table" or step.cells is not None
        self.objects = objects
        self.count = len(objects) * weight
        self.kind: type = type(objects[0]) if objects else object
        self.start = start
        self.figures = Figures()
        self.known: dict[int, tuple[int, Any]] = {}
        self.parts: dict[Any, Tally] = {}

    def add(self, other: Tally) -> None:
        """Add another tally of the same kind. Both have the same place, so their parts match."""
        self.objects += other.objects
        self.count += other.count
        self.figures = self.figures.plus(other.figures)
        self.refer(other.known)
        for part in other.parts.values():
            self.merge(part)

    def refer(self, known: Known) -> None:
        """Note that the part refers to ``known`` objects, except to those that it saved itself."""
        for key, (number, obj) in known.items():
            if number < self.start:
                self.known[key] = (number, obj)

    def merge(self, part: Tally) -> None:
        """Count a part together with similar ones."""
        if part.group:
            part.label, part.before = part.group, ""
        key: Any = (part.label, part.of, part.kind)
        if key not in self.parts and len(self.parts) >= MOST_KINDS:
            part.label, part.of, part.before = "[…]", "", ""
            key = (part.label, part.of, part.kind)
            if key not in self.parts and len(self.parts) >= 2 * MOST_KINDS:
                key = part.kind = object
        if key in self.parts:
            self.parts[key].add(part)
        else:
            self.parts[key] = part

    def scale(self, inband: float, outband: float) -> None:
        """Scale the figures of a sample to the totals measured for the whole.

        Rounds down, so that the parts together never exceed their parent.
        """
        before = self.figures
        self.figures = before._replace(
            inband=int(before.inband * inband),
            outband=int(before.outband * outband),
            buffers=int(before.buffers * outband),
        )
        for part in self.parts.values():
            part.scale(inband, outband)

    def fold(self, part: Tally) -> None:
        """Merge a part that turned out not to matter with similar ones."""
        if self.parts.pop(id(part), None):
            self.merge(part)


class _WeightedCounter:
    """File that multiplies what it counts by a weight, time too: the sample stands for more."""

    def __init__(self) -> None:
        self.weight = 1.0
        self.written, self._outside, self._pieces = 0.0, 0.0, 0.0
        self._seconds, self._since = 0.0, time.perf_counter()

    def write(self, data: Any, /) -> None:
        self.written += len(data) * self.weight

    def add_buffer(self, buffer: pickle.PickleBuffer) -> None:
        self._outside += out_of_band(buffer).nbytes * self.weight
        self._pieces += self.weight

    def weigh(self, weight: float) -> None:
        now = time.perf_counter()
        self._seconds += (now - self._since) * self.weight
        self.weight, self._since = weight, now

    def now(self) -> Figures:
        self.weigh(self.weight)
        counts = map(round, (self.written, self._outside, self._pieces))
        return Figures(self._seconds, *counts)


FIRST_SAVED = 64
"""Objects that most samples have saved before their second item."""

_SAVED_ONCE = (type, FunctionType, ModuleType, CodeType)
"""All items share these: one that is saved doesn't stand for others."""


class MeasuringPickler(TracingPickler):
    """Pickler that counts. Parts matter in comparison with the ``total`` of the whole.

    Takes ``sample`` items of larger containers; fewer of containers inside others.
    """

    def __init__(
        self,
        reducers: Reducers,
        root: str,
        total: Figures,
        most: int,
        sample: int = sys.maxsize,
        seconds: float = math.inf,
        large: dict[int, list[int]] | None = None,
    ) -> None:
        self._counter = counter = _WeightedCounter()
        super().__init__(counter, reducers, counter.add_buffer, root, most)
        self.write = counter.write  # without frames
        self._total = total
        self._sample = sample
        self._most = most
        self._large = {} if large is None else large  # numbers of large items, by container id
        self._around = 1  # items per container, multiplied from the root down to here
        self._started = time.perf_counter()
        self._allowance = Allowance(seconds)
        self.complete = self.sampled = False
        self.tally = Tally(Step(None, root), [])  # of the part being saved

    def count(self, value: Any) -> Tally:
        """Trace the value and return its tally: of all of it if `complete`."""
        with contextlib.suppress(TooManyObjectsError, RecursionError):
            self.trace(value)
            self.complete = True
        (root,) = self.tally.parts.values()
        root.figures = root.figures._replace(inband=self._counter.now().inband)
        return root

    @property
    def looked_at(self) -> int:
        return self._most - self._left

    @property
    def _allowed(self) -> int:
        """Size of a sample of a container here; one up to twice as long is taken whole."""
        return max(LARGE_DICT, self._sample // self._around)

    def get(self, i: int) -> bytes:
        """Return a reference as long as it would be without sampling, unless all items share it."""
        is_long = i >= FIRST_SAVED and self._counter.weight > 1
        return pickle.LONG_BINGET + bytes(4) if is_long else super().get(i)

    # -- samples ------------------------------------------------------------------------------

    def _batches(self, items: Iterable[Any], many: bytes, one: bytes = b"") -> Iterator[list[Any]]:
        here = self.path[-1]
        count, allowed = _length(items, here.object), self._allowed
        chosen = None
        if count > 2 * allowed and here.role in ("value", "cells"):
            key = id(here.object)
            if key not in self._large:
                self._large[key] = large_among(items, count)
            chosen = choose(items, count, allowed, self._large[key])
        around, weight = self._around, self._counter.weight
        self._around *= max(1, count if chosen is None else allowed)
        try:
            if chosen is None:
                yield from super()._batches(items, many, one)
                return
            self.sampled = True
            for numbers, some, stands_for in chosen:
                self._counter.weigh(weight * stands_for)
                here.sample(numbers)
                yield from super()._batches(some, many)
        finally:
            self._around = around
            self._counter.weigh(weight)

    def save_many(self, obj: Any) -> None:
        """Save a tuple or frozenset, or a sample of it."""
        kind = type(obj)
        if len(obj) <= 2 * LARGE_DICT:
            TracingPickler.dispatch[kind](self, obj)
            return
        self.write(pickle.MARK)
        closing = pickle.TUPLE if kind is tuple else pickle.FROZENSET
        self._save_items(self._batches(obj, closing))
        self.memoize(obj)

    dispatch: ClassVar[dict[type, Callable[..., None]]] = {
        **TracingPickler.dispatch,
        tuple: save_many,
        frozenset: save_many,
    }

    # -- parts --------------------------------------------------------------------------------

    def save_leaf(self, obj: Any) -> None:
        """Count a small object where it belongs: it takes as long as others."""
        step = self.path[-1].step(obj)
        self._left -= bool(step.label)
        self._check_time()
        self._save_part(step, obj)

    def save_here(self, obj: Any) -> None:
        """Save an object that has a place of its own, or is a part of its owner."""
        if len(self.path) > 1:  # the root is counted whatever the time
            self._check_time()
        known = self.memo.get(id(obj))
        if known is not None:
            self.tally.refer({id(obj): known})
        self._save_part(self.path[-1], obj)

    def _save_part(self, step: Step, obj: Any) -> None:
        if not step.label and len(self.path) > 1:
            super().save_here(obj)
            return
        weight = self._counter.weight
        if isinstance(obj, _SAVED_ONCE):
            self._counter.weigh(1.0)
        above = self.tally
        self.tally = tally = self._begun(step, obj)
        try:
            super().save_here(obj)
        finally:
            tally.figures = self._counter.now().minus(tally.figures)
            self._counter.weigh(weight)
            self.tally = above
            above.refer(tally.known)
            if self._matters(tally.figures, self._counter.weight):
                above.parts[id(tally)] = tally
            else:
                above.merge(tally)

    def _check_time(self) -> None:
        if self._left < 0 or self._allowance.seconds_left < 0:
            raise TooManyObjectsError

    def _begun(self, step: Step, obj: Any) -> Tally:
        """Begin a tally; until it ends, its figures are those at its start."""
        if type(obj) is CellType:
            with contextlib.suppress(ValueError):  # it is empty
                obj = obj.cell_contents
        tally = Tally(step, [obj], len(self.memo), self._counter.weight)
        tally.figures = self._counter.now()
        return tally

    def _matters(self, figures: Figures, weight: float) -> bool:
        """True if one of the parts matters by itself, without the others that it stands for."""
        if figures.bytes >= MATTERS * weight * self._total.bytes:
            return True
        if self._total.seconds < NOTICED:
            return False
        elapsed = time.perf_counter() - self._started
        return figures.seconds >= MATTERS * weight * max(self._total.seconds, elapsed)


def _length(items: Any, owner: Any) -> int:
    """Return the number of items; for an iterator, that of its owner. 0: unknown."""
    for sized in (items, owner):
        with contextlib.suppress(Exception):
            return len(sized)
    return 0
