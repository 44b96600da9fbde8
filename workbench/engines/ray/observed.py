"""A Ray cluster, looked on at from a process in it: `Observer` of it.

With Ray's dashboard (``pip install "ray[default]"``, and ``ray.init`` starts it) Ray tells of every
reference that any process holds; without it of none. It tells neither what type an object has, nor
how old it is, nor where in its store it lies, nor what serializing it cost.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from workbench.core.snapshot import ActorRecord, ClientRecord, ObjectRecord, Snapshot, WorkerRecord
from workbench.engine.base import Abilities
from workbench.engines.observed import Observer, id_of
from workbench.errors import SessionError

MOST = 10_000
"""References that are asked for, and tasks; Ray gives no more."""

ANSWER = 10
"""Seconds that Ray has for an answer."""

STORE = "object_store_memory"
"""What Ray calls its store's capacity, among the resources."""

VIEW, TASK, CONTAINED, ACTOR = (
    "PINNED_IN_MEMORY",
    "USED_BY_PENDING_TASK",
    "CAPTURED_IN_OBJECT",
    "ACTOR_HANDLE",
)
"""Why a process refers to an object, in Ray's words; what is none of these is a ref."""


class Ray(Observer):
    """``ray`` is the module, after ``ray.init()``: SessionError if that wasn't called."""

    who = "Ray"
    can = Abilities.none(
        "This is a read-only view of a Ray cluster. Ray frees an object with its last ObjectRef."
    )

    def __init__(self, ray: Any) -> None:
        super().__init__()
        self._ray = ray
        if not ray.is_initialized():
            raise SessionError("This process isn't connected to Ray: `ray.init()` comes first.")
        self._context = ray.get_runtime_context()
        self._job = self._context.get_job_id()
        self.session = self._context.gcs_address
        self._people: dict[tuple[str, int], int] = {}  # address and pid → number
        self._workers: dict[str, int] = {}  # Ray's ids → number

    @property
    def end_reason(self) -> str | None:
        if self._ray.is_initialized() and self._context.get_job_id() == self._job:
            return None
        return "This process has left the Ray cluster."

    def _key(self, thing: Any) -> str | None:
        return thing.hex() if isinstance(thing, self._ray.ObjectRef) else None

    def _look(self) -> Snapshot:
        total, available = self._ray.cluster_resources(), self._ray.available_resources()
        capacity = int(total[STORE]) if STORE in total else None
        left = None if capacity is None else int(available.get(STORE, 0))
        references = _told("objects")
        alive = _told("workers", filters=[("is_alive", "=", "True")])
        over = [("state", "!=", "FINISHED"), ("state", "!=", "FAILED")]
        tasks = _told("tasks", filters=over)
        actors = _told("actors", filters=[("state", "=", "ALIVE")])
        clients = self._clients(references)
        running = sum(task.state == "RUNNING" for task in tasks)
        home = os.path.dirname(self._ray.__file__)
        objects = tuple(_records(references, self._people, home))
        return Snapshot(
            session=self.session,
            capacity=capacity,
            live=None if capacity is None or left is None else capacity - left,
            granted=None,
            available=left,
            objects=objects,
            count=len(objects),
            clients=clients,
            running=running,
            queued=len(tasks) - running,
            workers=self._pool(alive, tasks, actors),
            actors=tuple(_actor(actor, tasks) for actor in actors),
            spilled=None,
            segments=None,
            history=None,
            taken=time.time(),
            engine="ray",
        )

    def _clients(self, references: Iterable[Any]) -> tuple[ClientRecord, ...]:
        """Who refers to objects. Each keeps its number."""
        node = self._context.get_node_id()
        here = next((n["NodeManagerAddress"] for n in self._ray.nodes() if n["NodeID"] == node), "")
        found = {}
        for ip, pid, kind in dict.fromkeys((r.ip, r.pid, r.type) for r in references):
            number = self._people.setdefault((ip, pid), len(self._people) + 1)
            found[number] = ClientRecord(
                number,
                pid if ip == here else 0,  # on another machine it says nothing
                "driver" if kind == "DRIVER" else "worker",
                "" if (ip, pid) == (here, os.getpid()) else f"process {pid} at {ip}",
            )
        return tuple(found[number] for number in sorted(found))

    def _pool(
        self, alive: Iterable[Any], tasks: Iterable[Any], actors: Iterable[Any]
    ) -> tuple[WorkerRecord, ...]:
        """The workers and what they are at. Each keeps its number."""
        running: dict[int | None, list[str]] = defaultdict(list)
        for task in tasks:
            if task.state == "RUNNING":
                running[task.worker_pid].append(task.name)
        inside = {actor.pid: id_of(actor.actor_id) for actor in actors}
        found = {
            self._workers.setdefault(worker.worker_id, len(self._workers) + 1): worker
            for worker in alive
            if worker.worker_type == "WORKER"
        }
        return tuple(
            WorkerRecord(
                number,
                worker.pid,
                "busy" if running[worker.pid] else "idle",
                tuple(running[worker.pid][:10]),
                inside.get(worker.pid, 0),
            )
            for number, worker in sorted(found.items())
        )


def _told(what: str, **more: Any) -> list[Any]:
    """What the dashboard tells of the whole cluster."""
    from ray.util import state
    from ray.util.state.exception import RayStateApiException

    ask = getattr(state, f"list_{what}")
    try:
        found: list[Any] = ask(limit=MOST, timeout=ANSWER, raise_on_missing_output=False, **more)
    except RayStateApiException as error:
        raise SessionError(f"Ray's dashboard doesn't answer, which would tell: {error}") from error
    return found


def _actor(actor: Any, tasks: Iterable[Any]) -> ActorRecord:
    return ActorRecord(
        id=id_of(actor.actor_id),
        cls=actor.class_name.rpartition(".")[2],
        names=(actor.name,) if actor.name else (),
        state="alive",
        worker=0,
        calls=sum(task.actor_id == actor.actor_id for task in tasks),
        restarts=0,
    )


def _records(
    references: Iterable[Any], numbers: dict[tuple[str, int], int], inside: str
) -> Iterator[ObjectRecord]:
    """Objects of references: each process that has one tells its own. ``inside``: see `_site`."""
    found: dict[str, list[Any]] = defaultdict(list)
    for reference in references:
        if reference.reference_type != ACTOR:
            found[reference.object_id].append(reference)
    for key, same in found.items():
        size = max(reference.object_size for reference in same)
        ways = [(r.reference_type, numbers[r.ip, r.pid]) for r in same]
        yield ObjectRecord(
            id=id_of(key),
            state="ready" if size >= 0 else "pending",
            names=(),
            size=max(size, 0),
            where="" if size >= 0 else "pending",
            about=None,
            holders=tuple(n for way, n in ways if way not in (VIEW, TASK, CONTAINED)),
            viewers=tuple(n for way, n in ways if way == VIEW),
            tasks=sum(way == TASK for way, _ in ways),
            parents=sum(way == CONTAINED for way, _ in ways),
            age=None,
            type=None,
            site=next(filter(None, (_site(r.call_site, inside) for r in same)), ""),
            key=key,
        )


def _site(stack: str, inside: str) -> str:
    """Where in a person's code: ``train.py, line 7``. Ray tells it if it was asked to.

    ``inside`` is where Ray's own code lies.
    """
    for frame in stack.split("|")[1:]:
        path, _, rest = frame.strip().partition(":")
        if path and not path.startswith(inside):
            return f"{os.path.basename(path)}, line {rest.rpartition(':')[2]}"
    return ""
