"""Keeper: what of a session outlives its kernel: names, background cells, what these showed, who is
there. A pure record keeper: it runs in an actor, or in a scheduler, which tells it the time.

Natives are opaque to it; whoever runs it sees to it that what it keeps lives on. Names and pins are
in `kept_names`, background cells in `kept_jobs`, what drivers ask each other in `inquiries`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from workbench.core.snapshot import ClientRecord, WorkerRecord
from workbench.engines.cluster.backend import Message
from workbench.engines.cluster.inquiries import Inquiries
from workbench.engines.cluster.kept_jobs import KeptJobs
from workbench.engines.cluster.kept_names import KeptNames

MOST_QUEUED = 100_000
"""Messages for one driver that doesn't fetch them: it has gone, or will not come back in time."""

NOBODY = 60.0
"""Seconds that who has started a session has to come."""

batch_of = msgspec.msgpack.Decoder(list[Message]).decode
encode = msgspec.msgpack.Encoder().encode


class _Driver:
    """One driver: what waits for it."""

    def __init__(self, record: ClientRecord, process: str) -> None:
        self.record = record
        self.process = process
        self.queue: list[Message] = []


class Keeper:
    """See the module. One thread at a time. ``clock`` is a monotonic one, in seconds.

    ``wake`` is told of the drivers for whom something waits now: whoever runs this hands it on.
    """

    def __init__(self, clock: Callable[[], float], wake: Callable[[int], object]) -> None:
        self._clock = clock
        self.wake = wake
        self._drivers: dict[int, _Driver] = {}
        self.linger = 0.0
        self._came = False
        self._used_at = clock()
        self._clients = itertools.count(1)
        self._workers: dict[str, WorkerRecord] = {}
        self.nodes: dict[int, str] = {}  # by worker
        self._serializers: list[tuple[int, bytes]] = []
        names, jobs = KeptNames(), KeptJobs(clock, self._send)
        self._jobs = jobs
        self.parts = names, jobs, Inquiries(self._send)
        self.ended, self.unfinished = jobs.ended, jobs.unfinished
        self._droppers = names.dropped, jobs.dropped

    def ask(self, question: str, *args: Any) -> Any:
        """Any method of it or of its parts, by name: see `Backend.ask`."""
        found = next(part for part in (self, *self.parts) if hasattr(part, question))
        return getattr(found, question)(*args)

    def dropped(self, ids: Sequence[int]) -> None:
        """These objects were freed: nothing here keeps them any more."""
        for drop in self._droppers:
            drop(ids)

    # -- who is there -------------------------------------------------------------------------

    def join(
        self, audience: int, pid: int, label: str, host: str = "", process: str = "",
        linger: float = 0.0,
    ) -> int:  # fmt: skip
        """A driver comes; returns how many others there are. ``process`` is what the system itself
        calls it: see `processes`; ``linger``: seconds the session shall outlive the last one."""
        self.linger = max(self.linger, linger)
        self._came = True
        others = len(self._drivers)
        record = ClientRecord(next(self._clients), pid, "driver", label, audience, host)
        self._drivers[audience] = _Driver(record, process)
        return others

    def processes(self) -> dict[int, str]:
        """By driver, what the system itself calls it; '' where that wasn't said."""
        return {id: driver.process for id, driver in self._drivers.items()}

    def leave(self, audience: int) -> int:
        """It goes; returns how many are left. What its jobs show is kept from now on."""
        if self._drivers.pop(audience, None) is not None:
            self._used_at = self._clock()
        self._jobs.left(audience)
        return len(self._drivers)

    def keep(self, linger: float | None = None) -> float:
        """By how many seconds the session outlives its last driver; from now on, if it is said."""
        self.linger = self.linger if linger is None else linger
        return self.linger

    def seconds_left(self) -> float | None:
        """How long the session lives on, if nobody comes; None: a driver is there, or a job."""
        if self._drivers or not self._jobs.all_over:
            return None
        linger = self.linger if self._came else NOBODY
        return max(self._used_at, self._jobs.ended_at or 0.0) + linger - self._clock()

    def drivers(self) -> tuple[ClientRecord, ...]:
        """Those that are there."""
        return tuple(driver.record for driver in self._drivers.values())

    def enroll(self, key: str, pid: int, node: str, host: str) -> int:
        """A worker's number, small and the same as long as it lives; it is on that ``host``."""
        if key not in self._workers:
            number = len(self._workers) + 1
            self._workers[key] = WorkerRecord(number, pid, "idle", (), host=host)
            self.nodes[number] = node
        return self._workers[key].number

    def workers(self) -> tuple[WorkerRecord, ...]:
        """All that have come."""
        return tuple(self._workers.values())

    # -- the channel ---------------------------------------------------------------------------

    def push(self, batch: bytes) -> None:
        """What a worker sends."""
        for message in batch_of(batch):
            if message.job:
                self._jobs.came(message)
            else:
                self._send(message.audience, message)

    def _send(self, audience: int, message: Message) -> None:
        driver = self._drivers.get(audience)
        if driver is not None and len(driver.queue) < MOST_QUEUED:
            driver.queue.append(message)
            self.wake(audience)

    def take(self, audience: int) -> bytes:
        """What waits for a driver; it is its from now on."""
        driver = self._drivers.get(audience)
        if driver is None or not driver.queue:
            return b""
        queue, driver.queue = driver.queue, []
        return encode(queue)

    # -- serializers -----------------------------------------------------------------------------

    def register(self, number: int, payload: bytes) -> int:
        """A custom serializer, or (no payload) its end; returns how many came by now."""
        self._serializers.append((number, payload))
        return len(self._serializers)

    def serializers(self, since: int) -> list[tuple[int, bytes]]:
        """Those that came after so many."""
        return self._serializers[since:]
