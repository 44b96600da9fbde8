"""What each part of an object takes in its pickle: bytes exactly, seconds as a first guess.

A tracing pickler that writes nothing and counts. Parts that take little are counted together
with their like, so that what it keeps is small however large the object is.
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
"""The share of all bytes or seconds from which a part is told from its like."""

NOTICED = 1e-3
"""Seconds; of what takes less, no part takes long."""

MOST_KINDS = 64
"""Parts of one parent that are told from each other by name, and by type."""

SHORT_SECONDS, MOST_TIMES = 0.2, 50
"""What takes less is measured again, so many times at most; the best counts."""

PATIENCE = 4
"""How many times longer than it works something may take, because others work too."""

Known = Mapping[int, tuple[int, Any]]
"""Objects that were saved before, as a pickler's memo has them."""


class Figures(NamedTuple):
    """What a pickle costs."""

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
    """It takes longer to pickle than was to be spent; ``figures`` are those up to there."""

    def __init__(self, figures: Figures) -> None:
        super().__init__(figures)
        self.figures = figures


Measure = Callable[[Any, Reducers, Known, float], Figures]


def measure(value: Any, reducers: Reducers, known: Known, seconds: float) -> Figures:
    """Pickle a value as a put does, and look at the clock; the pickle goes nowhere.

    Several times, if it is quick: the best is what it takes while nothing else happens.

    Raises
    ------
    OutOfTimeError
        If once takes longer than so many ``seconds``: see `Allowance`.
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
        del pickler  # forgetting all it knows takes time: not that of the next one
    return min(taken)


class Allowance:
    """So many seconds of this thread's, so that what others do on a busy machine changes no answer;
    or `PATIENCE` times as many by the clock."""

    def __init__(self, seconds: float) -> None:
        self._of_thread = time.thread_time() + seconds
        self._by_clock = time.perf_counter() + PATIENCE * seconds

    @property
    def left(self) -> float:
        """Seconds of it; none, or less than none, once it is over."""
        return min(self._of_thread - time.thread_time(), self._by_clock - time.perf_counter())


class _Stopwatch(ByteCounter):
    def __init__(self, allowance: Allowance) -> None:
        super().__init__()
        self._allowance = allowance

    def write(self, data: Any, /) -> None:
        super().write(data)
        if self._allowance.left < 0:
            raise OutOfTimeError(Figures(0.0, self.inband, self.outband, self.buffers))


class Tally:
    """The count of one part, or of many that are alike; all that is in them included.

    Of the ``objects``, which may be a sample, there are about ``count``; the figures are of all.
    ``label``, ``of``, ``before`` and ``group`` are as in `Step`; for many, the label is what they
    are called together; ``is_inner``: only its owner's library can change it. The seconds of its
    ``figures`` are the tracing's, for comparison with others. Before the first of its ``objects``
    the pickler knew ``start``; ``known`` are which of those are in these again. Its ``parts`` go by
    what they are called and by type; what matters by its ``id``.
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
        """One more of the same kind. Both stand in the same place, so their parts do too."""
        self.objects += other.objects
        self.count += other.count
        self.figures = self.figures.plus(other.figures)
        self.refer(other.known)
        for part in other.parts.values():
            self.merge(part)

    def refer(self, known: Known) -> None:
        """These are in it; what it saved first itself is no news."""
        for key, (number, obj) in known.items():
            if number < self.start:
                self.known[key] = (number, obj)

    def merge(self, part: Tally) -> None:
        """Count a part together with its like."""
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
        """Correct the figures of a sample by what all of it turned out to have.

        They are rounded down, so that parts together never have more than what they are in.
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
        """A part of its own turns out not to matter."""
        if self.parts.pop(id(part), None):
            self.merge(part)


class _WeightedCounter:
    """A file that counts what stands for more as so much more, time too."""

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
        """From now on."""
        now = time.perf_counter()
        self._seconds += (now - self._since) * self.weight
        self.weight, self._since = weight, now

    def now(self) -> Figures:
        self.weigh(self.weight)
        counts = map(round, (self.written, self._outside, self._pieces))
        return Figures(self._seconds, *counts)


FIRST_SAVED = 64
"""Objects that are saved before the second item of most samples."""

_SAVED_ONCE = (type, FunctionType, ModuleType, CodeType)
"""Of these, all items have the same: they don't stand for others."""


class MeasuringPickler(TracingPickler):
    """Counts; see the module. Parts matter in comparison with the ``total`` of the whole.

    Of containers of more than ``sample`` items it takes some; less of those that are in many.
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
        self._large = {} if large is None else large  # numbers of items, by their container
        self._around = 1  # items of containers in containers, down to here
        self._started = time.perf_counter()
        self._allowance = Allowance(seconds)
        self.complete = self.sampled = False
        self.tally = Tally(Step(None, root), [])  # of the part that is being saved

    def count(self, value: Any) -> Tally:
        """Save it, and tell what was counted: of all if it is `complete`."""
        with contextlib.suppress(TooManyObjectsError, RecursionError):
            self.trace(value)
            self.complete = True
        (root,) = self.tally.parts.values()
        root.figures = root.figures._replace(inband=self._counter.now().inband)
        return root

    @property
    def looked_at(self) -> int:
        """Objects so far."""
        return self._most - self._left

    @property
    def _allowed(self) -> int:
        """Items of a container here; of twice as many all are taken."""
        return max(LARGE_DICT, self._sample // self._around)

    def get(self, i: int) -> bytes:
        """As long as it is if all are saved that a sample stands for, but of what all refer to."""
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
        """A tuple or a frozen set, of which a few are enough."""
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
        """Count it where it belongs: it takes as long as an object."""
        step = self.path[-1].step(obj)
        self._left -= bool(step.label)
        self._check_time()
        self._save_part(step, obj)

    def save_here(self, obj: Any) -> None:
        """An object that has a place of its own, or that is a part of its owner."""
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
        if self._left < 0 or self._allowance.left < 0:
            raise TooManyObjectsError

    def _begun(self, step: Step, obj: Any) -> Tally:
        """Until it ends, its figures are those from before it."""
        if type(obj) is CellType:
            with contextlib.suppress(ValueError):  # it is empty
                obj = obj.cell_contents
        tally = Tally(step, [obj], len(self.memo), self._counter.weight)
        tally.figures = self._counter.now()
        return tally

    def _matters(self, figures: Figures, weight: float) -> bool:
        """By itself, and not by those it may stand for."""
        if figures.bytes >= MATTERS * weight * self._total.bytes:
            return True
        if self._total.seconds < NOTICED:
            return False
        elapsed = time.perf_counter() - self._started
        return figures.seconds >= MATTERS * weight * max(self._total.seconds, elapsed)


def _length(items: Any, owner: Any) -> int:
    """How many there are; of an iterator, how many its owner has. 0: not known."""
    for sized in (items, owner):
        with contextlib.suppress(Exception):
            return len(sized)
    return 0
