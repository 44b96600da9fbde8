"""A poll that spins for a moment before it sleeps. Decides nothing else; no sockets."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from workbench.system import machine

SPIN = 0.0003
"""Most seconds of spinning before a sleep."""

SHORT_WAIT = 0.0006
"""Seconds: after a shorter wait the next one spins. Must exceed one task round trip between
sleeping processes, or spinning never resumes."""

CONTESTED = 0.0003
"""Seconds: a longer yield means that another process computed on this core. Two of our processes
that share a core take less, and so does an interrupt."""

SHORTEST, LONGEST = 0.025, 16.0
"""Seconds without spinning after such a yield: at first and at most; doubled if the next comes as
soon after the last pause. So where others use a core now and then, it spins most of the time and
loses some milliseconds each time; where others use all cores, it hardly ever spins."""


YIELDS = 20
"""Yields tried to see if others want a core: each may take milliseconds."""


def yield_with_gil() -> Callable[[], object]:
    """Return a yield that keeps the GIL, for processes with threads: `os.sched_yield` releases it,
    so other threads would count in its duration."""
    import ctypes  # imported here: slow, and the server doesn't need it

    yield_: Callable[[], object] = ctypes.PyDLL(None).sched_yield
    return yield_


def can_spin(limits: tuple[int, float | None] | None = None) -> bool:
    """True if a core may be kept busy while another of our processes computes. ``limits``: those of
    `machine.cpu_limits`, by default this process's."""
    count, quota = limits or machine.cpu_limits()
    return min(count, count if quota is None else quota) >= 2


def longest_yield() -> float:
    """Return the longest of some yields in seconds: above `CONTESTED` if others want this core."""
    longest = 0.0
    for _ in range(YIELDS):
        started = time.perf_counter()
        os.sched_yield()
        longest = max(longest, time.perf_counter() - started)
    return longest


class SpinThenPoll:
    """A poll that stays awake while messages follow each other closely.

    On a virtual machine it takes 20 to 50 µs to be woken on an idle core, and the caches are cold
    then: several times the cost of handling a small message. So after a wait shorter than
    `SHORT_WAIT` the next one polls again and again for `SPIN`, yielding the processor each time. A
    wait for something slow costs one such spin; with a single processor, by affinity or by quota,
    there is none. As with ``select``, a timeout of 0 looks once, None waits for ever.

    Where others want the cores, sleeping is quicker: the kernel runs a process that has slept
    before those that compute (6 µs), but one that yielded only after a whole turn of them (4 to 16
    ms, Linux 6.18). Such a long yield shows that there are others. Nothing else shows it
    everywhere: pressure files lag by seconds, and in a container the load is the host's.
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
                before = clock()  # after the poll, which releases the GIL
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
        """Sleep for a while instead of spinning, because others want the core."""
        again = now < self._resumes + self._pause
        self._pause = min(2 * self._pause, LONGEST) if again and self._pause else SHORTEST
        self._resumes = now + self._pause
