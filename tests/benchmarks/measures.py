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
import pools
import tasks
import values
from pools import WORKERS, Effort, NotOffered, Pool, Sample, Store, rates, times

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
                sample |= _taken(measure, pool, effort)
        return sample | measure_store(pool, rows, effort)
    finally:
        pool.stop()


def measure_store(store: Store, rows: Collection[str], effort: Effort) -> Sample:
    """Take the figures of those rows that need no pool: serialize and deserialize."""
    sample: Sample = {}
    for row in values.VALUES:
        if row in rows:
            sample |= _taken(_round_trip, store, effort, row)
    return sample


def _taken(measure: Callable[..., Sample], *arguments: Any) -> Sample:
    """What it measures. If it fails, for too little memory say, its cell stays empty."""
    try:
        return measure(*arguments)
    except Exception as error:
        if not isinstance(error, NotOffered):
            traceback.print_exc()
        return {}


def _round_trip(store: Store, effort: Effort, key: str) -> Sample:
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

    for _ in range(2):
        sample = times(effort, 5, before=gc.collect, **{key: there_and_back})
    return sample


def _memory(pool: Pool, effort: Effort) -> Sample:
    return {"memory": pools.memory_of_children()}


def _empty(pool: Pool, effort: Effort) -> Sample:
    return times(effort, 20, empty=lambda: pool.call(tasks.empty))


def _paced(pool: Pool, effort: Effort) -> Sample:
    """An empty task now and then, as a person runs them; what the processes use in between."""
    rest = threading.Event().wait
    sample = times(effort, 20, before=lambda: rest(GAP), paced=lambda: pool.call(tasks.empty))
    rest(SETTLED)
    began, used = time.perf_counter(), pools.processor()
    rest(max(effort.seconds, 1.0))
    return sample | {"idle": pools.processor_since(used) / (time.perf_counter() - began)}


def _burst(pool: Pool, effort: Effort) -> Sample:
    count = pool.at_once // effort.divisor
    return rates(count, times(effort, 1, burst=lambda: pool.burst(tasks.empty, count)))


def _dict(pool: Pool, effort: Effort) -> Sample:
    value = {"a": 1, "b": [1, 2, 3], "c": "hello"}
    return rates(1, times(effort, dict=lambda: pool.get(pool.put(value))))


def _put_cold(pool: Pool, effort: Effort) -> Sample:
    """Comes before anything else that puts: the memory is fresh, and none is freed meanwhile."""
    array, held = tasks.array(), []
    pool.put(array[:1])
    limits.settle_memory(12 * array.nbytes)
    with limits.write_to_cold_pages(array) as write:
        sample = times(Effort(0), 5, put_cold=lambda: held.append(pool.put(array)), pwrite=write)
    return rates(array.nbytes, sample)


def _put_warm(pool: Pool, effort: Effort) -> Sample:
    array = tasks.array()
    held = [pool.put(array) for _ in range(2)]
    del held
    with limits.memcpy_by_all_cores(array) as copy:
        sample = times(effort, 7, put_warm=lambda: pool.put(array), memcpy_all=copy)
    return rates(array.nbytes, sample)


def _get(pool: Pool, effort: Effort) -> Sample:
    small = pool.put(tasks.array(tasks.MB))
    if not np.shares_memory(pool.get(small), pool.get(small)):
        raise NotOffered  # it copies
    large = pool.put(np.zeros(1000 * tasks.MB // 8))
    return times(effort, get_1MB=lambda: pool.get(small), get_1GB=lambda: pool.get(large))


def _by_ref(pool: Pool, effort: Effort) -> Sample:
    ref = pool.put(tasks.array())
    bare, taken = lambda: pool.call(tasks.empty), lambda: pool.call(tasks.take, ref)
    sample = times(effort, block=20, bare=bare, taken=taken)
    return {"by_ref": sample["taken"] - sample["bare"]}


def _returns(pool: Pool, effort: Effort) -> Sample:
    for _ in range(3):  # warm, as far as the pool can be
        pool.call(tasks.make)
    inside: list[float] = []
    sample = times(
        effort,
        returns=lambda: pool.call(tasks.make),
        make_and_copy=lambda: inside.append(pool.call(tasks.make_and_copy)),
    )
    return sample | {"make_and_copy": statistics.median(inside)}


def _calls(pool: Pool, *actors: Any) -> None:
    """They get their calls in turn."""
    pool.told([pool.tell(actor) for _ in range(CALLS) for actor in actors])


def _actor(pool: Pool, effort: Effort, cls: type = tasks.Actor, name: str = "actor") -> Sample:
    actor = pool.actor(cls)
    burst = partial(_calls, pool, actor)
    burst()
    one_call = {f"{name}_sync": lambda: pool.told([pool.tell(actor)])}
    sample = times(effort, 20, **one_call)
    return sample | rates(CALLS, times(effort, **{f"{name}_async": burst}))


def _async_actor(pool: Pool, effort: Effort) -> Sample:
    return _actor(pool, effort, tasks.AsyncActor, "async_actor")


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
        count = (1 if figure == "calls_1_1" else WORKERS) * CALLS
        sample |= rates(count, times(effort, **{figure: action}))
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

    return rates(2 * count - 1, times(effort, 1, tree=reduce))


def _wait(pool: Pool, effort: Effort) -> Sample:
    """A thousand tasks submitted, their refs waited for one by one."""

    def one_by_one() -> None:
        refs = [pool.submit(tasks.empty) for _ in range(REFS)]
        while refs:
            _, refs = pool.wait(refs)

    return times(effort, 1, wait_each=one_by_one)


def _contains(pool: Pool, effort: Effort) -> Sample:
    refs = [pool.put(n) for n in range(INSIDE)]

    def there_and_back() -> list[Any]:
        inside: list[Any] = pool.get(pool.put(refs))
        return inside

    if pool.gather(there_and_back()[-1:]) != [INSIDE - 1]:
        raise NotOffered
    return times(effort, contains=there_and_back)


_PUTS = _memory, _put_cold, _put_warm, _get, _dict
_TASKS = _empty, _paced, _burst, _by_ref, _returns
_CALLS = _actor, _async_actor, _cores, _tree, _wait, _contains
_MEASURES: dict[str, Callable[[Pool, Effort], Sample]] = {
    each.__name__[1:]: each for each in (*_PUTS, *_TASKS, *_CALLS)
}
"""By row; taken in this order."""
