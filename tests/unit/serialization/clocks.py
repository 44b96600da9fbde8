"""Clocks in place of the machine's, and limits that never come. No objects: those are samples."""

from __future__ import annotations

import itertools
import math
from typing import Any

from workbench.serialization.costs import Spend
from workbench.serialization.measure import Figures
from workbench.serialization.pickler import ByteCounter, Pickler

AMPLE = Spend(*[math.inf] * 5)


class Looks:
    """Goes on by a step at each look at it: what takes long looks at it often.

    A ``step`` that is a power of two is added without rounding. ``hiccups`` are the looks before
    which others had the processor, for a thousand steps.
    """

    def __init__(self, step: float, hiccups: range = range(0)) -> None:
        self.step, self.hiccups = step, hiccups
        self.looks, self.now = 0, 0.0
        self._numbers = itertools.count(1)  # several threads may look

    def perf_counter(self) -> float:
        self.looks = next(self._numbers)
        self.now += self.step * (1000 if self.looks in self.hiccups else 1)
        return self.now

    thread_time = perf_counter


def by_bytes(value: Any, reducers: Any, known: Any, seconds: float) -> Figures:
    """Measures by no clock: as if a second were a megabyte."""
    counter = ByteCounter()
    pickler = Pickler(counter, reducers, counter.add_buffer)
    if known:
        pickler.memo = known
    pickler.dump(value)
    figures = Figures(0.0, counter.inband, counter.outband, counter.buffers)
    return Figures(figures.bytes / 1e6, *figures[1:])


def by_inband(*args: Any) -> Figures:
    """The same, of the pickle without the buffers beside it."""
    figures = by_bytes(*args)
    return Figures(figures.inband / 1e6, *figures[1:])
