"""Measures and limits the private memory of a session's processes, and of those that they have
started."""

from __future__ import annotations

import resource
from collections.abc import Iterable
from contextlib import suppress

from workbench.core.loop_events import MeasuredProcess
from workbench.system.machine import MemoryGauge, started_by


def measured(gauge: MemoryGauge, clients: Iterable[tuple[int, int]]) -> tuple[MeasuredProcess, ...]:
    """Return what these clients' processes have, given as pairs (client, pid), and what processes
    have that those have started. Those that end meanwhile are left out."""
    found: dict[int, MeasuredProcess] = {}
    for client, first in clients:
        for pid in (first, *started_by(first)):
            with suppress(OSError):  # it has ended, or is another user's
                limit, _ = resource.prlimit(pid, resource.RLIMIT_DATA)
                sizes = gauge.of_process(pid)
                found.setdefault(pid, MeasuredProcess(client, pid, *sizes, _number(limit)))
    return tuple(found.values())


def set_limits(limits: Iterable[tuple[int, int, int]]) -> None:
    """Set soft limits for private memory, as triples (pid, limit, the one that was measured),
    within the hard ones. A process that has set another one meanwhile keeps that."""
    for pid, limit, before in limits:
        with suppress(OSError, ValueError):  # as above; or its hard limit has just become lower
            soft, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
            if _number(soft) == before:
                soft = hard if limit >= _number(hard) else limit
                resource.prlimit(pid, resource.RLIMIT_DATA, (soft, hard))


def _number(limit: int) -> int:
    return _ENDLESS if limit == resource.RLIM_INFINITY else limit


_ENDLESS = (1 << 63) - 1
