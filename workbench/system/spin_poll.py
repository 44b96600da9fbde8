"""Polling that spins for a moment before it sleeps. No sockets, no decisions but this one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from workbench.system import machine

SPIN = 0.0003
"""Seconds of spinning, at most, before a sleep."""

SHORT_WAIT = 0.0006
"""Seconds. After a wait shorter than this the next one spins. Must exceed one task round trip
between sleeping processes, or spinning never resumes."""

CONTESTED = 0.0003
"""Seconds. A yield that takes longer let somebody compute who waited for this core: two of ours
that share a core are done in less, and so is an interrupt."""

SHORTEST, LONGEST = 0.025, 16.0
"""Seconds without spinning after that: twice as many as the last time if it comes to that again
within as many, from the shortest to the longest. So where a core is wanted now and then, it spins
most of the time, and loses some milliseconds in each such turn; where all are, hardly ever."""


YIELDS = 20
"""How many are tried to see whether others want a core: each may take milliseconds."""


def yield_with_gil() -> Callable[[], object]:
    """A yield for who has other threads: `os.sched_yield` lets them have the GIL meanwhile, and how
    long it takes would tell of them, too."""
    import ctypes  # here: the server does without, and it is slow to import

    yield_: Callable[[], object] = ctypes.PyDLL(None).sched_yield
    return yield_


def can_spin(limits: tuple[int, float | None] | None = None) -> bool:
    """True if there is a core to keep busy while another of our processes computes. ``limits``: as
    of `machine.cpu_limits`, which says those of this process."""
    count, quota = limits or machine.cpu_limits()
    return min(count, count if quota is None else quota) >= 2


def longest_yield() -> float:
    """Seconds. More than `CONTESTED` if others want this core just now."""
    longest = 0.0
    for _ in range(YIELDS):
        started = time.perf_counter()
        os.sched_yield()
        longest = max(longest, time.perf_counter() - started)
    return longest


class SpinThenPoll:
    """A poll that stays awake while messages follow each other closely.

    Being woken on an idle core costs 20 to 50 µs on a virtual machine, and the caches are cold
    then: several times what handling a small message costs. So after a wait shorter than
    `SHORT_WAIT` the next one polls again and again for `SPIN`, yielding the processor each time. A
    wait for something slow costs one such spin; with a single processor, by affinity or by quota,
    there is none. As with ``select``, a timeout of 0 looks once, None waits for ever.

    Where others want the cores, sleeping is quicker: the kernel wakes who has slept before those
    that compute (6 µs), and has who yielded wait behind them for a whole turn (4 to 16 ms,
    Linux 6.18). Such a yield is how we know of them. Nothing else tells it everywhere: pressure
    files lag by seconds, and in a container the load is the host's.
    """

    def __init__(
        self,
        poll: Callable[[Any], list[tuple[int, int]]],
        yield_: Callable[[], object] = os.sched_yield,
        clock: Callable[[], float] = time.perf_counter,
        may_spin: bool | None = None,
    ) -> None:
        self._poll = poll
        self._yield = yield_
        self._clock = clock
        self._spins = False
        self._may_spin = can_spin() if may_spin is None else may_spin
        self._pause = 0.0  # seconds
        self._resumes = 0.0

    def __call__(self, timeout: float | None) -> list[tuple[int, int]]:
        poll = self._poll
        ready = poll(0)
        if ready or timeout == 0:
            return ready
        clock, yield_ = self._clock, self._yield
        started = now = clock()
        if self._spins and self._may_spin and started >= self._resumes:
            while now - started < SPIN and (timeout is None or timeout > SPIN):
                before = clock()  # behind the look, which lets go of the GIL
                yield_()
                now = clock()
                if now - before > CONTESTED:
                    self._rest(now)
                ready = poll(0)
                if ready:
                    return ready
        ready = poll(timeout)
        self._spins = clock() - started < SHORT_WAIT
        return ready

    def _rest(self, now: float) -> None:
        """Somebody else wants the core: sleep from now on, and try again later."""
        again = now < self._resumes + self._pause
        self._pause = min(2 * self._pause, LONGEST) if again and self._pause else SHORTEST
        self._resumes = now + self._pause
