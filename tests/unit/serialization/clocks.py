"""A clock in place of the machine's, and limits that never come. No objects: those are samples."""

from __future__ import annotations

import itertools
import math

from workbench.serialization.costs import Spend

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
