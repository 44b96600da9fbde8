"""What Dask's scheduler gets for our sessions: a keeper each, so that names, background cells and
what these showed outlive the kernel, and are found by the session's name; and the ways of messages
between drivers and workers. All of it runs on the scheduler's event loop."""

from __future__ import annotations

import contextlib
import pickle
import secrets
from typing import Any

import msgspec
from distributed.diagnostics.plugin import SchedulerPlugin

from workbench.core.snapshot import INCARNATION
from workbench.engines.cluster.backend import TaskEnd
from workbench.engines.dask.balance import Balance
from workbench.engines.dask.cluster_parts import seen
from workbench.engines.dask.kept_session import ClusterSession, release, want
from workbench.engines.dask.topics import id_of, key_of

NAME = "workbench"

WORKER_PLUGIN = "workbench"

NUMBERS = 1000
"""Numbers of processes that a worker has."""

LOOK = 2.0
"""Seconds after which it is looked again whether a session without drivers is over."""

QUEUED = ("waiting", "queued", "no-worker")
"""States of Dask's tasks that no worker has."""

LOST = (
    "the worker that had it has died. It may have begun there, and `max_retries` doesn't allow to "
    "run it again."
)

_decode_end = msgspec.msgpack.Decoder(TaskEnd).decode


class WorkbenchScheduler(SchedulerPlugin):  # type: ignore[misc]
    """See the module."""

    name = NAME
    idempotent = True

    def __init__(self) -> None:
        self.sessions: dict[str, ClusterSession] = {}
        self._inside: dict[str, list[str]] = {}  # key → keys of refs in its value
        self._at_workers: set[str] = set()  # keys of tasks that workers have
        self._nodes: dict[str, tuple[int, int, str, str]] = {}  # → first number, pid, node, host
        self._numbers = 0

    async def start(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._balance = Balance(scheduler)
        scheduler.handlers |= {
            "workbench_open": self.open,
            "workbench_ask": self.ask,
            "workbench_enroll": self.enroll,
            "workbench_item": self.item,
            "workbench_withdraw": self.withdraw,
            "workbench_begun": self.begun,
            "workbench_parts": self.parts,
            "workbench_place": self.place,
            "workbench_actors": self.actors,
            "workbench_leave": self.leave,
        }
        scheduler.stream_handlers |= {
            "workbench_tell": self.tell,
            "workbench_shown": self.shown,
            "workbench_ended": self.ended,
            "workbench_want": self.want,
            "workbench_contains": self.contains,
            "workbench_stop": self.stop,
            "workbench_unbegun": self.unbegun,
            "workbench_took": self.took,
            "workbench_drop": self.drop,
            "workbench_kill_actor": self.kill_actor,
            "workbench_skip": self.skip,
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

    def withdraw(self, key: str) -> bool:
        """Drop a task that no worker has; whether that was so."""
        task = self._scheduler.tasks.get(key)
        if task is None or task.state not in QUEUED:
            return False
        self._dropped(key)
        return True

    def begun(self, key: str) -> bool:
        task = self._scheduler.tasks.get(key)
        return task is None or task.state not in QUEUED

    async def parts(self) -> dict[str, Any]:
        """What the cluster has: see `cluster_parts`."""
        return await seen(self._scheduler, self._nodes)

    def place(
        self, session: str, actor: int, name: str, key: str, described: str, detached: bool
    ) -> str:
        """Where a new actor goes: the worker with the fewest. '' if another has its name.

        LookupError if there is no worker.
        """
        found = self.sessions[session]
        if name and any(each[0] == name for each in found.actors.values()):
            return ""
        counts = {address: 0 for address in self._nodes if address in self._scheduler.workers}
        if not counts:
            raise LookupError("the cluster has no workers")
        for each in self.sessions.values():
            for _, _, address, _ in each.actors.values():
                counts[address] = counts.get(address, 0) + 1
        address = min(counts, key=lambda address: (counts[address], address))
        found.actors[actor] = name, key, address, described
        if detached:
            found.detached[actor] = found.keep(described)
        return address

    def actors(self, session: str) -> list[Any]:
        """(id, full name, key, address, description's key) of each actor that lives."""
        return [[id, *each] for id, each in self.sessions[session].actors.items()]

    async def leave(self, session: str, number: int, audience: int, goodbye: bool) -> None:
        """A process goes. With the last driver's goodbye nothing of the session stays; with the
        last session nothing of us."""
        found = self.sessions.get(session)
        if found is None:
            return
        if found.processes.pop(number, None) is not None:
            self._departed(found, number)
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
        self._let_go(session)
        if not self.sessions:
            self._nodes.clear()
            for key in list(self._inside):
                release(self._scheduler, self._inside.pop(key), f"workbench-in-{key}")
            with contextlib.suppress(ValueError):
                await self._scheduler.unregister_worker_plugin(None, WORKER_PLUGIN)
            if not self.sessions and NAME in self._scheduler.plugins:
                await self._scheduler.unregister_scheduler_plugin(NAME)

    # -- messages: nobody waits, and nothing may be raised -----------------------------------------

    def tell(self, session: str, call: bytes, **_: Any) -> None:
        found = self.sessions.get(session)
        if found is not None:
            found.call(call)

    def shown(self, session: str, batch: bytes, **_: Any) -> None:
        """A worker sends what a task shows."""
        found = self.sessions.get(session)
        if found is not None:
            found.keeper.push(batch)

    def ended(self, session: str, reply_to: int, end: list[Any], **_: Any) -> None:
        """A worker sends how a task ended, for who submitted it."""
        found = self.sessions.get(session)
        if found is not None:
            found.keeper.ended(_decode_end(end[2]))  # its process may have died without a word
            found.tell(reply_to, end)

    def want(self, session: str, key: str, desirer: str, number: int, **_: Any) -> None:
        """A process has come by a key, and holds it from now on."""
        if key in self._scheduler.tasks and desirer in self._scheduler.clients:
            self._scheduler.client_desires_keys([key], desirer)
        elif session in self.sessions:
            self.sessions[session].tell(number, ["lost", key])

    def contains(self, key: str, inside: list[str], session: str = "", **_: Any) -> None:
        """The value of a key refers to these: they live as long as it."""
        if key not in self._scheduler.tasks:
            return
        self._inside.setdefault(key, []).extend(inside)
        want(self._scheduler, inside, f"workbench-in-{key}")

    def stop(
        self, session: str, tasks: list[tuple[str, int, int, int, int]], force: bool, **_: Any
    ) -> None:
        """Stop tasks, wherever they are: of each its key ('' if who asks doesn't know that) and
        id; of a call of an actor that, its submitter, and its number."""
        for key, task, actor, submitter, number in tasks:
            known = self._scheduler.tasks.get(key or self._key_of(session, task))
            if known is None:
                continue
            if known.state == "processing":
                message = {
                    "op": "workbench_stop", "key": known.key, "session": session, "task": task,
                    "force": force, "actor": actor, "submitter": submitter, "number": number,
                }  # fmt: skip
                self._scheduler.worker_send(known.processing_on.address, message)
            elif known.state in QUEUED:
                found = self.sessions.get(session)
                if number and found is not None and actor in found.actors:
                    self.skip(actor, found.actors[actor][2], submitter, number)
                self.unbegun(known.key, session, task)

    def unbegun(self, key: str, session: str, task: int, **_: Any) -> None:
        """A task was stopped before it began; unless it is over by now."""
        known = self._scheduler.tasks.get(key)
        if known is not None and known.state == "memory":
            return
        found = self.sessions.get(session)
        if found is not None:
            found.keeper.ended(TaskEnd(task, "stopped", 0.0, 0, (True,), (None,)))
            found.tell_all(["cancelled", key])
        self._dropped(key)

    def _key_of(self, session: str, task: int) -> str:
        end = key_of(session, "", task).rpartition("-")[2]
        return next((key for key in self._scheduler.tasks if str(key).endswith(end)), "")

    def skip(self, actor: int, address: str, submitter: int, number: int, **_: Any) -> None:
        """That call of an actor won't come."""
        message = {
            "op": "workbench_skip", "actor": actor, "submitter": submitter, "number": number
        }  # fmt: skip
        if address in self._scheduler.workers:
            self._scheduler.worker_send(address, message)

    def took(self, key: str, task: int, taken: int, **_: Any) -> None:
        """A stream's reader has taken so many items."""
        known = self._scheduler.tasks.get(key)
        if known is not None and known.processing_on is not None:
            message = {"op": "workbench_took", "task": task, "taken": taken}
            self._scheduler.worker_send(known.processing_on.address, message)

    def drop(self, keys: list[str], **_: Any) -> None:
        """Nobody shall have these any more."""
        for key in keys:
            self._dropped(key)

    def kill_actor(self, session: str, actor: int, restart: bool, **_: Any) -> None:
        found = self.sessions.get(session)
        entry = None if found is None else found.actors.get(actor)
        if found is None or entry is None:
            return
        if not restart:
            del found.actors[actor]
            found.detached.pop(actor, None)
        message = {"op": "workbench_kill_actor", "actor": actor, "restart": restart}
        self._scheduler.worker_send(entry[2], message)

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
                if not task.worker_restrictions:  # an actor's are told that it is gone
                    # Dask gives up what more than so many workers died of.
                    task.suspicious = scheduler.allowed_failures - _tries(task)
                self._spread(task)

    def _spread(self, task: Any) -> None:
        """Have a task go to a worker with room, if those that have its data have none.

        Dask would send it to them all the same, and move it only if it knows how long such take.
        What large data costs to move it costs once a node.
        """
        needs = task.dependencies
        if not needs or task.worker_restrictions or any(not each.who_has for each in needs):
            return
        holders = set().union(*(each.who_has for each in needs))
        if any(_load(ws) < 1 for ws in holders):
            return
        best = min(self._scheduler.running, key=_load, default=None)
        if best is not None and _load(best) < min(map(_load, holders)):
            task.worker_restrictions, task.loose_restrictions = {best.address}, True

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Called for each change of any key there is."""
        if finish == "forgotten":
            self._forgotten(key)
        if start != "processing" and finish not in ("processing", "erred"):
            return
        task = id_of(key)
        if task is None:
            return
        if finish == "processing":
            self._at_workers.add(key)
            self._balance.changed()
            return
        was_there = key in self._at_workers
        self._at_workers.discard(key)
        self._balance.left(key)
        known = self._scheduler.tasks.get(key)
        is_wanted = known is not None and (known.who_wants or known.waiters)
        if finish in ("released", "forgotten") and was_there and not is_wanted:
            # Its process would go on. Of one that is wanted, it is tried elsewhere. All are told:
            # it may have been moved from the worker that got it.
            for address in self._scheduler.stream_comms:
                self._scheduler.worker_send(address, {"op": "workbench_abandon", "task": task})
        elif finish == "erred":
            lost = known is not None and known.suspicious > self._scheduler.allowed_failures
            error = LOST if lost else kwargs.get("exception_text") or "Dask could not run it."
            for session in self.sessions.values():
                session.keeper.ended(TaskEnd(task, "failed", 0.0, 0, (True,), (None,)))
                session.tell_all(["erred", key, str(error)])

    def _forgotten(self, key: Any) -> None:
        later = self._scheduler.loop.add_callback
        inside = self._inside.pop(key, None)
        if inside is not None:
            later(release, self._scheduler, inside, f"workbench-in-{key}")
        for session in self.sessions.values():
            for actor, each in session.actors.items():
                if each[3] == key:  # nobody has a handle any more
                    later(self.kill_actor, session.name, actor, False)

    def add_worker(self, scheduler: Any, worker: str) -> None:
        self._balance.changed()

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
        self._nodes.pop(worker, None)
        for session in self.sessions.values():
            gone = [id for id, each in session.actors.items() if each[2] == worker]
            for actor in gone:
                key = session.actors.pop(actor)[1]
                session.detached.pop(actor, None)
                session.tell_all(["actor", key])

    def remove_client(self, scheduler: Any, client: str) -> None:
        """A process has gone, perhaps without a word: what it left behind is kept."""
        for session in self.sessions.values():
            for number, (name, audience) in list(session.processes.items()):
                if name == client:
                    del session.processes[number]
                    self._departed(session, number)
                    if audience and audience in session.keeper.processes():
                        session.keeper.leave(audience)
                        scheduler.loop.add_callback(self._end_if_due, session)

    # -- the end -----------------------------------------------------------------------------------

    def _departed(self, session: ClusterSession, submitter: int) -> None:
        """Actors wait no longer for calls of a process that is gone."""
        for address in {each[2] for each in session.actors.values()}:
            if address in self._scheduler.stream_comms:
                message = {"op": "workbench_departed", "submitter": submitter}
                self._scheduler.worker_send(address, message)

    def _dropped(self, key: str) -> None:
        for session in self.sessions.values():
            for actor in [id for id, each in session.actors.items() if each[1] == key]:
                self.kill_actor(session.name, actor, False)  # it will never be made
        task = self._scheduler.tasks.get(key)
        if task is not None and task.who_wants:
            client = next(iter(task.who_wants)).client_key
            self._scheduler.stimulus_cancel(
                [key], client=client, force=True, reason="stopped", msg="It was stopped."
            )

    def _let_go(self, session: ClusterSession) -> None:
        del self.sessions[session.name]
        for actor, (_, _, address, _) in session.actors.items():
            message = {"op": "workbench_kill_actor", "actor": actor, "restart": False}
            self._scheduler.worker_send(address, message)
        if session.client in self._scheduler.clients:
            wanted = [each.key for each in self._scheduler.clients[session.client].wants_what]
            release(self._scheduler, wanted, session.client)


def _tries(task: Any) -> float:
    """How many workers may die while they have a task, for it to run again."""
    return float("inf") if task.retries < 0 else float(task.retries)


def _load(worker: Any) -> float:
    """How many tasks a worker of Dask's has for each of its threads, but those that lent theirs."""
    return float((len(worker.processing) - len(worker.long_running)) / max(worker.nthreads, 1))
