"""Names of a session's processes and actors: one name each, wherever they appear."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable

from workbench.core.descriptions import Account, ObjectDescription
from workbench.core.events import ID_BITS
from workbench.core.snapshot import (
    ACTOR_PREFIX,
    ActorRecord,
    ClientRecord,
    SegmentRecord,
    Snapshot,
    WorkerRecord,
)
from workbench.format import UNKNOWN, count, joined

LEFT = "a process that left"
"""Name of a holder or writer that is gone."""

SERVER = "the server"
DISK = "disk"


def is_on_this_machine(record: ClientRecord | WorkerRecord) -> bool:
    """True if its pid is one of this machine's."""
    return record.host in ("", platform.node())


def is_this_process(record: ClientRecord | WorkerRecord) -> bool:
    return record.pid == os.getpid() and is_on_this_machine(record)


class Processes:
    def __init__(self, seen: Snapshot | Account | ObjectDescription) -> None:
        self._clients = {client.client: client for client in seen.clients}
        self._workers = {(worker.host, worker.pid): worker for worker in seen.workers}
        self._actors = {actor.id: actor for actor in seen.actors}

    def name(self, client: int) -> str:
        """Return its name: ``this notebook``, ``worker 2``, ``Counter 'hits'``, ``other.ipynb``."""
        found = self._clients.get(client)
        if found is None:
            return LEFT
        if is_this_process(found):
            is_notebook = found.label.endswith(("notebook", ".ipynb"))
            return "this notebook" if is_notebook else "this process"
        worker = self._worker_of(client)
        return client_name(found) if worker is None else self.worker(worker)

    def maker(self, id: int) -> str:
        """Return who put an object, or submitted the task that made it: its id tells."""
        made = self.made_by(id)
        return LEFT if made is None else self.name(made.client)

    def of_another(self, id: int) -> str:
        """Return `` of other.ipynb`` if the object is another process's."""
        maker = self.maker(id)
        return "" if maker == LEFT or maker.startswith("this ") else f" of {maker}"

    def made_by(self, id: int) -> ClientRecord | None:
        """Return the process that gave something its id; None if it has left."""
        prefix = id >> ID_BITS
        made = (each for each in self._clients.values() if prefix and each.prefix == prefix)
        return next(made, None)

    def pool_worker(self, client: int) -> WorkerRecord | None:
        """Return the pool's worker that this process is, if it is one."""
        worker = self._worker_of(client)
        return None if worker is None or worker.actor else worker

    def namespace(self, client: int) -> str:
        """Return the `--actor` name of the namespace that this process keeps; else ''."""
        worker = self._worker_of(client)
        actor = None if worker is None else self._actors.get(worker.actor)
        if actor is None or actor.cls != "Namespace" or not actor.names:
            return ""
        return actor.names[0].removeprefix(ACTOR_PREFIX)

    def _worker_of(self, client: int) -> WorkerRecord | None:
        found = self._clients.get(client)
        return None if found is None else self._workers.get((found.host, found.pid))

    def worker(self, worker: WorkerRecord) -> str:
        return self.actor(worker) or f"worker {worker.number}"

    def numbered(self, number: int) -> str:
        found = [worker for worker in self._workers.values() if worker.number == number]
        return self.worker(found[0]) if found else f"worker {number}"

    def actor(self, worker: WorkerRecord) -> str:
        """Return the name of the actor that a worker belongs to; '' if it is in the pool."""
        actor = self._actors.get(worker.actor)
        return actor_name(actor) if actor else "an actor" if worker.actor else ""

    def is_here(self, client: int) -> bool:
        found = self._clients.get(client)
        return found is not None and is_this_process(found)

    def several(self, clients: Iterable[int]) -> str:
        """Name this process first, then others, then workers, as a number if they are several."""
        numbers = sorted(set(clients), key=lambda n: not self.is_here(n))
        named = list(dict.fromkeys(map(self.name, numbers)))
        pool = [name for name in named if re.fullmatch(r"worker \d+", name)]
        if len(pool) > 1:
            named = [name for name in named if name not in pool] + [count(len(pool), "worker")]
        return joined(named)

    def owner(self, segment: SegmentRecord) -> str:
        if segment.disk:
            return DISK
        # What the server made, for objects that it moves, has no client's prefix.
        is_servers = not segment.id >> ID_BITS and segment.owner not in self._clients
        return SERVER if is_servers else self.name(segment.owner)


def owners_of(snapshot: Snapshot) -> dict[int, str]:
    """Return the writer's name of each segment. Objects in none (0) are with the server; empty if
    the engine doesn't tell where objects lie."""
    if snapshot.segments is None:
        return {}
    processes = Processes(snapshot)
    return {0: SERVER} | {each.id: processes.owner(each) for each in snapshot.segments}


def client_name(client: ClientRecord) -> str:
    """Return the name of a process other than this one. Leaves out the path of a notebook."""
    where = "" if is_on_this_machine(client) else f" on {client.host}"
    return client.label.rpartition("/")[2] or f"process {client.pid}{where}"


def open_in(snapshot: Snapshot) -> list[str]:
    return [client_name(client) for client in snapshot.clients if client.role == "driver"]


def actor_name(actor: ActorRecord) -> str:
    """Return ``Counter``, ``Counter 'hits'``; ``actor db`` for a namespace of cells."""
    names = [name.removeprefix(ACTOR_PREFIX) for name in actor.names]
    if actor.cls == "Namespace" and names:
        return f"actor {', '.join(names)}"
    return " ".join([actor.cls, *map(repr, names)])


def actor_text(actor: ActorRecord) -> str:
    """Return its name, its state unless alive, and waiting calls: ``Counter 'hits', 2 calls``."""
    known = actor.state or f"whether it lives is {UNKNOWN}"
    state = "" if known == "alive" else f" ({known})"
    return actor_name(actor) + state + (f", {count(actor.calls, 'call')}" if actor.calls else "")
