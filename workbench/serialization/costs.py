"""What serializing an object costs, and which part of it: a tree of bytes, seconds and advice.

The bytes are exact, the seconds measured. The records are names, numbers and text; nothing in
them keeps the object alive.
"""

from __future__ import annotations

import functools
import heapq
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from workbench.markup import Rich, Table, bullets, code, page
from workbench.report.format import human_bytes, human_count, human_seconds
from workbench.serialization.advice import advise
from workbench.serialization.arrays import Reducers
from workbench.serialization.codec import describe
from workbench.serialization.inspection import cannot_pickle, name_of
from workbench.serialization.measure import (
    MATTERS,
    NOTICED,
    Figures,
    Measure,
    MeasuringPickler,
    Tally,
    measure,
)  # fmt: skip
from workbench.serialization.paths import joined
from workbench.serialization.tracing import with_room

MOST_OBJECTS = 500_000
"""Objects that are looked at, numbers and short texts not counted: some ten seconds."""

MOST_PARTS = 50
"""Parts that are shown, counting others as one."""

MOST_SECONDS = 5.0
"""Spent on measuring parts; what comes later goes without. Advice gets as much again."""


@dataclass(frozen=True, slots=True)
class Cost(Rich):
    """What one part of an object costs, all that is in it included.

    An object that stands in several places is counted where it is saved first.

    Attributes
    ----------
    path : str
        Where it is: ``model.layers[2]``, ``frame['name']``, ``points[…]`` for many.
    label : str
        The end of the path, which says what its parent calls it.
    type : str
        What it is, for people.
    inband, outband : int
        Bytes in the pickle, and in buffers beside it. Of the root these are what a put stores, and
        the sum over its children is less by what is its own.
    buffers : int
        How many.
    seconds : float or None
        What it takes to pickle this alone; None if nobody measured it.
    share : float or None
        Of the root's seconds.
    children : tuple of Cost
        The costly parts, worst first.
    advice : tuple of str
        What would be cheaper; it was tried.
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

    def __str__(self) -> str:
        table = self._table(lambda label, depth: "  " * depth + label).text()
        return "\n".join([table, *(f"• {text}" for text in self.all_advice())])

    def _table(self, indented: Callable[[str, int], str]) -> Table:
        rows = ((*row, indented(label, depth), type) for depth, *row, label, type in self._rows())
        return Table(_HEAD, tuple(rows), _HEAD[:4])

    def _rows(self, depth: int = 0) -> Iterator[tuple[Any, ...]]:
        """Itself and all below: depth and cells."""
        time = "" if self.seconds is None else human_seconds(self.seconds)
        share = "" if self.share is None else f"{self.share:.0%}"
        sizes = human_bytes(self.inband), human_bytes(self.outband)
        yield depth, time, share, *sizes, self.label if depth else self.path, self.type
        for child in self.children:
            yield from child._rows(depth + 1)

    def all_advice(self) -> tuple[str, ...]:
        """Its own and that of all below."""
        below = (text for child in self.children for text in child.all_advice())
        return tuple(dict.fromkeys([*self.advice, *below]))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return page(self._table(code).html(), bullets(self.all_advice()))


_HEAD = ("time", "share", "pickled", "copied directly", "path", "type")


def explain(
    value: Any,
    reducers: Reducers,
    name: str = "",
    *,
    measure: Measure = measure,
    most: int = MOST_OBJECTS,
    seconds: float = MOST_SECONDS,
) -> Cost:
    """Find out what serializing a value costs, and which parts of it do.

    ``most`` objects are looked at; the others are a part of their own, ``not looked at``.
    Measuring the parts may take so many ``seconds``.

    Raises
    ------
    SerializationError
        If it can't be serialized; the message says what in it.
    """
    root = name or name_of(value)
    try:
        total = measure(value, reducers, {})
        counting = MeasuringPickler(reducers, root, total, most)
        tally = counting.count(value)
    except MemoryError:
        raise
    except Exception as error:
        raise cannot_pickle(error, {root: value}, reducers) from error
    missed = total.minus(tally.figures)[1:]
    tally.figures = total._replace(seconds=tally.figures.seconds)
    account = _Account(tally, total, reducers, measure, seconds)
    cost = with_room(lambda: account.cost(tally, ""))
    if counting.complete:  # what it missed are the frames of the pickle
        return cost
    rest = Cost(f"{root} not looked at", "not looked at", "", *missed)
    return replace(cost, children=(*cost.children, rest))


class _Account:
    """Makes costs of tallies: those that cost most, measured while there is time."""

    def __init__(
        self, root: Tally, total: Figures, reducers: Reducers, measure: Measure,
        seconds: float,
    ) -> None:  # fmt: skip
        self._root = root
        self._total = total
        self._reducers = reducers
        self._measure = measure
        started = time.perf_counter()
        self._until = started + seconds
        self._advice_until = started + 2 * seconds
        self._seconds: dict[int, float | None] = {}  # of the chosen: the costliest, from the root
        order = count()
        heap = [(-1.0, next(order), root)]
        while heap and len(self._seconds) < MOST_PARTS:
            tally = heapq.heappop(heap)[2]
            self._seconds[id(tally)] = self._measured(tally)
            for part in tally.parts.values():
                share = self._share(part.figures)
                if share >= MATTERS:
                    heapq.heappush(heap, (-share, next(order), part))

    def _share(self, figures: Figures) -> float:
        """The larger of the shares in bytes and in seconds, by the tracing's clock."""
        share = figures.bytes / max(self._total.bytes, 1)
        if self._total.seconds < NOTICED:
            return share
        return max(share, figures.seconds / max(self._root.figures.seconds, 1e-9))

    def _measured(self, tally: Tally) -> float | None:
        if tally is self._root:
            return self._total.seconds
        if time.perf_counter() > self._until:
            return None
        alone = tally.objects[0] if len(tally.objects) == 1 else tally.objects
        try:
            return self._measure(alone, self._reducers, tally.known).seconds
        except Exception:  # it can only be pickled as a part of its owner
            return None

    def cost(self, tally: Tally, above: str) -> Cost:
        """Of one that was chosen. What it doesn't show passes for its own, if that is little."""
        path = joined(above, tally.label, tally.of, tally.before)
        shown = [part for part in tally.parts.values() if self._is_shown(part)]
        for part in [*tally.parts.values()]:
            if part not in shown:
                tally.fold(part)
        children = [self.cost(part, path) for part in shown]
        children.sort(key=lambda cost: (-(cost.seconds or 0.0), -cost.inband - cost.outband))
        hidden = (part.figures for part in tally.parts.values() if part not in shown)
        rest = functools.reduce(Figures.plus, hidden, Figures())
        if self._share(rest) >= MATTERS:
            children.append(Cost(f"{path} others", "others", "", *rest[1:]))
        advice: tuple[str, ...] = ()
        if not tally.is_inner and time.perf_counter() <= self._advice_until:
            value = tally.objects[0]
            advice = advise(value, path, self._total, self._reducers, self._measure)
        label = f"{tally.of} → {tally.label}" if tally.of else tally.label.strip()
        label = f"{tally.before}…{label}" if tally.before else label
        seconds, share = self._seconds[id(tally)], None
        if seconds is not None and self._total.seconds:
            share = min(1.0, seconds / self._total.seconds)
        return Cost(
            path, label, _type_of(tally), *tally.figures[1:], seconds, share,
            tuple(children), advice,
        )  # fmt: skip

    def _is_shown(self, tally: Tally) -> bool:
        """Whether one was chosen, and matters: that tracing it took long may have been chance."""
        if id(tally) not in self._seconds:
            return False
        seconds = self._seconds[id(tally)]
        if seconds is not None and self._total.seconds:
            of_tracing = seconds / self._total.seconds * self._root.figures.seconds
            tally.figures = tally.figures._replace(seconds=of_tracing)
        return self._share(tally.figures) >= MATTERS


def _type_of(tally: Tally) -> str:
    if len(tally.objects) > 1:
        kind = "part" if tally.kind is object else tally.kind.__qualname__
        return f"{human_count(len(tally.objects))} × {kind}"
    try:
        return describe(tally.objects[0])
    except Exception:  # an attribute of the object's own that raises
        return tally.kind.__qualname__
