"""What serializing an object costs, and which part of it: a tree of bytes, seconds and advice.

The bytes are exact, the seconds measured. The records are names, numbers and text; nothing in
them keeps the object alive.
"""

from __future__ import annotations

import functools
import heapq
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from workbench.markup import Rich, Table, bullets, code, page
from workbench.serialization.advice import advise
from workbench.serialization.arrays import Reducer
from workbench.serialization.codec import describe
from workbench.serialization.failures import cannot_pickle
from workbench.serialization.inspection import name_of
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
from workbench.units import human_bytes, human_count, human_seconds

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
        Where it is: ``model.layers[2]``, ``frame column 'name'``, ``points[…]`` for many.
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
    reducers: Mapping[type, Reducer],
    name: str = "",
    *,
    measure: Measure = measure,
    most: int = MOST_OBJECTS,
    seconds: float = MOST_SECONDS,
) -> Cost:
    """Find out what serializing a value costs, and which parts of it do.

    Parameters
    ----------
    value : object
        Anything that can be serialized.
    reducers : mapping of type → reducer
        As for `codec.serialize`.
    name : str
        What the paths begin with; default the value's own name, or its type's.
    measure : callable
        Pickles something, and says what that took.
    most : int
        Objects looked at. What is not looked at is a part of its own, ``not looked at``.
    seconds : float
        What measuring the parts may take.

    Returns
    -------
    Cost
        Of the whole; its parts are its children.

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
        self, root: Tally, total: Figures, reducers: Mapping[type, Reducer], measure: Measure,
        seconds: float,
    ) -> None:  # fmt: skip
        self._root = root
        self._total = total
        self._reducers = reducers
        self._measure = measure
        self._advice_until = time.perf_counter() + 2 * seconds
        self._choose(time.perf_counter() + seconds)

    def _choose(self, until: float) -> None:
        """The costliest parts, each below its parent; and how long they take."""
        self._seconds: dict[int, float | None] = {}
        order = count()
        heap = [(-1.0, next(order), self._root)]
        while heap and len(self._seconds) < MOST_PARTS:
            tally = heapq.heappop(heap)[2]
            self._seconds[id(tally)] = self._measured(tally, until)
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

    def _measured(self, tally: Tally, until: float) -> float | None:
        if tally is self._root:
            return self._total.seconds
        if time.perf_counter() > until:
            return None
        alone = tally.objects[0] if len(tally.objects) == 1 else tally.objects
        try:
            return self._measure(alone, self._reducers, tally.known).seconds
        except Exception:  # it can only be pickled as a part of its owner
            return None

    def cost(self, tally: Tally, above: str) -> Cost:
        """Of one that was chosen."""
        path = joined(above, tally.label, tally.of)
        chosen = [part for part in tally.parts.values() if self._is_chosen(part)]
        for part in [*tally.parts.values()]:
            if part not in chosen:
                tally.fold(part)
        children = [self.cost(part, path) for part in chosen]
        others = self._others(tally, path)
        children.sort(key=lambda cost: (-(cost.seconds or 0.0), -cost.inband - cost.outband))
        label = f"{tally.of} → {tally.label}" if tally.of else tally.label.strip()
        seconds, share = self._seconds[id(tally)], None
        if seconds is not None and self._total.seconds:
            share = min(1.0, seconds / self._total.seconds)
        return Cost(
            path, label, _type_of(tally), *tally.figures[1:], seconds, share,
            (*children, *others), self._advice(tally, path),
        )  # fmt: skip

    def _is_chosen(self, tally: Tally) -> bool:
        """Whether it is shown. That tracing it took long may have been chance."""
        if id(tally) not in self._seconds:
            return False
        seconds = self._seconds[id(tally)]
        if seconds is not None and self._total.seconds:
            of_tracing = seconds / self._total.seconds * self._root.figures.seconds
            tally.figures = tally.figures._replace(seconds=of_tracing)
        return self._share(tally.figures) >= MATTERS

    def _others(self, tally: Tally, path: str) -> Iterator[Cost]:
        """The parts that are not shown, if they matter together; else they pass for its own."""
        hidden = (p.figures for p in tally.parts.values() if not self._is_chosen(p))
        rest = functools.reduce(Figures.plus, hidden, Figures())
        if self._share(rest) >= MATTERS:
            yield Cost(f"{path} others", "others", "", *rest[1:])

    def _advice(self, tally: Tally, path: str) -> tuple[str, ...]:
        if time.perf_counter() > self._advice_until:
            return ()
        return advise(tally.objects[0], path, self._total, self._reducers, self._measure)


def _type_of(tally: Tally) -> str:
    if len(tally.objects) > 1:
        kind = "part" if tally.kind is object else tally.kind.__qualname__
        return f"{human_count(len(tally.objects))} × {kind}"
    try:
        return describe(tally.objects[0])
    except Exception:  # an attribute of the object's own that raises
        return tally.kind.__qualname__
