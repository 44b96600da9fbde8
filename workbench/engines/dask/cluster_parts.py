"""What Dask's scheduler tells of its cluster: looked at there, and read as a snapshot has it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Mapping
from typing import Any

from workbench.core.snapshot import WorkerRecord
from workbench.engines.cluster.backend import ClusterParts
from workbench.engines.dask.slots import ChildSeen
from workbench.engines.dask.topics import id_of

ANSWER = 1.0
"""Seconds that workers have to say what runs there."""


async def seen(scheduler: Any, nodes: Mapping[str, tuple[int, int, str, str]]) -> dict[str, Any]:
    """On the scheduler: its workers, our processes there, and how many tasks of ours run and wait.

    ``nodes`` are the workers' first number, pid, node and machine, by address.
    """
    told = await _told(scheduler, [a for a in nodes if a in scheduler.workers])
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
            "processes": told.get(ws.address, (0, ()))[1],
        }
        for ws in scheduler.workers.values()
    ]
    processing = (ws.processing for ws in scheduler.workers.values())
    all_tasks = itertools.chain(*processing, scheduler.queued, scheduler.unrunnable)
    names = {id: task.prefix.name for task in all_tasks if (id := id_of(task.key)) is not None}
    all_tell = all(address in told for address in nodes if address in scheduler.workers)
    running = sum(count for count, _ in told.values()) if all_tell else None
    queued = None if running is None else max(len(names) - running, 0)
    return {
        "workers": workers, "running": running, "queued": queued,
        "names": [[id, name] for id, name in names.items()],
    }  # fmt: skip


async def _told(scheduler: Any, addresses: list[str]) -> dict[str, tuple[int, list[ChildSeen]]]:
    """What the workers tell of themselves, by address: of those that answer soon."""
    asked = scheduler.broadcast(msg={"op": "workbench_seen"}, workers=addresses, on_error="return")
    with contextlib.suppress(TimeoutError, asyncio.TimeoutError, OSError):
        answers = await asyncio.wait_for(asked, ANSWER)
        return {at: tuple(told) for at, told in answers.items() if isinstance(told, tuple | list)}
    return {}


def parts_of(seen: Mapping[str, Any]) -> ClusterParts:
    """Of an answer of `scheduler.WorkbenchScheduler.parts`: a worker is a process that runs tasks,
    as on one machine. Of a worker of Dask's that doesn't answer, its slots are told."""
    names = dict(seen["names"])
    workers: list[WorkerRecord] = []
    for each in seen["workers"]:
        host, first = each["machine"], each["number"]
        for number, pid, tasks, lent, actor, memory in sorted(each["processes"]):
            state = ("blocked" if lent else "busy") if tasks else "idle"
            called = tuple(names[task] for task in tasks if task in names)
            workers.append(WorkerRecord(number, pid, state, called, actor, memory, host=host))
        if not each["processes"]:
            numbers = range(first, first + each["threads"])
            workers += [WorkerRecord(n, 0, "silent", (), host=host) for n in numbers]
    limits = [each["limit"] for each in seen["workers"]]
    limited = bool(limits) and all(limits)
    left = [max(each["limit"] - each["memory"], 0) for each in seen["workers"]]
    return ClusterParts(
        tuple(workers),
        (),
        sum(limits) if limited else None,
        sum(left) if limited else None,
        seen["queued"],
        seen["running"],
        tuple(dict.fromkeys(each["host"] for each in seen["workers"])),
    )
