"""Figures of actors, and of many: tasks, refs, and what others have to bear while tasks queue.

Calls of actors are measured as Ray's own microbenchmark does, and called by its names: *sync* is
one call, got before the next; *async* is a thousand submitted, then all got.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import tasks
from pools import WORKERS, Effort, NotOffered, Pool, Sample, memory_of_children, times

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


def _actors(pool: Pool, effort: Effort) -> Sample:
    """One caller, an actor a worker."""
    burst = partial(_burst, pool, *[pool.actor(tasks.Actor) for _ in range(WORKERS)])
    burst()
    (seconds,) = times(effort, burst)
    return {"actors": WORKERS * CALLS / seconds}


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


def _fan_out(pool: Pool, effort: Effort) -> Sample:
    count = pool.at_once // effort.divisor

    def fan() -> None:
        if pool.gather([pool.submit(tasks.identity, n) for n in range(count)])[-1] != count - 1:
            raise RuntimeError("a result went astray")

    (seconds,) = times(effort, fan, least=1)
    return {"fan_out": count / seconds}


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
    """A thousand tasks submitted, their refs waited for: one by one, and with one call."""

    def one_by_one() -> None:
        refs = [pool.submit(tasks.empty) for _ in range(REFS)]
        while refs:
            _, refs = pool.wait(refs, 1)

    def with_one_call() -> None:
        pool.wait([pool.submit(tasks.empty) for _ in range(REFS)], REFS)

    sample: Sample = {}
    for figure, action in (("wait_all", with_one_call), ("wait_each", one_by_one)):
        with suppress(NotOffered):
            (sample[figure],) = times(effort, action, least=1)
    return sample


def _contains(pool: Pool, effort: Effort) -> Sample:
    refs = [pool.put(n) for n in range(INSIDE)]

    def there_and_back() -> list[Any]:
        inside: list[Any] = pool.get(pool.put(refs))
        return inside

    if pool.gather(there_and_back()[-1:]) != [INSIDE - 1]:
        raise NotOffered
    (seconds,) = times(effort, there_and_back)
    return {"contains": seconds}


def _waiting(pool: Pool, effort: Effort) -> Sample:
    """An empty task, alone and while others wait for one that isn't over. One worker is free."""
    with _gate() as gate:
        last = pool.submit(tasks.pass_gate, gate)
        (alone,) = times(effort, lambda: pool.call(tasks.empty), least=20)
        crowd = [pool.submit(tasks.take, last) for _ in range(pool.queued // effort.divisor)]
        pool.call(tasks.empty)
        (beside,) = times(effort, lambda: pool.call(tasks.empty), least=20)
    pool.gather(crowd)
    return {"task_alone": alone, "task_crowded": beside}


def queued(pool: Pool, effort: Effort) -> Sample:
    """What else one does, before and while tasks are queued; what these take. No worker is free.

    Comes before all that queues as much: memory that was used and freed would hide what they take.
    """
    sample: Sample = {}
    count = pool.queued // effort.divisor
    submitted = [pool.submit(tasks.empty)]
    pool.gather(submitted)
    actions: dict[str, Callable[[], Any]] = {
        "submit": lambda: submitted.append(pool.submit(tasks.empty))
    }
    with suppress(NotOffered):
        actor = pool.actor(tasks.Actor)
        pool.told([pool.tell(actor)])
        actions["call"] = lambda: pool.told([pool.tell(actor)])
    with _gate() as gate:
        last = [pool.submit(tasks.pass_gate, gate) for _ in range(WORKERS)][-1]
        with suppress(NotOffered):
            pool.ask(last)
            actions["ask"] = lambda: pool.ask(last)
        for figure, action in actions.items():
            (sample[f"{figure}_alone"],) = times(effort, action, least=20)
        before = _memory(pool)
        already = len(submitted)
        submitted.extend(pool.submit(tasks.empty) for _ in range(count))
        if "call" in actions:
            actions["call"]()
        after = _memory(pool)
        for figure in before:
            sample[figure] = (after[figure] - before[figure]) / count
        for figure, action in actions.items():
            (sample[f"{figure}_crowded"],) = times(effort, action, least=20)
        if len(submitted) < already + count:
            raise RuntimeError("some were not queued")
    pool.gather(submitted)
    return sample


@contextmanager
def _gate() -> Iterator[str]:
    """A path: tasks that pass that gate do so when the block ends."""
    with tempfile.TemporaryDirectory(prefix="gate-") as directory:
        path = Path(directory, "pipe")
        os.mkfifo(path)
        holder = os.open(path, os.O_RDWR)  # who opens it to read isn't kept from it
        try:
            yield str(path)
        finally:
            os.close(holder)


def _memory(pool: Pool) -> dict[str, float]:
    """Of all processes, and of the server's alone if there is one. Proportional set sizes."""
    memory = {"per_task": memory_of_children() + psutil.Process().memory_full_info().pss}
    with suppress(NotOffered):
        memory["per_task_server"] = float(psutil.Process(pool.server()).memory_full_info().pss)
    return memory


MEASURES: dict[str, Callable[[Pool, Effort], Sample]] = {
    "actor": partial(_actor, cls=tasks.Actor, name="actor"),
    "async_actor": partial(_actor, cls=tasks.AsyncActor, name="async_actor"),
    "actors": _actors,
    "cores": _cores,
    "fan_out": _fan_out,
    "tree": _tree,
    "wait": _wait,
    "contains": _contains,
    "waiting": _waiting,
}
