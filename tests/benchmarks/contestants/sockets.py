"""The least that two processes need to talk: 200 bytes through a unix socket, there and back.

Between two cores most of it is the waking of an idle one, which a task goes through four times.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection

from pools import Effort, Sample, times

MESSAGE = b"x" * 200


def measure(rows: Collection[str], effort: Effort) -> Sample:
    cores = sorted(os.sched_getaffinity(0))
    return {
        "round_trip": _round_trip(cores[0], cores[-1], effort),
        "round_trip_one_core": _round_trip(cores[0], cores[0], effort),
    }


def _round_trip(here: int, there: int, effort: Effort) -> float:
    """Seconds, with blocking calls; each process is kept on its core."""
    os.sched_setaffinity(0, {here})
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        os.sched_setaffinity(0, {there})
        ours.close()
        while message := theirs.recv(len(MESSAGE)):
            theirs.sendall(message)
        os._exit(0)
    theirs.close()

    def there_and_back() -> None:
        ours.sendall(MESSAGE)
        ours.recv(len(MESSAGE))

    (seconds,) = times(effort, there_and_back)
    ours.close()
    os.waitpid(pid, 0)
    return seconds
