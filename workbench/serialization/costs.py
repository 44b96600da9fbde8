"""What serializing an object costs, and which part of it: a tree of bytes, seconds and advice.

The bytes are exact, the seconds measured. The records are names, numbers and text; nothing in
them keeps the object alive.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

from workbench.expressions import describe
from workbench.format import human_bytes, human_count, human_seconds
from workbench.report.markup import Rich, Table, bullets, code, page
from workbench.serialization.advice import advise
from workbench.serialization.arrays import Reducers
from workbench.serialization.inspection import cannot_pickle, name_of
from workbench.serialization.measure import (
    MATTERS,
    NOTICED,
    Allowance,
    Figures,
    Measure,
    MeasuringPickler,
    OutOfTimeError,
    Tally,
    measure,
)
from workbench.serialization.paths import Path
from workbench.serialization.tracing import with_room

MOST_OBJECTS = 60_000
"""Objects examined, numbers and short texts not counted: half a second."""

GROWTH = 3
SAMPLES = tuple(200 * GROWTH**n for n in range(5))
"""Items examined of one container, 200 to 16 200; fewer of a container inside others."""

MOST_PARTS = 50
"""Parts that are shown; the others are shown as one."""

SLOWER = 25
"""Factor by which tracing an object is slower than pickling it."""

MOST_ALONE = 2000
"""Objects of a sample that are measured."""

MOST_SLOWER = 8.0
"""Upper bound for the factor by which a whole is slower to pickle than its parts alone."""

TOLERATED = 1.25
"""If all of it has more than this many times what the sample says, the sample missed something."""


class Spend(NamedTuple):
    """Seconds to spend on pickling the whole, tracing its parts, measuring them, and on advice."""

    total: float
    tracing: float
    parts: float
    part: float
    advice: float


FIRST = Spend(0.4, 0.5, 0.5, 0.05, 0.4)
"""Together an answer within two seconds of processor time: see `Allowance`."""

WHOLE = Spend(math.inf, 0.6, 2.0, 0.2, 2.0)
"""For an exact total: all of it is pickled, however long that takes."""


@dataclass(frozen=True, slots=True)
class Cost(Rich):
    """What one part of an object costs, including all that is in it.

    An object that stands in several places is counted where it is saved first.

    Attributes
    ----------
    path : str
        Where it is: ``model.layers[2]``, ``frame['name']``, ``points[…]`` for many.
    label : str
        Last step of the path: the name that its parent has for it.
    type : str
        Its type, in words for people.
    inband, outband : int
        Bytes in the pickle, and in buffers beside it. Of the root, what a put stores; the sum over
        its children is less by the root's own bytes.
    buffers : int
        Number of buffers.
    seconds : float or None
        Seconds to pickle this part alone; None if not measured.
    share : float or None
        Its share of the root's seconds.
    children : tuple of Cost
        The costly parts, worst first.
    advice : tuple of str
        What would be cheaper; each advice was tried.
    estimated : str
        Root only: which figures were estimated, and how; empty: none.
    is_estimate : bool
        Root only: True if its own figures are estimated, because it takes long to pickle.
    """

    path: str
    label: str
    type: str
    inband: int
    outband: int
    buffers: int
    seconds: float | None = None
    share: float | None = None
    children: tuple[Cost, ...] = ()
    advice: tuple[str, ...] = ()
    estimated: str = ""
    is_estimate: bool = False

    def _text(self) -> str:
        table = self._table(lambda label, depth: "  " * depth + label).text()
        return "\n".join([table, *self._remarks(), *(f"• {text}" for text in self.all_advice())])

    def _remarks(self) -> list[str]:
        return [self.estimated] if self.estimated else []

    def _table(self, indented: Callable[[str, int], Any]) -> Table:
        return Table(_HEAD, tuple(self._rows(indented)), _HEAD[:4])

    def _rows(self, indented: Callable[[str, int], Any], depth: int = 0) -> Iterator[Any]:
        time = "" if self.seconds is None else human_seconds(self.seconds)
        share = "" if self.share is None else f"{self.share:.0%}"
        sizes = human_bytes(self.inband), human_bytes(self.outband)
        path = indented(self.label if depth else self.path, depth)
        yield time, share, *sizes, path, self.type
        for child in self.children:
            yield from child._rows(indented, depth + 1)

    def all_advice(self) -> tuple[str, ...]:
        """Return this part's advice and that of all below it."""
        below = (text for child in self.children for text in child.all_advice())
        return tuple(dict.fromkeys([*self.advice, *below]))

    def _repr_html_(self) -> str:
        return page(self._table(code).html(), *self._remarks(), bullets(self.all_advice()))


_HEAD = ("time", "share", "pickled", "copied directly", "path", "type")


