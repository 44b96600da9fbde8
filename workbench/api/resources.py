"""What a session can share out, and what of that is free: Ray's names for it."""

from __future__ import annotations

from workbench.api.lifecycle import engine
from workbench.engine.queries import Capacity, Summary

CPU, STORE = "CPU", "object_store_memory"


def cluster_resources() -> dict[str, float]:
    """What the session has: one machine's part.

    Returns
    -------
    dict
        ``CPU``: tasks of one processor that can run at a time, which is how many workers the pool
        has. ``object_store_memory``: bytes that the store may hold.
    """
    session = engine()
    return {CPU: float(session.workers), STORE: float(session.ask(Capacity()))}


def available_resources() -> dict[str, float]:
    """What of `cluster_resources` is free at this moment.

    Returns
    -------
    dict
        As that of `cluster_resources`, without what is used up, as in Ray.
    """
    session = engine()
    now = session.ask(Summary())
    used = sum(worker.cpus for worker in now.workers)
    left = (now.capacity or 0) - (now.live or 0)
    free = {CPU: session.workers - used, STORE: float(left)}
    return {name: amount for name, amount in free.items() if amount > 0}
