"""Measures and limits the private memory of a session's processes, and of those that they have
started."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from contextlib import suppress

from workbench.core.loop_events import MeasuredProcess
from workbench.system.machine import MemoryGauge, started_by


def measured(gauge: MemoryGauge, clients: Iterable[tuple[int, int]]) -> tuple[MeasuredProcess, ...]:
    """Return what these clients' processes have, given as pairs (client, pid), and what processes
    have that those have started, without this one and its own. Those that end meanwhile are left
    out."""
    owners = {pid: client for client, pid in clients}
    for first, client in [*owners.items()]:
        for pid in started_by(first, but=os.getpid()):
            owners.setdefault(pid, client)
    found = []
    for pid, client in owners.items():
        with suppress(OSError):  # it has ended, or is another user's
            limit, _ = resource.prlimit(pid, resource.RLIMIT_DATA)
            found.append(MeasuredProcess(client, pid, *gauge.of_process(pid), _number(limit)))
    return tuple(found)


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
