"""A Ray cluster, looked on at from a process in it: `Observer` of it.

With Ray's dashboard (``pip install "ray[default]"``, and ``ray.init`` starts it) Ray tells of every
reference that any process holds. Without it only this process's own references are known; then
`Snapshot.scope` says so. Ray tells neither what type an object has, nor how old it is, nor where in
its store it lies, nor what serializing it cost.
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

OWN = "only what this process holds"

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
        self._ray = ray
        if not ray.is_initialized():
            raise SessionError("This process isn't connected to Ray: `ray.init()` comes first.")
        self._context = ray.get_runtime_context()
        self._job = self._context.get_job_id()
        self.session = self._context.gcs_address
        self._has_dashboard = False
        self._people: dict[tuple[str, int], int] = {}  # address and pid → number
        self._workers: dict[str, int] = {}  # Ray's ids → number

    @property
    def ended(self) -> str | None:
        if self._ray.is_initialized() and self._context.get_job_id() == self._job:
            return None
        return "This process has left the Ray cluster."

    def _key(self, thing: Any) -> str | None:
        return thing.hex() if isinstance(thing, self._ray.ObjectRef) else None

    def _look(self) -> Snapshot:
        resources = self._ray.cluster_resources(), self._ray.available_resources()
        return self._all(*resources) or self._own(*resources)

    def _made(self, total: dict[str, float], available: dict[str, float], **known: Any) -> Snapshot:
        capacity = int(total[STORE]) if STORE in total else None
        left = None if capacity is None else int(available.get(STORE, 0))
        facts: dict[str, Any] = {
            "queued": None, "running": None, "workers": (), "spilled": None, **known
        }  # fmt: skip
        return Snapshot(
            session=self.session,
            capacity=capacity,
            live=None if capacity is None or left is None else capacity - left,
            granted=None,
            available=left,
            count=len(known["objects"]),
            segments=None,
            history=None,
            taken=time.time(),
            engine="ray",
            **facts,
        )

    # -- what the dashboard tells ------------------------------------------------------------------

    def _all(self, total: dict[str, float], available: dict[str, float]) -> Snapshot | None:
        """Every process's references; None if nobody answers for the cluster."""
        from ray.util import state
        from ray.util.state.exception import RayStateApiException

        def told(what: str, **more: Any) -> list[Any]:
            ask = getattr(state, f"list_{what}")
            found: list[Any] = ask(
                limit=MOST, timeout=ANSWER, raise_on_missing_output=False, **more
            )
            return found

        try:
            references = told("objects")
            alive = told("workers", filters=[("is_alive", "=", "True")])
            over = [("state", "!=", "FINISHED"), ("state", "!=", "FAILED")]
            tasks = told("tasks", filters=over)
            actors = told("actors", filters=[("state", "=", "ALIVE")])
        except RayStateApiException:
            if self._has_dashboard:
                raise  # it will be back; what this process holds is not all there is
            return None
        self._has_dashboard = True
        clients = self._clients(references)
        running = sum(task.state == "RUNNING" for task in tasks)
        home = os.path.dirname(self._ray.__file__)
        return self._made(
            total,
            available,
            objects=tuple(_records(references, self._people, home)),
            clients=clients,
            running=running,
            queued=len(tasks) - running,
            workers=self._pool(alive, tasks, actors),
            actors=tuple(_actor(actor, tasks) for actor in actors),
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

    # -- what this process knows -------------------------------------------------------------------

    def _own(self, total: dict[str, float], available: dict[str, float]) -> Snapshot:
        """This process's references, if it can count them."""
        ray = self._ray
        worker = ray._private.worker.global_worker  # nothing public counts them
        counts = worker.core_worker.get_all_reference_counts()
        # The handle of an actor is left out: the first half of its key is no task's.
        keys = [key for key in map(bytes.decode, counts) if not key.startswith("f" * 16)]
        # Each is counted as long as it lives, like any other: its end takes nothing from anybody.
        refs = {key: ray.ObjectRef(bytes.fromhex(key)) for key in keys}
        places = ray.experimental.get_object_locations(list(refs.values()))
        return self._made(
            total,
            available,
            objects=tuple(
                _own_record(key, counts[key.encode()], places.get(ref, {}))
                for key, ref in refs.items()
            ),
            clients=(ClientRecord(1, os.getpid(), "driver", ""),),
            scope=OWN,
        )


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


def _own_record(key: str, counts: dict[str, int], place: dict[str, Any]) -> ObjectRecord:
    """``place``: its size (None: not known, or not there yet), whether it is on disk, its nodes."""
    size, nodes = place.get("object_size"), place.get("node_ids")
    where = "disk" if place.get("did_spill") else "memory" if nodes else ""
    return ObjectRecord(
        id=id_of(key),
        state="ready" if size is not None else "pending",
        names=(),
        size=size or 0,
        where=where,
        about=None,
        holders=(1,) if counts["local"] else (),
        viewers=None,
        tasks=counts["submitted"],
        parents=0,
        age=None,
        type=None,
        key=key,
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
