"""A Dask cluster, looked on at through a client of it: `Observer`s of its scheduler, which doesn't
know where in a worker's memory something lies, how old it is, nor what serializing it cost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from workbench.core.snapshot import ClientRecord, ObjectRecord, Snapshot, WorkerRecord
from workbench.engine.base import Abilities
from workbench.engines.observed import Observer, id_of
from workbench.errors import SessionError

MOST = 4_000  # objects that are told one by one: the largest


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
                "This client belongs to an event loop: give one made without asynchronous=True."
            )
        super().__init__()
        self._client = client
        if client.scheduler is None:
            raise SessionError("This client of Dask isn't connected to a scheduler.")
        self.session = client.scheduler.address

    @property
    def end_reason(self) -> str | None:
        if self._client.status in ("closing", "closed"):
            return "The client of the Dask cluster is closed."
        return None

    def _key(self, thing: object) -> str | None:
        from distributed import Future

        return str(thing.key) if isinstance(thing, Future) else None

    def _look(self) -> Snapshot:
        seen = self._client.run_on_scheduler(_seer(), MOST)
        numbers = {name: number for number, name in enumerate(seen["clients"], 1)}
        clients = tuple(
            ClientRecord(number, os.getpid(), "driver", "")
            if name == self._client.id
            else ClientRecord(number, 0, "driver", name.replace("-and-", "_and_"))
            for name, number in numbers.items()
        )
        told = seen["workers"]
        named = all(isinstance(each[0], int) for each in told)  # then those are their numbers
        workers = tuple(
            WorkerRecord(name if named else n, pid, "busy" if tasks else "idle", tasks, memory=now)
            for n, (name, pid, _, _, now, _, tasks) in enumerate(told, 1)
        )
        limits, spilled = [each[2] for each in told], sum(each[5] for each in told)
        is_limited = bool(limits) and all(limits)

        def record(
            key: str, state: str, kind: str | None, size: int, wanted: list[str], waiters: int
        ) -> ObjectRecord:
            there, failed = state == "memory", state == "erred"
            where = "memory" if there and not spilled else "" if there or failed else "pending"
            holders = tuple(numbers[name] for name in wanted if name in numbers)
            return ObjectRecord(
                id_of(key),
                "ready" if there else "failed" if failed else "pending",
                (),
                max(size, 0) if there else 0,
                where,
                None,
                holders,
                (),
                waiters,
                0,
                age=None,
                type=kind and kind.rpartition(".")[2],
                key=key,
            )

        return Snapshot(
            session=self.session,
            capacity=sum(limits) if is_limited else None,
            live=max(sum(each[3] for each in told) - spilled, 0),
            granted=None,
            queued=seen["queued"],
            running=seen["running"],
            objects=tuple(record(*each) for each in seen["objects"]),
            workers=workers,
            clients=clients,
            spilled=spilled,
            count=seen["count"],
            segments=None,
            history=None,
            taken=time.time(),
            engine="dask",
            available=sum(max(e[2] - e[4], 0) for e in told) if is_limited else None,
        )


def _seer() -> Callable[..., dict[str, Any]]:
    """What runs at the scheduler. A function inside of one travels as code, with all it needs:
    Workbench need not be installed there."""

    def see(most: int, dask_scheduler: Any) -> dict[str, Any]:
        import heapq

        waits = ("waiting", "queued", "no-worker")
        tasks = list(dask_scheduler.tasks.values())
        states = [task.state for task in tasks]
        there = [task for task in tasks if task.state == "memory"]
        asked = [t for t in tasks if t.state in (*waits, "processing", "erred") and t.who_wants]
        largest = heapq.nlargest(most, there, key=lambda task: task.nbytes)
        return {
            "count": len(there) + len(asked),
            "running": states.count("processing"),
            "queued": sum(map(states.count, waits)),
            "clients": list(dask_scheduler.clients),
            "objects": [
                (
                    str(task.key),
                    task.state,
                    task.type,
                    task.nbytes,
                    [client.client_key for client in task.who_wants or ()],
                    len(task.waiters or ()),
                )
                for task in (*largest, *asked[: most - len(largest)])
            ],
            "workers": [
                (
                    w.name,
                    w.pid,
                    w.memory_limit or 0,
                    w.nbytes,
                    w.metrics.get("memory", 0),
                    w.metrics.get("spilled_bytes", {}).get("disk", 0),
                    tuple(task.prefix.name for task in list(w.processing)[:10]),
                )
                for w in dask_scheduler.workers.values()
            ],
        }

    return see