def explain(
    value: Any,
    reducers: Reducers,
    name: str = "",
    *,
    measure: Measure = measure,
    most: int = MOST_OBJECTS,
    spend: Spend = FIRST,
) -> Cost:
    """Find out what serializing a value costs, and which of its parts cost how much.

    If pickling takes longer than ``spend`` allows, the cost is estimated. At most about ``most``
    objects are examined; of large containers, samples. SerializationError if it can't be
    serialized; the message says which part.
    """
    root = name or name_of(value)
    total: Figures | None = None
    try:
        try:
            total = at_least = measure(value, reducers, {}, spend.total)
        except OutOfTimeError as early:
            at_least = early.figures._replace(seconds=spend.total)
        counting, tally = _counted(value, reducers, root, at_least, most, spend.tracing)
    except MemoryError:
        raise
    except Exception as error:
        raise cannot_pickle(error, {root: value}, reducers) from error
    missed = Figures()
    if total is not None:
        missed = _corrected(tally, total, counting)
    account = _Account(tally, total, at_least, counting.sampled, reducers, measure, spend)
    cost = with_room(lambda: account.cost(tally, Path()))
    children = cost.children
    if not counting.complete or missed.bytes:
        label = "not in the sample" if counting.complete else "not looked at"
        children = (*children, Cost(f"{root} {label}", label, "", *missed[1:]))
    estimated = ""
    if total is None:
        estimated = ALL_ESTIMATED if counting.complete else AT_LEAST
    elif counting.sampled:
        estimated = PARTS_ESTIMATED
    return replace(cost, children=children, estimated=estimated, is_estimate=total is None)


def _counted(
    value: Any, reducers: Reducers, root: str, total: Figures, most: int, seconds: float
) -> tuple[MeasuringPickler, Tally]:
    """Trace samples, each larger than the last, as far as ``most`` and ``seconds`` allow.

    If there is enough time, their size depends on the value only, not on the clock.
    """
    allowance, large = Allowance(seconds), dict[int, list[int]]()
    best: tuple[MeasuringPickler, Tally] | None = None
    for sample in SAMPLES:
        left = allowance.seconds_left
        if best is None:
            left = 2 * seconds  # the first sample is small, and an unfinished one is all there is
        elif best[0].looked_at * GROWTH > most or left <= 0:
            break
        counting = MeasuringPickler(reducers, root, total, most, sample, left, large)
        tally = counting.count(value)
        if best is None or counting.complete:
            best = counting, tally
        if not (counting.complete and counting.sampled):
            break
    assert best is not None
    return best


ALL_ESTIMATED = "Estimated from a sample."
AT_LEAST = "Estimated from a part of it: it is at least this."
PARTS_ESTIMATED = "The total was measured; its parts are estimated from a sample."


def _corrected(tally: Tally, total: Figures, counting: MeasuringPickler) -> Figures:
    """Give the root its exact figures and scale its parts; return what the parts lack."""
    before = tally.figures
    if counting.sampled and counting.complete and total.bytes <= before.bytes * TOLERATED:
        inband = total.inband / max(before.inband, 1)
        tally.scale(inband, total.outband / max(before.outband, 1))
        before = tally.figures
    tally.figures = total._replace(seconds=before.seconds)
    if counting.complete and not counting.sampled:  # the difference is the pickle's frames
        return Figures()
    missed = total.minus(before)
    return Figures(0.0, *(max(0, part) for part in missed[1:])) if missed.bytes > 0 else Figures()


