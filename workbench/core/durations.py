"""Expected run times of functions, from measured ones that callers pass in. No clock here."""

from __future__ import annotations

from workbench.core.tasks import ONE, Task

BATCH_SECONDS = 0.002
"""Expected seconds of work sent to a worker ahead, at most: some ten round trips."""

RECENT = 0.2
"""Weight of the newest run in a function's expected seconds."""

OUTLIER = 10
"""A run that takes more than this many times the expected time is ignored, unless one of the
`APART` runs before it did so too: on a busy machine a run of a short function sometimes waits for a
processor. A function that has become slow is noticed at its second slow run."""

APART = 10

LEAST = BATCH_SECONDS / 40
"""Lower bound, in seconds, of the expected time that `OUTLIER` multiplies."""


class Durations:
    """Expected seconds of functions that have run."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._since: dict[int, int] = {}  # runs since the last outlier

    def record_run(self, function: int, seconds: float) -> None:
        """Note how long a run took. A single outlier among short runs is ignored."""
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
        """True if a run is expected to take at most `BATCH_SECONDS`. False until one was
        measured."""
        return self._seconds.get(function, 2 * BATCH_SECONDS) <= BATCH_SECONDS

    def expected(self, task: Task) -> float:
        """Return the seconds a task will take. Unknown or unusual tasks count as long: none waits
        behind.

        These must begin when they are sent: a task with a time limit, a background cell, which a
        person watches, and a task that counts as running for its executor. A task that needs more
        or less than a processor, or after which its worker may end, has a worker to itself.
        """
        spec = task.submit.spec
        alone = spec is not None and (
            spec.timeout or spec.max_workers or spec.max_calls or spec.ahead or spec.job
        )
        if task.cpus != ONE or alone:
            return 2 * BATCH_SECONDS
        return self._seconds.get(task.submit.function, 2 * BATCH_SECONDS)
