"""Figures of actors, and of many tasks and refs.

Calls of actors are measured as Ray's own microbenchmark does, and called by its names: *sync* is
one call, got before the next; *async* is a thousand submitted, then all got.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tasks
from pools import WORKERS, Effort, NotOffered, Pool, Sample, times

CALLS = 1000
REFS = 1000
INSIDE = 10_000


def _burst(pool: Pool, *actors: Any) -> None:
    """They get their calls in turn."""
    pool.told([pool.tell(actor) for _ in range(CALLS) for actor in actors])


def _actor(pool: Pool, effort: Effort, *, cls: type, name: str) -> Sample:
    actor = pool.actor(cls)
    burst = partial(_burst, pool, actor)
    burst()
    (sync,) = times(effort, lambda: pool.told([pool.tell(actor)]), least=20)
    (seconds,) = times(effort, burst)
    return {f"{name}_sync": sync, f"{name}_async": CALLS / seconds}


def _cores(pool: Pool, effort: Effort) -> Sample:
    """One caller and one actor, one caller and n, n callers with an actor each: n is the cores."""
    actors = [pool.actor(tasks.Actor) for _ in range(WORKERS)]
    sample: Sample = {}
    actions: dict[str, Callable[[], Any]] = {
        "calls_1_1": partial(_burst, pool, actors[0]),
        "calls_1_n": partial(_burst, pool, *actors),
        "calls_n_n": lambda: pool.tell_from_tasks(actors, CALLS),
    }
    for figure, action in actions.items():
        action()
        (seconds,) = times(effort, action)
        sample[figure] = (1 if figure == "calls_1_1" else WORKERS) * CALLS / seconds
    return sample


def _tree(pool: Pool, effort: Effort) -> Sample:
    """All of it is submitted before anything is asked for."""
    count = pool.at_once // effort.divisor

    def reduce() -> None:
        refs = [pool.submit(tasks.identity, n) for n in range(count)]
        while len(refs) > 1:
            odd = refs[len(refs) & ~1 :]
            pairs = zip(refs[::2], refs[1::2], strict=False)
            refs = [pool.submit(tasks.add, one, other) for one, other in pairs] + odd
        if pool.gather(refs) != [sum(range(count))]:
            raise RuntimeError("a leaf was lost")

    (seconds,) = times(effort, reduce, least=1)
    return {"tree": (2 * count - 1) / seconds}


def _wait(pool: Pool, effort: Effort) -> Sample:
    """A thousand tasks submitted, their refs waited for one by one."""

    def one_by_one() -> None:
        refs = [pool.submit(tasks.empty) for _ in range(REFS)]
        while refs:
            _, refs = pool.wait(refs)

    (seconds,) = times(effort, one_by_one, least=1)
    return {"wait_each": seconds}


def _contains(pool: Pool, effort: Effort) -> Sample:
    refs = [pool.put(n) for n in range(INSIDE)]

    def there_and_back() -> list[Any]:
        inside: list[Any] = pool.get(pool.put(refs))
        return inside

    if pool.gather(there_and_back()[-1:]) != [INSIDE - 1]:
        raise NotOffered
    (seconds,) = times(effort, there_and_back)
    return {"contains": seconds}


MEASURES: dict[str, Callable[[Pool, Effort], Sample]] = {
    "actor": partial(_actor, cls=tasks.Actor, name="actor"),
    "async_actor": partial(_actor, cls=tasks.AsyncActor, name="async_actor"),
    "cores": _cores,
    "tree": _tree,
    "wait": _wait,
    "contains": _contains,
}
