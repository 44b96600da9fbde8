"""A Dask cluster, looked on at through a client of it: `Observer`s of its scheduler.

The scheduler knows each result's key, type, size, who wants it and what waits for it; of a worker
its memory and what it runs. It doesn't know where in a worker's memory something lies, nor what
serializing it cost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from workbench.core.snapshot import ClientRecord, ObjectRecord, Snapshot, WorkerRecord
from workbench.engine.base import Abilities
from workbench.engines.observed import Observer, id_of
from workbench.errors import SessionError

MOST = 4_000
"""Objects that are told one by one: the largest."""

ANSWER = 10.0
"""Seconds that the scheduler has for an answer."""

LABELS = {"fire-and-forget": "fire_and_forget"}
"""Of what wants results and is no process."""


def is_client(of: object) -> bool:
    from distributed import Client

    return bool(isinstance(of, Client))


class Dask(Observer):
    """``client`` is a distributed.Client that is used from ordinary code, not from coroutines.

    SessionError if it isn't connected, or belongs to an event loop.
    """

    who = "Dask's scheduler"
    can = Abilities.none(
        "This is a read-only view of a Dask cluster. Dask frees a result with its last Future, or "
        "by client.cancel."
    )

    def __init__(self, client: Any) -> None:
        if client.asynchronous:
            raise SessionError(
                "This client belongs to an event loop, which views can't wait for: give one that "
                "was made without asynchronous=True."
            )
        self._client = client
        if client.scheduler is None:
            raise SessionError("This client of Dask isn't connected to a scheduler.")
        self.session = client.scheduler.address
        self._born: dict[str, float] = {}
        self._since = 0.0  # the scheduler's time of the last look

    @property
    def ended(self) -> str | None:
        if self._client.status in ("closing", "closed"):
            return "The client of the Dask cluster is closed."
        return None

    def _key(self, thing: object) -> str | None:
        from distributed import Future

        return str(thing.key) if isinstance(thing, Future) else None

    def _look(self) -> Snapshot:
        seen = self._client.sync(
            self._client._run_on_scheduler,
            _seer(),
            most=MOST,
            since=self._since,
            callback_timeout=ANSWER,
        )
        now = time.time()
        self._since = seen["now"]
        self._born.update((key, now - age) for key, age in seen["ages"].items())
        numbers = {name: number for number, name in enumerate(seen["clients"], 1)}
        clients = tuple(
            ClientRecord(number, os.getpid(), "driver", "")
            if name == self._client.id
            else ClientRecord(number, 0, "driver", LABELS.get(name, name))
            for name, number in numbers.items()
        )
        workers, spilled = _workers(seen["workers"]), sum(w["disk"] for w in seen["workers"])
        objects = tuple(self._record(found, numbers, now, spilled) for found in seen["objects"])
        if len(self._born) > 4 * MOST:
            there = {record.key for record in objects}
            self._born = {key: born for key, born in self._born.items() if key in there}
        limits = [worker["limit"] for worker in seen["workers"]]
        limited = bool(limits) and all(limits)
        left = [max(w["limit"] - w["memory"], 0) for w in seen["workers"] if w["limit"]]
        return Snapshot(
            session=self.session,
            capacity=sum(limits) if limited else None,
            live=max(sum(worker["bytes"] for worker in seen["workers"]) - spilled, 0),
            granted=None,
            queued=seen["queued"],
            running=seen["running"],
            objects=objects,
            workers=workers,
            clients=clients,
            spilled=spilled,
            count=seen["count"],
            segments=None,
            history=None,
            taken=now,
            engine="dask",
            available=sum(left) if limited else None,
        )

    def _record(
        self, found: dict[str, Any], clients: dict[str, int], now: float, spilled: int
    ) -> ObjectRecord:
        key, is_there = found["key"], found["state"] == "memory"
        born = self._born.get(key)
        where = "memory" if is_there and not spilled else "" if is_there else "pending"
        return ObjectRecord(
            id=id_of(key),
            state="ready" if is_there else "failed" if found["state"] == "erred" else "pending",
            names=(),
            size=max(found["size"], 0) if is_there else 0,
            where="" if found["state"] == "erred" else where,
            about=None,
            holders=tuple(clients[name] for name in found["wanted"] if name in clients),
            viewers=(),
            tasks=found["waiters"],
            parents=0,
            age=None if born is None else max(now - born, 0.0),
            type=found["type"] and found["type"].rpartition(".")[2],
            key=key,
        )


def _workers(seen: list[dict[str, Any]]) -> tuple[WorkerRecord, ...]:
    """With the numbers that they have as names, if those are numbers."""
    named = all(isinstance(worker["name"], int) for worker in seen)
    return tuple(
        WorkerRecord(
            number=worker["name"] if named else number,
            pid=worker["pid"],
            state="busy" if worker["tasks"] else "idle",
            tasks=tuple(worker["tasks"]),
            memory=worker["memory"],
        )
        for number, worker in enumerate(seen, 1)
    )


def _seer() -> Callable[..., dict[str, Any]]:
    """What runs at the scheduler. A function inside of one travels as code, with all it needs:
    Workbench need not be installed there."""

    def see(most: int, since: float, dask_scheduler: Any) -> dict[str, Any]:
        import heapq
        import itertools
        import time

        waiting = {"waiting": 0, "queued": 0, "no-worker": 0, "processing": 0}
        there, asked = [], []
        for task in dask_scheduler.tasks.values():
            if task.state == "memory":
                there.append(task)
            elif task.state in waiting:
                waiting[task.state] += 1
                if task.who_wants:
                    asked.append(task)
            elif task.state == "erred" and task.who_wants:
                asked.append(task)
        count = len(there) + len(asked)
        if count > most:
            there = heapq.nlargest(most, there, key=lambda task: task.nbytes)
            asked = asked[: most - len(there)]
        now = time.time()
        ages: dict[str, float] = {}
        for entry in itertools.takewhile(
            lambda entry: entry[-1] >= since, reversed(dask_scheduler.transition_log)
        ):
            if entry[2] == "memory":
                ages.setdefault(str(entry[0]), now - entry[-1])
        return {
            "now": now,
            "ages": ages,
            "count": count,
            "running": waiting.pop("processing"),
            "queued": sum(waiting.values()),
            "clients": list(dask_scheduler.clients),
            "objects": [
                {
                    "key": str(task.key),
                    "state": task.state,
                    "type": task.type,
                    "size": task.nbytes,
                    "wanted": [client.client_key for client in task.who_wants or ()],
                    "waiters": len(task.waiters or ()),
                }
                for task in (*there, *asked)
            ],
            "workers": [
                {
                    "name": worker.name,
                    "pid": worker.pid,
                    "limit": worker.memory_limit or 0,
                    "bytes": worker.nbytes,
                    "memory": worker.metrics.get("memory", 0),
                    "disk": worker.metrics.get("spilled_bytes", {}).get("disk", 0),
                    "tasks": [task.prefix.name for task in list(worker.processing)[:10]],
                }
                for worker in dask_scheduler.workers.values()
            ],
        }

    return see
