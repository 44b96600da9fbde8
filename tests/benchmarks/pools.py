"""What is measured, and the clock: what a system must be able to do, and how long it takes.

The figures themselves are `measures`'.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil

WORKERS = int(os.environ.get("BENCH_WORKERS", 2))
"""How many each pool has; `rounds` says it where it isn't two."""

Sample = dict[str, float]


class NotOffered(Exception):  # noqa: N818 - nothing is wrong
    """The system has nothing like it: its cell in the table stays empty."""


class Store:
    """What a system that keeps values must be able to do to be measured."""

    def put(self, value: Any) -> Any:
        """Store a value; a reference that `get` and `call` take. It dies with its last copy."""
        raise NotOffered

    def get(self, ref: Any) -> Any:
        """The value."""
        raise NotOffered


class Pool(Store):
    """What a system that runs tasks must be able to do as well; one small subclass each.

    ``at_once`` is how many tasks make a burst: fewer for who would take a minute.
    """

    at_once = 10_000

    def start(self) -> None:
        """Start `WORKERS` workers, or have them started."""

    def stop(self) -> None:
        """End them."""

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run one task; its result."""
        return self.get(self.submit(function, *args))

    def burst(self, function: Callable[[], Any], count: int) -> None:
        """Submit ``count`` tasks, then wait for all results."""
        submit = self.submit
        self.gather([submit(function) for _ in range(count)])

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        """Submit one task; a reference to its result. References among ``args`` are resolved."""
        raise NotOffered

    def gather(self, refs: Sequence[Any]) -> list[Any]:
        """All their values."""
        raise NotOffered

    def wait(self, refs: list[Any]) -> tuple[list[Any], list[Any]]:
        """Wait until one of them is ready; it, and the others."""
        raise NotOffered

    def actor(self, cls: type) -> Any:
        """Make an actor, and have it made; a handle."""
        raise NotOffered

    def tell(self, actor: Any) -> Any:
        """Call its method ``empty``; a reference to the result."""
        raise NotOffered

    def told(self, results: Sequence[Any]) -> list[Any]:
        """The values of such references."""
        return self.gather(results)

    def tell_from_tasks(self, actors: Sequence[Any], count: int) -> None:
        """Have each actor called ``count`` times, by a task of its own; wait for all."""
        raise NotOffered


@dataclass(frozen=True)
class Effort:
    """How long to sample one figure, and by what to divide the bursts."""

    seconds: float = 1.0
    divisor: int = 1


def times(
    effort: Effort,
    least: int = 3,
    block: int = 1,
    before: Callable[[], Any] = int,
    **actions: Callable[[], Any],
) -> Sample:
    """Median seconds of each action. They take turns, so that all see the same machine.

    A turn is ``block`` calls. What is done ``before`` each, and freeing what an action returns,
    isn't timed.
    """
    samples: dict[str, list[float]] = {name: [] for name in actions}
    end, count = time.perf_counter() + effort.seconds, 0
    while count < least or (time.perf_counter() < end and count < 5000):
        for name, action in actions.items():
            for _ in range(block):
                before()
                started = time.perf_counter()
                result = action()
                samples[name].append(time.perf_counter() - started)
                del result
        count += block
    return {name: statistics.median(seconds) for name, seconds in samples.items()}


def rates(amount: float, sample: Sample) -> Sample:
    """What is done in a second, of so much that takes these seconds."""
    return {name: amount / seconds for name, seconds in sample.items()}


def memory_of_children() -> float:
    """Proportional set size of all processes below this one, which itself is left out."""
    children = psutil.Process().children(recursive=True)
    return float(sum(child.memory_full_info().pss for child in children))


def processor() -> dict[int, float]:
    """Seconds of a processor that this process, and each below it, has used."""
    this = psutil.Process()
    found = {}
    for pid in (this.pid, *(child.pid for child in this.children(recursive=True))):
        with suppress(OSError):  # it has ended
            found[pid] = time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3)
    return found


def processor_since(before: dict[int, float]) -> float:
    """Seconds of a processor that they have used since `processor` said so."""
    own = time.process_time()  # looking for the others takes some, too
    now = processor() | {os.getpid(): own}
    return sum(used - before.get(pid, 0.0) for pid, used in now.items())
