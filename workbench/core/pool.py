"""Worker pool: decides which workers to fork and to release, and when to give up."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from workbench.core.scheduler import Scheduler
from workbench.core.tasks import Actor, Worker
from workbench.format import human_ending

SPARE_SECONDS = 2.0
"""Seconds without work after which a worker is released that was added for blocked ones."""

MOST = 1024
"""Hard cap of workers: max(this, 2 × target). Tasks that wait for tasks any deeper fail, which ends
fork bombs."""

LENT = 64
"""Most workers beyond the target for tasks that no running task waits for: with more, too many
tasks would begin, and all want their slots back at once. No limit while no task runs."""

LIGHT = 32
"""Most workers beyond the target for tasks that need less than a processor each."""

MOST_STARTUP_FAILURES = 3
"""Workers that die before their Hello, in a row, until the pool is broken: then tasks fail, and
workers are only tried one by one."""

KILLS = 10
"""Kills from outside that count as one failure: they may stop, a broken Python won't."""

RETRY_SECONDS = 0.1
"""Seconds from a failed fork to the next: a process limit may allow it then."""

PAUSES = 2.0, 32.0
"""Seconds from a broken pool's last failure to the next try: the first and the longest; each
failure doubles them. A submission resets them."""

_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)


class WorkerPool:
    """See the module. ``target``: workers that can run a task at any time.

    A worker whose task waits for another lends its slot, so there can be more processes.
    """

    def __init__(self, target: int, scheduler: Scheduler) -> None:
        self.target = target
        self.most = max(MOST, 2 * target)  # hard cap of workers
        self.startup_failures = 0  # in a row: a kill from outside counts 1, others KILLS
        self.last_words = ""  # how the last failed worker ended
        self.memory_is_short = False  # no forks of workers that have nothing to do
        self.resting = False  # nobody uses the session: no forks until a task is queued
        self.retry_at: float | None = None  # when to fork next; None: now
        self._pause = PAUSES[0]
        self._scheduler = scheduler
        self._numbers = 0

    @property
    def broken(self) -> bool:
        """True if too many workers in a row have died before their Hello."""
        return self.startup_failures >= MOST_STARTUP_FAILURES * KILLS

    def try_again(self) -> None:
        """Let a broken pool fork again for a submission; one more failure breaks it again."""
        if self.broken:
            self.startup_failures = (MOST_STARTUP_FAILURES - 1) * KILLS
            self.retry_at, self._pause = None, PAUSES[0]

    def on_worker_hello(self) -> None:
        if self.startup_failures:
            if self.broken:
                self.retry_at = None
            self.startup_failures, self._pause = 0, PAUSES[0]

    def _failed(self, count: int, now: float) -> None:
        """Count workers that died before their Hello, or couldn't be forked."""
        self.startup_failures += count
        if self.broken and not self.waits(now):
            self.retry_at = now + self._pause
            self._pause = min(2 * self._pause, PAUSES[1])

    def waits(self, now: float) -> bool:
        """True if forks have to wait because one has failed."""
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
        """True if as many workers have a slot as should: there is nothing to decide."""
        return self._scheduler.working == self.target

    @property
    def hopeless(self) -> bool:
        """True if no worker can be started, and none with a slot is left."""
        return self.broken and not self._scheduler.working

    @property
    def is_stuck(self) -> bool:
        """True if the cap is reached and all workers wait: none can run what they wait for."""
        scheduler = self._scheduler
        if scheduler.working or len(scheduler.workers) < self.most:
            return False
        return all(worker.waits for worker in scheduler.pool.values())

    def wanted(self, now: float) -> Iterator[int]:
        """Yield the numbers of workers to fork now."""
        scheduler = self._scheduler
        if self.resting and scheduler.queue.size:
            self.resting = False
        if self.waits(now):
            return
        if scheduler.queue.size and scheduler.has_room:
            yield from self._wanted_for_light()
        if self.steady or self.resting or (self.memory_is_short and not scheduler.queue.size):
            return
        while scheduler.working < self.target and self._may_grow:
            if scheduler.pooled >= self.target and not scheduler.queue:
                return  # slots are free, but there is nothing to run in them
            if scheduler.pooled >= self.target + LENT and not self._must_grow:
                return
            yield self.spawn()

    @property
    def _must_grow(self) -> bool:
        """True if running tasks could not go on without another worker."""
        scheduler = self._scheduler
        return scheduler.queue.has_urgent or scheduler.used == scheduler.actor_cpus

    def _wanted_for_light(self) -> Iterator[int]:
        """Yield workers to fork for tasks that need less than a processor: several share one, but
        each needs its own worker."""
        scheduler = self._scheduler
        free = scheduler.pooled - len(scheduler.pool) + len(scheduler.idle)
        for _ in range(scheduler.startable(LIGHT) - free):
            if scheduler.working < self.target + LIGHT and self._may_grow:
                yield self.spawn()

    def spawn(self, actor: Actor | None = None) -> int:
        """Add a worker, for this actor or the pool; return its number, to fork."""
        self._numbers += 1
        self._scheduler.new_worker(self._numbers, actor)
        return self._numbers

    def rest(self) -> Iterator[Worker]:
        """Yield all idle workers, to release, because nobody uses the session.

        Workers with threads that tasks left running are kept.
        """
        self.resting = True
        for worker in list(self._scheduler.idle.values()):
            if not worker.lingering:
                self._scheduler.send_no_more(worker)
                yield worker

    def surplus(self, now: float) -> Iterator[Worker]:
        """Yield workers to release: extra ones that have been idle for `SPARE_SECONDS`."""
        if self.steady:
            return
        idle = self._scheduler.idle
        while idle and self._scheduler.working > self.target:
            worker = next(iter(idle.values()))
            if now < worker.since + SPARE_SECONDS:
                return  # the others are idle for less long
            self._scheduler.send_no_more(worker)
            yield worker

    def deadline(self) -> float | None:
        """Return when :meth:`wanted` or :meth:`surplus` may next have something; None: never."""
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
        self, number: int, status: int, unforked: str, stderr: str, now: float
    ) -> tuple[Worker | None, str]:
        """Take in that a process is gone; return its record and a clause on how it ended.

        ``stderr`` is what it wrote last, as words that follow a sentence.
        """
        worker = self._scheduler.workers.get(number)
        if worker is None:
            return None, ""
        if unforked:
            crash = f"worker {number} couldn't be forked: {unforked}"
            if not self.waits(now):  # of several forks at once, one failure counts
                self._failed(KILLS if status and status not in _FROM_OUTSIDE else 1, now)
                if not self.broken:
                    self.retry_at = now + RETRY_SECONDS
            self.last_words = f"{crash}."
            return worker, crash
        hint = ", perhaps by Linux because memory ran out," if status == -signal.SIGKILL else ""
        how = worker.kill_reason or human_ending(status) + hint
        crash = f"Worker {number} (pid {worker.pid}) {how}"
        if worker.client is None:
            self._failed(1 if status in _FROM_OUTSIDE else KILLS, now)
            self.last_words = f"{crash} before it was ready.{stderr}"
        return worker, crash
