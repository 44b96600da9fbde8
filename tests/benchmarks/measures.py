"""How each figure is taken from a pool of workers: written once, used on every one of them.

All figures are in seconds, bytes, or these per second; each is the median of one process's
samples. Asserts nothing.

Calls of actors are measured as Ray's own microbenchmark does, and called by its names: *sync* is
one call, got before the next; *async* is a thousand submitted, then all got.
"""

from __future__ import annotations

import gc
import statistics
import threading
import time
import traceback
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import limits
import numpy as np
import tasks
import values
from pools import (
    WORKERS,
    Effort,
    NotOffered,
    Pool,
    Sample,
    Store,
    memory_of_children,
    processor_time,
    times,
)

GAP = 0.1
"""Seconds between tasks where a person would run them."""

CALLS = 1000
REFS = 1000
INSIDE = 10_000

SETTLED = 3.0
"""Seconds after which a pool that isn't used has nothing more to put in order."""


def measure_pool(pool: Pool, rows: Collection[str], effort: Effort) -> Sample:
    """Start the pool and take the figures of these rows."""
    began = time.perf_counter()
    pool.start()
    try:
        pool.call(tasks.empty)
        sample = {"start": time.perf_counter() - began}
        pool.burst(tasks.empty, 200)  # now both workers are up
        for row, measure in _MEASURES.items():
            if row in rows:
                sample |= _taken(lambda measure=measure: measure(pool, effort))
        return sample | measure_store(pool, rows, effort)
    finally:
        pool.stop()


def measure_store(store: Store, rows: Collection[str], effort: Effort) -> Sample:
    """Take the figures of those rows that need no pool: serialize and deserialize."""
    sample: Sample = {}
    for row in values.VALUES:
        if row in rows:
            sample |= _taken(lambda row=row: _round_trip(store, row, effort))
    return sample


def _taken(measure: Callable[[], Sample]) -> Sample:
    """What it measures. If it fails, for too little memory say, its cell stays empty."""
    try:
        return measure()
    except Exception as error:
        if not isinstance(error, NotOffered):
            traceback.print_exc()
        return {}


def _round_trip(store: Store, key: str, effort: Effort) -> Sample:
    """Serialize one of `values` and deserialize it. What comes back the first time is checked.

    Then as long as is measured is spent on warmth: Ray's memory needs some turns, the others'
    one. The garbage collector is on for everybody, and begins each turn with nothing to do.
    """
    value = values.VALUES[key](effort.divisor)
    if not values.same(value, store.get(store.put(value))):
        raise RuntimeError(f"{key} came back as something else")

    def there_and_back() -> tuple[Any, Any]:
        ref = store.put(value)
        return ref, store.get(ref)

    times(effort, there_and_back, before=gc.collect)
    (seconds,) = times(effort, there_and_back, least=5, before=gc.collect)
    return {key: seconds}


def _memory(pool: Pool, effort: Effort) -> Sample:
    return {"memory": memory_of_children()}


def _empty(pool: Pool, effort: Effort) -> Sample:
    (seconds,) = times(effort, lambda: pool.call(tasks.empty), least=20)
    return {"empty": seconds}


def _paced(pool: Pool, effort: Effort) -> Sample:
    """An empty task now and then, as a person runs them; what the processes use in between."""
    (seconds,) = times(effort, lambda: pool.call(tasks.empty), least=20, before=lambda: _rest(GAP))
    _rest(SETTLED)
    began, used = time.perf_counter(), processor_time()
    _rest(max(effort.seconds, 1.0))
    return {"paced": seconds, "idle": (processor_time() - used) / (time.perf_counter() - began)}


def _rest(seconds: float) -> None:
    threading.Event().wait(seconds)


def _burst(pool: Pool, effort: Effort) -> Sample:
    count = pool.at_once // effort.divisor
    (seconds,) = times(effort, lambda: pool.burst(tasks.empty, count), least=1)
    return {"burst": count / seconds}


