"""What each part of an object weighs in its pickle: bytes exactly, seconds as a first guess.

A tracing pickler that writes nothing and counts. Parts that weigh little are counted together
with their like, so that what it keeps is small however large the object is.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CellType
from typing import Any, NamedTuple

from workbench.serialization.arrays import Reducer, out_of_band
from workbench.serialization.paths import Step
from workbench.serialization.pickler import Pickler
from workbench.serialization.tracing import TooManyObjectsError, TracingPickler

MATTERS = 0.01
"""The share of all bytes or seconds from which a part is told from its like."""

NOTICED = 1e-3
"""Seconds; of what takes less, no part takes long."""

MOST_KINDS = 64
"""Parts of one parent that are told from each other by name, and by type."""

SHORT_SECONDS = 0.3
"""What takes less is measured again, a few times; the best counts."""

Known = Mapping[int, tuple[int, Any]]
"""Objects that were saved before, as a pickler's memo has them."""


class Figures(NamedTuple):
    """What a pickle costs."""

    seconds: float
    inband: int
    outband: int
    buffers: int

    @property
    def bytes(self) -> int:
        """Of both kinds."""
        return self.inband + self.outband


Measure = Callable[[Any, Mapping[type, Reducer], Known], Figures]


def measure(value: Any, reducers: Mapping[type, Reducer], known: Known) -> Figures:
    """Pickle a value as a put does, and look at the clock."""
    best = _measure_once(value, reducers, known)
    spent = best.seconds
    for _ in range(3):
        if spent < SHORT_SECONDS:
            again = _measure_once(value, reducers, known)
            spent += again.seconds
            best = min(best, again)
    return best


def _measure_once(value: Any, reducers: Mapping[type, Reducer], known: Known) -> Figures:
    file = io.BytesIO()
    buffers: list[int] = []
    started = time.perf_counter()
    pickler = Pickler(file, reducers, lambda buffer: buffers.append(out_of_band(buffer).nbytes))
    if known:
        pickler.memo = known
        started = time.perf_counter()
    pickler.dump(value)
    seconds = time.perf_counter() - started
    return Figures(seconds, file.tell(), sum(buffers), len(buffers))


