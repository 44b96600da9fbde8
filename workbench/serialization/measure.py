"""What each part of an object takes in its pickle: bytes exactly, seconds as a first guess.

A tracing pickler that writes nothing and counts. Parts that take little are counted together
with their like, so that what it keeps is small however large the object is.
"""

from __future__ import annotations

import contextlib
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from types import CellType
from typing import Any, NamedTuple

from workbench.serialization.arrays import Reducers
from workbench.serialization.paths import Step
from workbench.serialization.pickler import ByteCounter, Pickler
from workbench.serialization.tracing import TooManyObjectsError, TracingPickler

MATTERS = 0.01
"""The share of all bytes or seconds from which a part is told from its like."""

NOTICED = 1e-3
"""Seconds; of what takes less, no part takes long."""

MOST_KINDS = 64
"""Parts of one parent that are told from each other by name, and by type."""

SHORT_SECONDS, MOST_TIMES = 0.3, 4
"""What takes less is measured again, so many times at most; the best counts."""

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


Measure = Callable[[Any, Reducers, Known], Figures]


def measure(value: Any, reducers: Reducers, known: Known) -> Figures:
    """Pickle a value as a put does, and look at the clock; the pickle goes nowhere."""
    taken: list[Figures] = []
    while len(taken) < MOST_TIMES and sum(figures.seconds for figures in taken) < SHORT_SECONDS:
        counter = ByteCounter()
        started = time.perf_counter()
        pickler = Pickler(counter, reducers, counter.add_buffer)
        if known:
            pickler.memo = known
            started = time.perf_counter()
        pickler.dump(value)
        seconds = time.perf_counter() - started
        taken.append(Figures(seconds, counter.inband, counter.outband, counter.buffers))
        del pickler  # forgetting all it knows takes time: not that of the next one
    return min(taken)


class Tally:
    """The count of one part, or of many that are alike; all that is in them included.

    ``label``, ``of``, ``before`` and ``group`` are as in `Step`; for many, the label is what they
    are called together; ``is_inner``: only its owner's library can change it. The seconds of its
    ``figures`` are the tracing's, for comparison with others. Before the first of its ``objects``
    the pickler knew ``start``; ``known`` are which of those are in these again. Its ``parts`` go by
    what they are called and by type; what matters by its ``id``.
    """

    __slots__ = (
        "before", "figures", "group", "is_inner", "kind", "known", "label", "objects", "of",
        "parts", "start",
    )  # fmt: skip

    def __init__(self, step: Step, objects: list[Any], start: int = 0) -> None:
        self.label, self.of, self.group = step.label, step.of, step.group
        self.before = step.before
        self.is_inner = step.role == "table" or step.cells is not None
        self.objects = objects
        self.kind: type = type(objects[0]) if objects else object
        self.start = start
        self.figures = Figures()
        self.known: dict[int, tuple[int, Any]] = {}
        self.parts: dict[Any, Tally] = {}

    def add(self, other: Tally) -> None:
        """One more of the same kind. Both stand in the same place, so their parts do too."""
        self.objects += other.objects
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

    def fold(self, part: Tally) -> None:
        """A part of its own turns out not to matter."""
        if self.parts.pop(id(part), None):
            self.merge(part)


class _Counter(ByteCounter):
    def write_large(self, header: bytes, payload: Any) -> None:
        self.inband += len(header) + len(payload)

    def now(self) -> Figures:
        return Figures(time.perf_counter(), self.inband, self.outband, self.buffers)


class MeasuringPickler(TracingPickler):
    """Counts; see the module. Parts matter in comparison with the ``total`` of the whole."""

    def __init__(self, reducers: Reducers, root: str, total: Figures, most: int) -> None:
        self._counter = counter = _Counter()
        super().__init__(reducers, root, counter, counter.add_buffer, most)
        self.write = counter.write
        self._write_large_bytes = counter.write_large
        self._total = total
        self._started = time.perf_counter()
        self.complete = False
        self.tally = Tally(Step(None, root), [])  # of the part that is being saved

    def count(self, value: Any) -> Tally:
        """Save it, and tell what was counted: of all if it is `complete`."""
        with contextlib.suppress(TooManyObjectsError, RecursionError):
            self.trace(value)
            self.complete = True
        (root,) = self.tally.parts.values()
        root.figures = root.figures._replace(inband=self._counter.inband)
        return root

    def save_here(self, obj: Any) -> None:
        """An object that has a place of its own, or that is a part of its owner."""
        known = self.memo.get(id(obj))
        if known is not None:
            self.tally.refer({id(obj): known})
        step = self.path[-1]
        if not step.label and len(self.path) > 1:
            super().save_here(obj)
            return
        above = self.tally
        self.tally = tally = self._begun(step, [obj])
        try:
            super().save_here(obj)
        finally:
            self._ended(tally)
            self.tally = above
            above.refer(tally.known)
            if self._matters(tally.figures):
                above.parts[id(tally)] = tally
            else:
                above.merge(tally)

    def save_leaves(self, run: Sequence[Any]) -> None:
        """Numbers and short texts, together. They may belong to several columns of a table."""
        here = self.path[-1]
        while run:
            step = here.step(run[0])
            alike = here.alike(len(run))
            now, run = run[:alike], run[alike:]
            if alike > 1:
                here.pass_by(now[1:])
            if not step.label:
                self.write_leaves(now)
                continue
            tally = self._begun(step, now)
            self.write_leaves(now)
            self._ended(tally)
            self.tally.merge(tally)

    def save_leaf_pairs(self, run: Sequence[tuple[Any, Any]]) -> None:
        """Entries of a large dict."""
        here = self.path[-1]
        keys = self._begun(here.step(run[0][0]), [key for key, _ in run])
        values = self._begun(here.step(run[0][1]), [value for _, value in run])
        here.skip(2 * len(run) - 2)
        of_keys = 0
        for pair in run:
            before = self._counter.inband
            self.write_leaves(pair[:1])
            of_keys += self._counter.inband - before
            self.write_leaves(pair[1:])
        self._ended(values)
        seconds, inband, *_ = values.figures
        keys.figures = Figures(seconds / 2, of_keys)
        values.figures = Figures(seconds / 2, inband - of_keys)
        self.tally.merge(keys)
        self.tally.merge(values)

    def _begun(self, step: Step, objects: Sequence[Any]) -> Tally:
        """Until it ends, its figures are those from before it."""
        if type(objects[0]) is CellType:
            with contextlib.suppress(ValueError):  # it is empty
                objects = [objects[0].cell_contents]
        tally = Tally(step, list(objects), len(self.memo))
        tally.figures = self._counter.now()
        return tally

    def _ended(self, tally: Tally) -> None:
        tally.figures = self._counter.now().minus(tally.figures)

    def _matters(self, figures: Figures) -> bool:
        if figures.bytes >= MATTERS * self._total.bytes:
            return True
        if self._total.seconds < NOTICED:
            return False
        elapsed = time.perf_counter() - self._started
        return figures.seconds >= MATTERS * max(self._total.seconds, elapsed)