class _Account:
    """Turns tallies into costs: the costliest parts, measured while there is time."""

    def __init__(
        self,
        root: Tally,
        total: Figures | None,
        begun: Figures,
        sampled: bool,
        reducers: Reducers,
        measure: Measure,
        spend: Spend,
    ) -> None:
        self._root = root
        self._reducers = reducers
        self._measure = measure
        self._spend = spend
        self._for_parts = Allowance(spend.parts)
        self._total = total or root.figures
        self._seconds: dict[int, float | None] = {}  # of the chosen: the costliest, from the root
        order = count()
        heap = [(-1.0, next(order), root)]
        while heap and len(self._seconds) < MOST_PARTS:
            tally = heapq.heappop(heap)[2]
            self._seconds[id(tally)] = None if tally is root else self._measured(tally)
            for part in tally.parts.values():
                share = self._share(part.figures)
                if share >= MATTERS:
                    heapq.heappush(heap, (-share, next(order), part))
        if total is None or sampled:
            self._extrapolate(begun)
        if total is not None:
            self._seconds[id(root)], self._total = total.seconds, total
        self._for_advice = Allowance(spend.advice)

    def _share(self, figures: Figures) -> float:
        """Return the larger of its shares in bytes and in seconds (those of the tracing)."""
        share = figures.bytes / max(self._total.bytes, 1)
        if self._total.seconds < NOTICED:
            return share
        return max(share, figures.seconds / max(self._root.figures.seconds, 1e-9))

    def _measured(self, tally: Tally) -> float | None:
        """Return the seconds to pickle it alone, scaled up if it is a sample, or if its time was up
        before all was pickled; None if unknown."""
        left = min(self._for_parts.seconds_left, self._spend.part)
        if left <= 0:
            return None
        some = tally.objects[:: len(tally.objects) // MOST_ALONE or 1]
        alone = some[0] if len(some) == 1 else some
        try:
            taken = self._measure(alone, self._reducers, tally.known, left)
        except OutOfTimeError as early:
            done = early.figures.inband
            return left * max(tally.figures.inband / done, 1.0) if done else None
        except Exception:  # it can be pickled only as a part of its owner
            return None
        return taken.seconds * tally.count / len(some)

    def _extrapolate(self, begun: Figures) -> None:
        """Estimate the whole's seconds from how far a timed run came; scale the parts' alike.

        A sample alone is quicker: its objects are still in the processor's caches.
        """
        alone, inband = self._estimated(self._root), max(self._root.figures.inband, 1)
        of_begun = alone * min(1.0, begun.inband / inband)
        slower = min(max(begun.seconds / max(of_begun, 1e-9), 1.0), MOST_SLOWER)
        seconds = slower * alone
        for key, taken in self._seconds.items():
            self._seconds[key] = taken and taken * slower
        self._seconds[id(self._root)] = seconds
        self._total = self._root.figures._replace(seconds=seconds)

    def _estimated(self, tally: Tally) -> float:
        """Return the seconds: measured, or the sum over its parts, or derived from tracing."""
        seconds = self._seconds.get(id(tally))
        if seconds is not None:
            return seconds
        if not tally.parts:
            return tally.figures.seconds / SLOWER
        return sum(map(self._estimated, tally.parts.values()))

    def cost(self, tally: Tally, above: Path, most: float = math.inf) -> Cost:
        """Return the cost of a chosen tally; parts not shown count as its own unless they matter.

        Its seconds are limited to ``most``, those of its parent.
        """
        path = above.joined(tally.label, tally.of, tally.before)
        shown = [part for part in tally.parts.values() if self._is_shown(part)]
        for part in [*tally.parts.values()]:
            if part not in shown:
                tally.fold(part)
        seconds, share = self._seconds[id(tally)], None
        if seconds is not None:
            seconds = most = min(seconds, most)
        children = [self.cost(part, path, most) for part in shown]
        known = [child.seconds for child in children if child.seconds is not None]
        if seconds is None and known:  # it takes at least as long
            seconds = min(sum(known), most)
        children.sort(key=lambda cost: (-(cost.seconds or 0.0), -cost.inband - cost.outband))
        hidden = (part.figures for part in tally.parts.values() if part not in shown)
        rest = functools.reduce(Figures.plus, hidden, Figures())
        if self._share(rest._replace(seconds=0.0)) >= MATTERS:  # by bytes: time may be chance
            children.append(Cost(f"{path} others", "others", "", *rest[1:]))
        advice: tuple[str, ...] = ()
        left = self._for_advice.seconds_left
        if left > 0 and not tally.is_inner:
            value, total = tally.objects[0], self._total
            advice = advise(value, path.expression, total, self._reducers, self._measure, left)
        label = f"{tally.of} → {tally.label}" if tally.of else tally.label.strip()
        label = f"{tally.before}…{label}" if tally.before else label
        if seconds is not None and self._total.seconds:
            share = min(1.0, seconds / self._total.seconds)
        return Cost(
            str(path),
            label,
            _type_of(tally),
            *tally.figures[1:],
            seconds,
            share,
            tuple(children),
            advice,
        )

    def _is_shown(self, tally: Tally) -> bool:
        """True if it was chosen and matters by its measured time: the tracing's may be chance."""
        if id(tally) not in self._seconds:
            return False
        seconds = self._seconds[id(tally)]
        if seconds is not None and self._total.seconds:
            of_tracing = seconds / self._total.seconds * self._root.figures.seconds
            tally.figures = tally.figures._replace(seconds=of_tracing)
        elif seconds is None:
            tally.figures = tally.figures._replace(seconds=0.0)
        return self._share(tally.figures) >= MATTERS


def _type_of(tally: Tally) -> str:
    if tally.count > 1:
        kind = "part" if tally.kind is object else tally.kind.__qualname__
        return f"{human_count(round(tally.count))} × {kind}"
    try:
        return describe(tally.objects[0])
    except Exception:  # an attribute of the object raises
        return tally.kind.__qualname__
