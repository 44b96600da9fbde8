"""How much private memory each process of the session may have, so that an allocation
that would use up the machine's memory fails where it is asked for, before Linux kills a process.

Linux refuses private memory beyond a process's soft limit, ``RLIMIT_DATA``, when it is reserved,
before a page of it is touched (getrlimit(2)); Python raises MemoryError then. Shared memory, and so
the store, doesn't count. The limit is what a process has (``VmData``) and what is left for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.core.loop_events import MeasuredProcess

HALF_LIFE = 30.0
"""Seconds after which half of what a process has and doesn't touch is taken for memory that it
never will. It counts as taken at first: an array is filled soon, and what was freed, and not given
back, is used again, at the limit even by C code that nothing can stop. But libraries reserve
memory, too."""

SHARE_WHEN_SHORT, SHARE_AFTER_ERROR = 0.125, 0.5
"""Share of what the machine has left that a process may still take, once, when no more than the
headroom is left: small things go on. The second after its MemoryError, so that it is shown, and
cleared up. It may again when so much as the first is left beside the headroom."""


@dataclass(slots=True)
class _Limited:
    """A process at the last measurement, in bytes."""

    client: int
    own: int  # its limit before this session set one
    private: int
    data: int
    code: int  # of libraries
    loads: bool = True  # libraries were loaded before the measurement
    untouched: float = 0.0  # bytes that it has had since then, and will touch
    limit: int = 0  # the one that was set last; 0: none yet
    floor: float = 0.0  # so much it may have even if the headroom is reached; 0: no more

    def note(self, now: MeasuredProcess, seconds: float) -> None:
        """Take in what it has now. What libraries reserve when they are loaded, for threads and
        buffers, isn't counted: it is never filled."""
        more = (now.data - self.data) - (now.private - self.private)  # that it doesn't touch
        loaded, self.loads = self.loads, now.code > self.code
        self.untouched *= 0.5 ** (seconds / HALF_LIFE)
        if more < 0 or not (loaded or self.loads):
            self.untouched = max(self.untouched + more, 0.0)
        self.private, self.data, self.code = now.private, now.data, now.code


class DataLimits:
    """See the module."""

    def __init__(self) -> None:
        self._known: dict[int, _Limited] = {}  # by pid
        self._measured_at = 0.0
        self.is_quiet = False  # no process has grown or shrunk between the last two measurements

    def note(self, processes: Iterable[MeasuredProcess], now: float) -> int:
        """Take in a measurement; return the bytes that processes have and will yet touch."""
        seconds, self._measured_at = now - self._measured_at, now
        before, self._known = self._known, {}
        self.is_quiet = True
        for each in processes:
            known = before.get(each.pid)
            if known is None:
                known = _Limited(each.client, each.limit, each.private, each.data, each.code)
            self.is_quiet &= known.data == each.data
            known.note(each, seconds)
            self._known[each.pid] = known
        return int(sum(known.untouched for known in self._known.values()))

    def decide(
        self, processes: Iterable[MeasuredProcess], spare: int, available: int, headroom: int
    ) -> tuple[tuple[int, int, int], ...]:
        """Return the limits for LimitData. ``spare`` of the ``available`` bytes aren't headroom;
        a quarter of that is left to others in any case.

        A process that has raised its limit itself had a MemoryError (`system.data_limit`).
        """
        limits = []
        for each in processes:
            known = self._known[each.pid]
            taken = each.private + known.untouched
            if known.limit and each.limit > known.limit:
                known.floor = taken + available * SHARE_AFTER_ERROR
            elif spare > available * SHARE_WHEN_SHORT:
                known.floor = 0
            elif spare <= 0 and not known.floor:
                known.floor = taken + available * SHARE_WHEN_SHORT
            more = max(spare, min(known.floor - taken, available - headroom / 4), 0)
            known.limit = min(each.data + int(more), known.own)
            limits.append((each.pid, known.limit, each.limit))
        return tuple(limits)

    def release(self, client: int) -> tuple[tuple[int, int, int], ...]:
        """Return the own limits of the processes of a client that leaves, for LimitData."""
        known = self._known.items()
        return tuple((pid, k.own, k.limit) for pid, k in known if k.client == client)
