"""What Dask's scheduler gets for our sessions: a keeper each, so that names, background cells and
what these showed outlive the kernel, and are found by the session's name; and the ways of messages
between drivers and workers. All of it runs on the scheduler's event loop."""

from __future__ import annotations

import contextlib
import pickle
import secrets
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

from workbench.core.snapshot import INCARNATION
from workbench.engines.dask import replicas
from workbench.engines.dask.actor_places import ActorPlaces
from workbench.engines.dask.cluster_parts import seen
from workbench.engines.dask.kept_session import ClusterSession, want
from workbench.engines.dask.placement import Placement
from workbench.engines.dask.references import References
from workbench.engines.dask.task_fates import TaskFates
from workbench.engines.dask.topics import id_of

NAME = "workbench"

WORKER_PLUGIN = "workbench"

NUMBERS = 1000
"""Numbers of processes that a worker has."""

LOOK = 2.0
"""Seconds after which it is looked again whether a session without drivers is over."""


class WorkbenchScheduler(SchedulerPlugin):  # type: ignore[misc]
    """See the module."""

    name = NAME
    idempotent = True

    def __init__(self) -> None:
        self.sessions: dict[str, ClusterSession] = {}
        self._nodes: dict[str, tuple[int, int, str, str]] = {}  # → first number, pid, node, host
        self._numbers = 0

    async def start(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._references = references = References(scheduler)
        self._placement = Placement(scheduler)
        replicas.keep(scheduler)
        self._places = places = ActorPlaces(scheduler, self.sessions, self._nodes)
        self._fates = fates = TaskFates(scheduler, self.sessions, places, self._placement)
        scheduler.handlers |= {
            "workbench_open": self.open,
            "workbench_ask": self.ask,
            "workbench_enroll": self.enroll,
            "workbench_item": self.item,
            "workbench_withdraw": fates.withdraw,
            "workbench_begun": fates.begun,
            "workbench_parts": self.parts,
            "workbench_place": places.place,
            "workbench_actors": places.actors,
            "workbench_leave": self.leave,
        }
        scheduler.stream_handlers |= {
            "workbench_echo": self.echo,
            "workbench_tell": self.tell,
            "workbench_shown": self.shown,
            "workbench_ended": fates.ended,
            "workbench_want": self.want,
            "workbench_contains": references.contains,
            "workbench_stop": fates.stop,
            "workbench_unbegun": fates.unbegun,
            "workbench_took": self.took,
            "workbench_drop": fates.drop,
            "workbench_free": self.free,
            "workbench_kill_actor": places.kill,
            "workbench_skip": places.skip,
        }

    # -- questions: somebody waits for the answer --------------------------------------------------

    def open(self, session: str, number: int, client: str, audience: int, only: bool) -> list[Any]:
        """A process comes: (the session's unique name, whether it was there, nodes of workers).

        With ``only`` it has to be there: else the name is ''.
        """
        found = self.sessions.get(session)
        if found is None and INCARNATION not in session:
            begin = session + INCARNATION
            found = next((s for n, s in self.sessions.items() if n.startswith(begin)), None)
        joined = found is not None
        nodes = {address: node for address, (_, _, node, _) in self._nodes.items()}
        if found is None:
            if only:
                return ["", False, nodes]
            unique = f"{session}{INCARNATION}{secrets.token_hex(4)}"
            found = self.sessions[unique] = ClusterSession(unique, self._scheduler)
        if number:
            found.processes[number] = client, audience
        return [found.name, joined, nodes]

    def ask(self, session: str, call: bytes) -> bytes:
        """What a method of the keeper's gives, pickled; or the exception that it raised."""
        found = self.sessions.get(session)
        try:
            if found is None:
                raise LookupError(f"the scheduler knows no session {session!r}")
            return pickle.dumps((True, found.call(call)))
        except Exception as error:
            return pickle.dumps((False, error))

    def enroll(self, address: str, pid: int, node: str, host: str) -> int:
        """A worker has our plugin now; the first number of its processes."""
        if address not in self._nodes:
            self._nodes[address] = self._numbers + 1, pid, node, host
            self._numbers += min(self._scheduler.workers[address].nthreads, NUMBERS)
        return self._nodes[address][0]

    def item(
        self, session: str, reply_to: int, stream: str, key: str, address: str, nbytes: int,
        failed: bool,
    ) -> None:  # fmt: skip
        """A worker has one more item of a stream, for who submitted that."""
        found = self.sessions.get(session)
        client, _ = found.processes.get(reply_to, ("", 0)) if found is not None else ("", 0)
        if found is None or client not in self._scheduler.clients:
            return
        self._scheduler.update_data(who_has={key: [address]}, nbytes={key: nbytes}, client=client)
        found.tell(reply_to, ["item", stream, key, failed])

    async def parts(self) -> dict[str, Any]:
        """What the cluster has: see `cluster_parts`."""
        return await seen(self._scheduler, self._nodes)

    async def leave(self, session: str, number: int, audience: int, goodbye: bool) -> None:
        """A process goes. With the last driver's goodbye nothing of the session stays; with the
        last session nothing of us."""
        found = self.sessions.get(session)
        if found is None:
            return
        if found.processes.pop(number, None) is not None:
            self._places.departed(found, number)
        if not audience or found.keeper.leave(audience):
            return
        if goodbye:
            await self._end(found)
        else:
            await self._end_if_due(found)

    async def _end_if_due(self, session: ClusterSession) -> None:
        """End a session whose last driver has gone: now, or when it is time."""
        if self.sessions.get(session.name) is not session or session.keeper.drivers():
            return
        left = session.keeper.seconds_left()
        if left is not None and left <= 0:
            await self._end(session)
        else:
            later = LOOK if left is None else min(left, LOOK)
            self._scheduler.loop.call_later(later, self._end_if_due, session)

    async def _end(self, session: ClusterSession) -> None:
        del self.sessions[session.name]
        self._places.end(session)
        session.let_go()
        if not self.sessions:
            self._nodes.clear()
            self._references.clear()
            replicas.let_go(self._scheduler)
            with contextlib.suppress(ValueError):
                await self._scheduler.unregister_worker_plugin(None, WORKER_PLUGIN)
            if not self.sessions and NAME in self._scheduler.plugins:
                await self._scheduler.unregister_scheduler_plugin(NAME)

    # -- messages: nobody waits, and nothing may be raised -----------------------------------------

    def tell(self, session: str, call: bytes, **_: Any) -> None:
        found = self.sessions.get(session)
        if found is not None:
            found.call(call)

    def echo(self, session: str, number: int, token: int, **_: Any) -> None:
        """A process wants to know when all that it has sent before is here."""
        found = self.sessions.get(session)
        if found is not None:
            found.tell(number, ["echo", token])

    def shown(self, session: str, batch: bytes, **_: Any) -> None:
        """A worker sends what a task shows."""
        found = self.sessions.get(session)
        if found is not None:
            found.keeper.push(batch)

    def want(self, session: str, key: str, desirer: str, number: int, **_: Any) -> None:
        """A process has come by a key, and holds it from now on."""
        if key in self._scheduler.tasks and desirer in self._scheduler.clients:
            self._scheduler.client_desires_keys([key], desirer)
        elif session in self.sessions:
            self.sessions[session].tell(number, ["lost", key])

    def free(self, session: str, keys: list[str], ids: list[int], number: int, **_: Any) -> None:
        """Nobody shall have these any more: each process but who says so lets go of them, and is
        told why before Dask says that they are gone."""
        found = self.sessions.get(session)
        if found is not None:
            for process in list(found.processes):
                if process != number:
                    found.tell(process, ["freed", ids])
        self._fates.drop(keys)

    def took(self, key: str, task: int, taken: int, **_: Any) -> None:
        """A stream's reader has taken so many items."""
        known = self._scheduler.tasks.get(key)
        if known is not None and known.processing_on is not None:
            message = {"op": "workbench_took", "task": task, "taken": taken}
            self._scheduler.worker_send(known.processing_on.address, message)

    # -- what the scheduler tells ------------------------------------------------------------------

    def update_graph(self, scheduler: Any, *, keys: Any = (), tasks: Any = (), **_: Any) -> None:
        """Keys are known from now on, and no worker has them yet."""
        for session in self.sessions.values():
            waiting = session.kept_of(keys)
            if waiting:
                scheduler.loop.add_callback(want, scheduler, waiting, session.client)
        for key in tasks:
            if id_of(key) is not None:
                task = scheduler.tasks[key]
                self._fates.submitted(task)
                self._placement.spread(task)

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Called for each change of any key there is."""
        if finish == "forgotten":
            self._references.forgotten(key)
            self._places.forgotten(key)
        elif finish == "waiting" or (finish == "released" and start == "waiting"):
            return
        id = id_of(key)
        if id is not None:
            self._fates.changed(key, id, start, finish, kwargs.get("exception_text"))

    def add_worker(self, scheduler: Any, worker: str) -> None:
        self._placement.changed()

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
        self._nodes.pop(worker, None)
        self._places.worker_gone(worker)

    def remove_client(self, scheduler: Any, client: str) -> None:
        """A process has gone, perhaps without a word: what it left behind is kept."""
        for session in self.sessions.values():
            for number, (name, audience) in list(session.processes.items()):
                if name == client:
                    del session.processes[number]
                    self._places.departed(session, number)
                    if audience and audience in session.keeper.processes():
                        session.keeper.leave(audience)
                        scheduler.loop.add_callback(self._end_if_due, session)
