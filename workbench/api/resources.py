"""A session's resources, in all and free, under Ray's names."""

from __future__ import annotations

from workbench.api.lifecycle import engine
from workbench.engine.queries import Capacity, Summary

CPU, STORE = "CPU", "object_store_memory"


def cluster_resources() -> dict[str, float]:
    """Return the session's resources: those of one machine.

    Returns
    -------
    dict
        ``CPU``: how many tasks of one processor can run at a time, the size of the pool.
        ``object_store_memory``: bytes that the store may hold.
    """
    session = engine()
    return {CPU: float(session.workers), STORE: float(session.ask(Capacity()))}


def available_resources() -> dict[str, float]:
    """Return the part of `cluster_resources` that is free at this moment.

    Returns
    -------
    dict
        As from `cluster_resources`. Without resources that are used up, as in Ray.
    """
    session = engine()
    now = session.ask(Summary())
    used = sum(worker.cpus for worker in now.workers)
    left = (now.capacity or 0) - (now.live or 0)
    free = {CPU: session.workers - used, STORE: float(left)}
    return {name: amount for name, amount in free.items() if amount > 0}
