"""What Dask's scheduler tells of its cluster: looked at there, and read as a snapshot has it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Mapping
from typing import Any

from workbench.core.snapshot import WorkerRecord
from workbench.engines.cluster.backend import ClusterParts
from workbench.engines.dask.topics import id_of

ANSWER = 1.0
"""Seconds that workers have to say what runs there."""


async def seen(scheduler: Any, nodes: Mapping[str, tuple[int, int, str, str]]) -> dict[str, Any]:
    """On the scheduler: its workers, and how many tasks of ours run and wait.

    ``nodes`` are the workers' first number, pid, node and machine, by address.
    """
    workers = [
        {
            "address": ws.address,
            "name": str(ws.name),
            "number": nodes.get(ws.address, (0, ws.pid, ""))[0],
            "pid": ws.pid,
            "host": ws.host,
            "node": nodes.get(ws.address, (0, 0, ws.host))[2],
            "machine": nodes.get(ws.address, (0, 0, "", ws.host))[3],
            "threads": ws.nthreads,
            "limit": ws.memory_limit or 0,
            "memory": ws.metrics.get("memory", 0),
            "tasks": [task.prefix.name for task in list(ws.processing)[:10]],
        }
        for ws in scheduler.workers.values()
    ]
    processing = (ws.processing for ws in scheduler.workers.values())
    all_tasks = itertools.chain(*processing, scheduler.queued, scheduler.unrunnable)
    ours = sum(id_of(task.key) is not None for task in all_tasks)
    running = await _running(scheduler, [a for a in nodes if a in scheduler.workers])
    queued = None if running is None else max(ours - running, 0)
    return {"workers": workers, "running": running, "queued": queued}


async def _running(scheduler: Any, addresses: list[str]) -> int | None:
    """Tasks of ours at work, as the workers tell; None if one doesn't answer soon."""
    asked = scheduler.broadcast(
        msg={"op": "workbench_running"}, workers=addresses, on_error="return"
    )
    with contextlib.suppress(TimeoutError, asyncio.TimeoutError, OSError):
        answers = (await asyncio.wait_for(asked, ANSWER)).values()
        return sum(answer for answer in answers if type(answer) is int)
    return None


def parts_of(seen: Mapping[str, Any]) -> ClusterParts:
    """Of an answer of `scheduler.WorkbenchScheduler.parts`."""
    workers = tuple(
        WorkerRecord(each["number"], each["pid"], "busy" if each["tasks"] else "idle",
                     tuple(each["tasks"]), memory=each["memory"], host=each["machine"])
        for each in seen["workers"]
    )  # fmt: skip
    limits = [each["limit"] for each in seen["workers"]]
    limited = bool(limits) and all(limits)
    left = [max(each["limit"] - each["memory"], 0) for each in seen["workers"]]
    return ClusterParts(
        workers,
        (),
        sum(limits) if limited else None,
        sum(left) if limited else None,
        seen["queued"],
        seen["running"],
        tuple(dict.fromkeys(each["host"] for each in seen["workers"])),
    )
