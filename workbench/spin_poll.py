"""Looking a few times more before going to sleep. No sockets, no decisions but this one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

LOOK = 0.0003
"""Seconds of looking, at most, before a sleep."""

BRISK = 0.0006
"""Seconds. After a wait shorter than this, looking is worth it. Longer than a task takes to and
fro when everybody sleeps in between: else nobody who has once slept would begin to look again."""


class SpinThenPoll:
    """A poll that stays awake while messages come briskly.

    Being woken costs 20 to 50 µs on a virtual machine, and the caches are cold then: several
    times what handling a small message costs. So after a wait shorter than `BRISK` the next one
    begins by looking for `LOOK`, yielding the processor each time. Whoever waits for
    something slow pays for it once; who has only one processor, never.

    Parameters
    ----------
    poll : callable(timeout) → list
        Of a ``select`` object; 0 looks once, None waits for ever.
    """

    def __init__(self, poll: Callable[[Any], list[tuple[int, int]]]) -> None:
        self._poll = poll
        self._brisk = False
        self._alone = len(os.sched_getaffinity(0)) < 2

    def __call__(self, timeout: float | None) -> list[tuple[int, int]]:
        """What is ready; as ``poll(timeout)``."""
        poll = self._poll
        ready = poll(0)
        if ready or timeout == 0:
            return ready
        clock, yield_ = time.perf_counter, os.sched_yield
        started = clock()
        if self._brisk and not self._alone and (timeout is None or timeout > LOOK):
            while clock() - started < LOOK:
                yield_()
                ready = poll(0)
                if ready:
                    return ready
        ready = poll(timeout)
        self._brisk = clock() - started < BRISK
        return ready
