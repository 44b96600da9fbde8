"""How many worker processes there are: which to fork, which to release, when to give up."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from workbench.core.scheduler import Scheduler
from workbench.core.tasks import Actor, Worker

SPARE_SECONDS = 2.0
"""A worker that was added because others were blocked leaves after this long without work."""

MOST = 1024
"""Workers at any time, if that is twice as many as shall have a slot. Tasks that wait for tasks
deeper than that fail: it ends fork bombs."""

LENT = 64
"""Workers beyond the usual number, at most, for tasks that nobody who has begun waits for: more
would begin, and all want their slots back at once. More than that while nobody else runs."""

LIGHT = 32
"""Workers beyond the usual number, at most, for tasks that need less than a processor each."""

MOST_STARTUP_FAILURES = 3
"""After so many workers in a row that died before their Hello the pool is broken: nobody waits for
more of them, and they are only tried one by one."""

KILLS = 10
"""So many that were ended from outside count as one: that may stop, a broken Python won't."""

RETRY_SECONDS = 0.1
"""From a fork that failed to the next one: what a process limit refuses now, it may allow then."""

PAUSES = 2.0, 32.0
"""Seconds from a broken pool's last death to the next try: at first, and at most, for each that
fails doubles them. A person who submits has it tried at once."""

_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)


class WorkerPool:
    """See the module. ``target`` workers shall be able to run a task at any time.

    One that waits for the result of another task lends its slot, so there can be more processes.
    """

    def __init__(self, target: int, scheduler: Scheduler) -> None:
        self.target = target
        self.most = max(MOST, 2 * target)  # workers at any time
        self.startup_failures = 0  # those deaths, from outside each as one, any other as KILLS
        self.last_words = ""  # how the last worker went that failed at its start
        self.resting = False  # nobody uses the session: none shall, until a task is queued
        self.retry_at: float | None = None  # when the next may be forked; None: now
        self._pause = PAUSES[0]
        self._scheduler = scheduler
        self._numbers = 0

    @property
    def broken(self) -> bool:
        """Workers die before they say a word."""
        return self.startup_failures >= MOST_STARTUP_FAILURES * KILLS

    def try_again(self) -> None:
        """Somebody submits: what broke the workers may be over. One more failure, and it isn't."""
        if self.broken:
            self.startup_failures = (MOST_STARTUP_FAILURES - 1) * KILLS
            self.retry_at, self._pause = None, PAUSES[0]

    def arrived(self) -> None:
        """One has said its Hello: it can be done."""
        if self.startup_failures:
            if self.broken:
                self.retry_at = None
            self.startup_failures, self._pause = 0, PAUSES[0]

    def _failed(self, count: int, now: float) -> None:
        """One died before its Hello, or wasn't born."""
        self.startup_failures += count
        if self.broken and not self.waits(now):
            self.retry_at = now + self._pause
            self._pause = min(2 * self._pause, PAUSES[1])

    def waits(self, now: float) -> bool:
        """Whether a fork has just failed."""
        if self.retry_at is not None and now >= self.retry_at:
            self.retry_at = None
        return self.retry_at is not None

    @property
    def _may_grow(self) -> bool:
        workers = self._scheduler.workers
        if self.retry_at is not None or len(workers) >= self.most:
            return False
        return not self.broken or all(worker.client is not None for worker in workers.values())

    @property
    def steady(self) -> bool:
        """As many have a slot as shall have one: nothing to decide."""
        return self._scheduler.working == self.target

    @property
    def hopeless(self) -> bool:
        """No worker can be started, and none is left that works."""
        return self.broken and not self._scheduler.working

    @property
    def is_stuck(self) -> bool:
        """Whether all workers there may be wait for what none is left to make."""
        scheduler = self._scheduler
        if scheduler.working or len(scheduler.workers) < self.most:
            return False
        return all(worker.waits for worker in scheduler.pool.values())

    def wanted(self, now: float) -> Iterator[int]:
        """Numbers of the workers to fork now."""
        scheduler = self._scheduler
        if self.resting and scheduler.queue.size:
            self.resting = False
        if self.waits(now):
            return
        if scheduler.queue.size and scheduler.has_room:
            yield from self._wanted_for_light()
        if self.steady or self.resting:
            return
        while scheduler.working < self.target and self._may_grow:
            if scheduler.pooled >= self.target and not scheduler.queue:
                return  # slots are lent, but there is nothing to run in them
            if scheduler.pooled >= self.target + LENT and not self._must_grow:
                return
            yield self.spawn()

    @property
    def _must_grow(self) -> bool:
        """Whether what has begun could else not go on."""
        return self._scheduler.queue.has_urgent or self._scheduler.used == self._scheduler.held

    def _wanted_for_light(self) -> Iterator[int]:
        """Tasks that need little run several to a processor: each needs a worker all the same,
        and so does whoever needs the rest of it."""
        scheduler = self._scheduler
        free = scheduler.pooled - len(scheduler.pool) + len(scheduler.idle)
        for _ in range(scheduler.startable(LIGHT) - free):
            if scheduler.working < self.target + LIGHT and self._may_grow:
                yield self.spawn()

    def spawn(self, actor: Actor | None = None) -> int:
        """The number of one more worker to fork, which will be this actor's."""
        self._numbers += 1
        self._scheduler.new_worker(self._numbers, actor)
        return self._numbers

    def rest(self) -> Iterator[Worker]:
        """Nobody uses the session: workers to release, all that have nothing to do.

        What tasks left running in threads isn't ended.
        """
        self.resting = True
        for worker in list(self._scheduler.idle.values()):
            if not worker.lingering:
                self._scheduler.leave(worker)
                yield worker

    def surplus(self, now: float) -> Iterator[Worker]:
        """Workers to release: slots came back, and nobody used the extra one for a while."""
        if self.steady:
            return
        idle = self._scheduler.idle
        while idle and self._scheduler.working > self.target:
            worker = next(iter(idle.values()))
            if now < worker.since + SPARE_SECONDS:
                return  # nor are those behind it
            self._scheduler.leave(worker)
            yield worker

    def deadline(self) -> float | None:
        """When :meth:`wanted` or :meth:`surplus` may next have something."""
        if self.retry_at is not None:
            return self.retry_at
        if self.steady or self._scheduler.working <= self.target:
            return None
        longest = next(iter(self._scheduler.idle.values()), None)
        return longest.since + SPARE_SECONDS if longest is not None else None

    def forked(self, number: int, pid: int) -> None:
        worker = self._scheduler.workers.get(number)
        if worker is not None:
            worker.pid = pid

    def exited(
        self, number: int, status: int, unforked: str, now: float
    ) -> tuple[Worker | None, str]:
        """The process is gone; returns its record and a clause that says how it went."""
        worker = self._scheduler.workers.get(number)
        if worker is None:
            return None, ""
        if unforked:
            crash = f"worker {number} couldn't be forked ({unforked})"
            if not self.waits(now):  # of those that were asked for at once, one counts
                self._failed(KILLS if status and status not in _FROM_OUTSIDE else 1, now)
                if not self.broken:
                    self.retry_at = now + RETRY_SECONDS
            self.last_words = crash
            return worker, crash
        crash = f"Worker {number} (pid {worker.pid}) {worker.kill_reason or _how_it_ended(status)}"
        if worker.client is None:
            self._failed(1 if status in _FROM_OUTSIDE else KILLS, now)
            self.last_words = crash
        return worker, crash


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    hint = ", perhaps by Linux because memory ran out," if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"