@dataclass(slots=True, eq=False)
class Tally:
    """The count of one part, or of many that are alike; all that is in them included.

    Attributes
    ----------
    label, of, group : str
        As in `Step`; for many, the label is what they are called together.
    kind : type
        Theirs.
    objects : list
        The very objects.
    seconds : float
        How long the tracing took, for comparison with others.
    start : int
        How many objects the pickler knew before the first of these.
    known : dict
        Which of those are in these again.
    parts : dict
        By what they are called and by type; what matters by its own ``id``.
    """

    label: str
    of: str
    group: str
    kind: type
    objects: list[Any]
    start: int = 0
    inband: int = 0
    outband: int = 0
    buffers: int = 0
    seconds: float = 0.0
    known: dict[int, tuple[int, Any]] = field(default_factory=dict)
    parts: dict[Any, Tally] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Of both kinds."""
        return self.inband + self.outband

    def add(self, other: Tally) -> None:
        """One more of the same kind. Both stand in the same place, so their parts do too."""
        self.objects += other.objects
        self.inband += other.inband
        self.outband += other.outband
        self.buffers += other.buffers
        self.seconds += other.seconds
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
        part.label = part.group or part.label
        key: Any = (part.label, part.of, part.kind)
        if key not in self.parts and len(self.parts) >= MOST_KINDS:
            part.label, part.of = "[…]", ""
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


@dataclass(slots=True)
class _Counter:
    """What was written until now."""

    inband: int = 0
    outband: int = 0
    buffers: int = 0

    def write(self, data: Any) -> None:
        self.inband += len(data)

    def write_large(self, header: bytes, payload: Any) -> None:
        self.inband += len(header) + len(payload)

    def buffer(self, buffer: pickle.PickleBuffer) -> None:
        self.outband += out_of_band(buffer).nbytes
        self.buffers += 1


class Weigher(TracingPickler):
    """Counts; see the module.

    Parameters
    ----------
    reducers, root
        As for `TracingPickler`.
    total : Figures
        What the whole costs; parts matter in comparison.
    most : int
        Objects that are looked at. Numbers and short texts don't count.
    """

    def __init__(
        self, reducers: Mapping[type, Reducer], root: str, total: Figures, most: int
    ) -> None:
        self._counted = counted = _Counter()  # not the weigher itself: that would be a cycle
        super().__init__(reducers, root, buffer_callback=counted.buffer, most=most)
        self.write = counted.write
        self._write_large_bytes = counted.write_large
        self._total = total
        self._started = time.perf_counter()
        self.complete = False
        self.tally = Tally(root, "", "", object, [])  # of the part that is being saved

    def weigh(self, value: Any) -> Tally:
        """Save it, and say what was counted: of all if it is `complete`."""
        try:
            self.trace(value)
            self.complete = True
        except (TooManyObjectsError, RecursionError):
            pass
        (root,) = self.tally.parts.values()
        root.inband = self._counted.inband
        return root

    def save_here(self, obj: Any) -> None:
        """An object that has a place of its own, or that is a part of its owner."""
        known = self.memo.get(id(obj))
        if known is not None:
            self.tally.refer({id(obj): known})
        place = self.path[-1]
        if not place.label and len(self.path) > 1:
            super().save_here(obj)
            return
        above = self.tally
        self.tally = tally = self._begun(place, [obj])
        try:
            super().save_here(obj)
        finally:
            self._ended(tally)
            self.tally = above
            above.refer(tally.known)
            if self._matters(tally):
                above.parts[id(tally)] = tally
            else:
                above.merge(tally)

    def save_leaves(self, run: Sequence[Any]) -> None:
        """Numbers and short texts, together. They may belong to several columns of a table."""
        here = self.path[-1]
        while run:
            place = here.step(run[0])
            alike = here.alike(len(run))
            now, run = run[:alike], run[alike:]
            if alike > 1:
                here.pass_by(now[1:])
            if not place.label:
                self.write_leaves(now)
                continue
            tally = self._begun(place, now)
            self.write_leaves(now)
            self._ended(tally)
            self.tally.merge(tally)

    def save_leaf_pairs(self, run: Sequence[tuple[Any, Any]]) -> None:
        """Entries of a large dict."""
        here = self.path[-1]
        keys = self._begun(here.step(run[0][0]), [key for key, _ in run])
        values = self._begun(here.step(run[0][1]), [value for _, value in run])
        for pair in run:
            before = self._counted.inband
            self.write_leaves(pair[:1])
            values.inband += self._counted.inband - before  # not counted as theirs
            self.write_leaves(pair[1:])
        self._ended(keys)
        self._ended(values)
        keys.inband -= values.inband
        keys.seconds = values.seconds = values.seconds / 2
        self.tally.merge(keys)
        self.tally.merge(values)

    def _begun(self, place: Step, objects: Sequence[Any]) -> Tally:
        """Until it ends, its figures are those from before it."""
        if type(objects[0]) is CellType:
            with contextlib.suppress(ValueError):  # it is empty
                objects = [objects[0].cell_contents]
        return Tally(
            place.label, place.of, place.group, type(objects[0]), list(objects), len(self.memo),
            self._counted.inband, self._counted.outband, self._counted.buffers, time.perf_counter(),
        )  # fmt: skip

    def _ended(self, tally: Tally) -> None:
        tally.seconds = time.perf_counter() - tally.seconds
        tally.inband = self._counted.inband - tally.inband
        tally.outband = self._counted.outband - tally.outband
        tally.buffers = self._counted.buffers - tally.buffers

    def _matters(self, tally: Tally) -> bool:
        if tally.bytes >= MATTERS * self._total.bytes:
            return True
        if self._total.seconds < NOTICED:
            return False
        elapsed = time.perf_counter() - self._started
        return tally.seconds >= MATTERS * max(self._total.seconds, elapsed)