def _dict(pool: Pool, effort: Effort) -> Sample:
    value = {"a": 1, "b": [1, 2, 3], "c": "hello"}
    (seconds,) = times(effort, lambda: pool.get(pool.put(value)))
    return {"dict": 1 / seconds}


def _put_cold(pool: Pool, effort: Effort) -> Sample:
    """Comes before anything else that puts: the memory is fresh, and none is freed meanwhile."""
    array = tasks.array()
    held = []
    pool.put(array[:1])
    limits.settle_memory(12 * array.nbytes)
    with limits.write_to_cold_pages(array) as write:
        put, written = times(Effort(0), lambda: held.append(pool.put(array)), write, least=5)
    return {"put_cold": array.nbytes / put, "pwrite": array.nbytes / written}


def _put_warm(pool: Pool, effort: Effort) -> Sample:
    array = tasks.array()
    held = [pool.put(array) for _ in range(2)]
    del held
    with limits.memcpy_by_all_cores(array) as copy:
        put, copied = times(effort, lambda: pool.put(array), copy, least=7)
    return {"put_warm": array.nbytes / put, "memcpy_all": array.nbytes / copied}


def _get(pool: Pool, effort: Effort) -> Sample:
    small = pool.put(tasks.array(tasks.MB))
    if not np.shares_memory(pool.get(small), pool.get(small)):
        raise NotOffered  # it copies
    large = pool.put(np.zeros(1000 * tasks.MB // 8))
    of_small, of_large = times(effort, lambda: pool.get(small), lambda: pool.get(large))
    return {"get_1MB": of_small, "get_1GB": of_large}


def _by_ref(pool: Pool, effort: Effort) -> Sample:
    ref = pool.put(tasks.array())
    without, with_ref = times(
        effort, lambda: pool.call(tasks.empty), lambda: pool.call(tasks.take, ref), block=20
    )
    return {"by_ref": with_ref - without}


def _returns(pool: Pool, effort: Effort) -> Sample:
    for _ in range(3):  # warm, as far as the pool can be
        pool.call(tasks.make)
    inside: list[float] = []
    returned, _ = times(
        effort, lambda: pool.call(tasks.make), lambda: inside.append(pool.call(tasks.make_and_copy))
    )
    return {"returns": returned, "make_and_copy": statistics.median(inside)}


def _calls(pool: Pool, *actors: Any) -> None:
    """They get their calls in turn."""
    pool.told([pool.tell(actor) for _ in range(CALLS) for actor in actors])


def _actor(pool: Pool, effort: Effort, *, cls: type, name: str) -> Sample:
    actor = pool.actor(cls)
    burst = partial(_calls, pool, actor)
    burst()
    (sync,) = times(effort, lambda: pool.told([pool.tell(actor)]), least=20)
    (seconds,) = times(effort, burst)
    return {f"{name}_sync": sync, f"{name}_async": CALLS / seconds}


def _cores(pool: Pool, effort: Effort) -> Sample:
    """One caller and one actor, one caller and n, n callers with an actor each: n is the cores."""
    actors = [pool.actor(tasks.Actor) for _ in range(WORKERS)]
    sample: Sample = {}
    actions: dict[str, Callable[[], Any]] = {
        "calls_1_1": partial(_calls, pool, actors[0]),
        "calls_1_n": partial(_calls, pool, *actors),
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


_MEASURES: dict[str, Callable[[Pool, Effort], Sample]] = {
    "memory": _memory,
    "put_cold": _put_cold,
    "put_warm": _put_warm,
    "get": _get,
    "dict": _dict,
    "empty": _empty,
    "paced": _paced,
    "burst": _burst,
    "by_ref": _by_ref,
    "returns": _returns,
    "actor": partial(_actor, cls=tasks.Actor, name="actor"),
    "async_actor": partial(_actor, cls=tasks.AsyncActor, name="async_actor"),
    "cores": _cores,
    "tree": _tree,
    "wait": _wait,
    "contains": _contains,
}
