"""Processes of drivers: how each ended. No decisions, no sockets."""

from __future__ import annotations

import os
import select
import time
from collections import deque
from contextlib import suppress

from workbench.core.loop_events import DriverExited
from workbench.system import machine

OFTEN, LOOKS = 2.0, 5
"""Shortest seconds between two looks at what the OOM killer did, each of 0.1 ms; how many are kept.
A process may end seconds after it was killed: so long does Linux take to free its memory."""


class Watches:
    """Watches processes, with the ``epoll``, until they end: they may leave and join again."""

    def __init__(self, epoll: select.epoll) -> None:
        self._epoll = epoll
        self._watched: dict[int, tuple[int, int]] = {}  # by pidfd: client, pid
        self._looks = deque([(time.monotonic(), machine.oom_kills())], LOOKS)

    def begin(self, client: int, pid: int) -> None:
        """Watch a client's process. Nothing will be known if no descriptor is left now."""
        self.look()
        for pidfd in [fd for fd, (_, other) in self._watched.items() if other == pid]:
            self._end(pidfd)
        with suppress(OSError):
            pidfd = os.pidfd_open(pid)
            self._watched[pidfd] = client, pid
            self._epoll.register(pidfd, select.EPOLLIN)

    def look(self) -> None:
        """Note what the OOM killer has done so far, unless that was just noted."""
        now = time.monotonic()
        if now >= self._looks[-1][0] + OFTEN:
            self._looks.append((now, machine.oom_kills()))

    def client(self, pidfd: int) -> int | None:
        """Return the client whose process has ended; None if this is another descriptor."""
        return self._watched[pidfd][0] if pidfd in self._watched else None

    def ended(self, pidfd: int) -> DriverExited:
        """Return how a process ended, and watch it no longer."""
        client, pid = self._watched[pidfd]
        now, kills, (looked, before) = time.monotonic(), machine.oom_kills(), self._looks[0]
        more = None if kills is None or before is None else kills - before
        self._looks = deque([(now, kills)], LOOKS)
        status = machine.exit_status(pid, pidfd)
        self._end(pidfd)
        return DriverExited(client, status, more, now - looked)

    def _end(self, pidfd: int) -> None:
        del self._watched[pidfd]
        os.close(pidfd)

    def close(self) -> None:
        for pidfd in list(self._watched):
            self._end(pidfd)
