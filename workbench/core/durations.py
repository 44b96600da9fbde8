"""How long the tasks of a function take, as far as is known. The clock is whoever tells."""

from __future__ import annotations

from workbench.core.message_types import TaskSpec
from workbench.core.tasks import ONE, Task

BATCH_SECONDS = 0.002
"""A worker is sent up to this much expected work ahead: some ten round trips' worth."""

RECENT = 0.2
"""Weight of the newest run in a function's expected seconds."""

OUTLIER = 10
"""A run that takes more than so many times what was expected doesn't count, if none of the `APART`
before it did: on a busy machine each function has one now and then that waited for a processor, and
is still short. One that has become long is known for it after two."""

APART = 10

LEAST = BATCH_SECONDS / 40
"""Seconds of which that is reckoned, however short a function is."""


class Durations:
    """By function, of those that ran."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._since: dict[int, int] = {}  # runs since the last that took so long

    def ran(self, function: int, seconds: float) -> None:
        """One run took so long. A single one that is far too long among short ones doesn't
        count."""
        known = self._seconds.get(function, seconds)
        since = self._since.get(function, 0)
        if seconds > OUTLIER * LEAST and seconds > OUTLIER * known:
            self._since[function] = 0
            if since >= APART:
                return
        else:
            self._since[function] = since + 1
        self._seconds[function] = known + RECENT * (seconds - known)

    def forget(self, function: int) -> None:
        self._seconds.pop(function, None)
        self._since.pop(function, None)

    def is_short(self, function: int) -> bool:
        """Whether a run is expected to be over within `BATCH_SECONDS`; not before one was
        measured."""
        return self._seconds.get(function, 2 * BATCH_SECONDS) <= BATCH_SECONDS

    def expected(self, task: Task) -> float:
        """How long it will run. What isn't usual, or unknown, counts as long: nobody waits there.

        A task with a time limit must begin when it is sent, and so must a background cell, which a
        person watches, and one that counts as running for its executor; one that needs more or
        less than a processor, or after which its worker may end, has a worker to itself.
        """
        spec = task.submit.spec
        if task.cpus != ONE or (spec is not None and _needs_a_worker(spec)):
            return 2 * BATCH_SECONDS
        return self._seconds.get(task.submit.function, 2 * BATCH_SECONDS)


def _needs_a_worker(spec: TaskSpec) -> bool:
    limited = spec.timeout or spec.max_workers or spec.max_calls
    return bool(limited or spec.ahead or spec.job)
