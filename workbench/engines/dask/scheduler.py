"""What Dask's scheduler gets for our sessions: a keeper each, so that names, background cells and
what these showed outlive the kernel; and the ways of messages between drivers and workers.

A guest: it hears Dask's events, asks for keys of ours alone, and raises nothing into Dask. All of
it runs on the scheduler's event loop."""

from __future__ import annotations

import io
import logging
import pickle
import secrets
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

from workbench.core.snapshot import INCARNATION, WorkerRecord
from workbench.engines.cluster.backend import ClusterParts, TaskEnd
from workbench.engines.cluster.keeper import Keeper
from workbench.engines.dask.keys import ANSWERS, NAME, DaskActor, DaskRef, Pair, id_of

LOOK = 2.0  # seconds after which it is looked again whether a session without drivers is over
MOST_LOGGED = 32 << 20  # bytes of our events that Dask's log of them may have


@contextmanager
def quietly() -> Iterator[None]:
    """What is raised is logged, and nobody else's."""
    try:
        yield
    except Exception:
        logging.getLogger("workbench.dask").exception("Workbench's plugin failed")


class KeptKeys:
    """Keys that are kept in a session's ``name``: to Dask, that is a client which wants them."""

    def __init__(self, scheduler: Any, name: str) -> None:
        self._scheduler = scheduler
        self._name = name
        self._counts: Counter[str] = Counter()
        self._inside: dict[str, list[str]] = {}  # key → keys that its value refers to
        self._early: dict[str, set[str]] = {}  # key that is yet to come → who wants it

    def keep(self, key: str) -> None:
        """Keep it until it was released as often."""
        self._counts[key] += 1
        if self._counts[key] == 1:
            self._early.setdefault(key, set()).add(self._name)
            self.came([key] if key in self._scheduler.tasks else [])

    def release(self, key: str, count: int = 1) -> None:
        self._counts[key] -= count
        if self._counts[key] <= 0:
            del self._counts[key]
            wanting = self._early.pop(key, set()) - {self._name}
            if wanting:  # a process does, and it is yet to come
                self._early[key] = wanting
            if key in self._scheduler.tasks and self._name in self._scheduler.clients:
                self._scheduler.client_releases_keys([key], self._name)

    def want(self, key: str, client: str) -> bool:
        """Have a client hold a key; False if there is none, and nobody has said it will come."""
        is_there = key in self._scheduler.tasks
        if is_there or key in self._early:
            self._early.setdefault(key, set()).add(client)
            self.came([key] if is_there else [])
        return is_there or key in self._early

    def came(self, keys: Iterable[str]) -> None:
        """The scheduler knows these."""
        for key in self._early.keys() & set(keys):
            for client in self._early.pop(key):
                if client == self._name or client in self._scheduler.clients:
                    self._scheduler.client_desires_keys([key], client)

    def contain(self, key: str, inside: Iterable[str]) -> None:
        """The value of that key refers to these: they live as long as it."""
        for each in inside:
            self._inside.setdefault(key, []).append(each)
            self.keep(each)

    def forgotten(self, key: str) -> None:
        """The value is gone. Called amid a transition: Dask must be through with that first."""
        for each in self._inside.pop(key, ()):
            self._scheduler.loop.add_callback(self.release, each)

    def close(self) -> None:
        self._scheduler.remove_client(self._name)


class ClusterSession:
    """One session. Processes ask its keeper, by a method's name, or one of ``_answers``."""

    def __init__(self, name: str, plugin: WorkbenchScheduler) -> None:
        self.name = name
        self.keys = KeptKeys(plugin.scheduler, f"workbench-{name}")
        self.keeper = Keeper(time.monotonic, self._woken)
        self.processes: dict[str, int] = {}  # by Dask's client, which driver it is (0: a task)
        self.actors: dict[int, tuple[str, Pair]] = {}  # full name, natives that keep detached ones
        self._plugin = plugin
        self._answers: dict[str, Callable[..., Any]] = {
            "listens": self.processes.__setitem__,
            "leaves": lambda client, goodbye: plugin.left(self, client, goodbye),
            "want": self._want,
            "contain": lambda client, key, inside: self.keys.contain(key, inside),
            "drop": self._drop,
            "place": self._place,
            "living": lambda client: [(id, *each) for id, each in self.actors.items()],
            "gone": lambda client, actor: self.actors.pop(actor, None) and None,
            "keys_of": self._keys_of,
            "parts": lambda client: plugin.parts(),
        }

    def _woken(self, audience: int) -> None:
        batch = self.keeper.take(audience)
        for client in [c for c, each in self.processes.items() if batch and each == audience]:
            self._plugin.tell(client, "messages", batch)

    def call(self, client: str, call: bytes) -> tuple[bool, Any]:
        """Do what a process asks: (True, what comes of that), or (False, what it raises)."""
        self.processes.setdefault(client, 0)
        try:
            question, args = _QuestionReader(call, self._kept).load()
            ours = self._answers.get(question)
            return True, ours(client, *args) if ours else self.keeper.ask(question, *args)
        except Exception as error:
            return False, error

    def _kept(self, key: str) -> Any:
        """Return what keeps the key while it lives."""
        kept, loop = (lambda: key), self._plugin.scheduler.loop
        self.keys.keep(key)
        weakref.finalize(kept, loop.add_callback, quietly()(self.keys.release), key)
        return kept

    def _want(self, client: str, key: str) -> None:
        if not self.keys.want(key, client):
            self._plugin.scheduler.client_send(client, {"op": "cancelled-keys", "keys": [key]})

    def _drop(self, client: str, keys: list[str], ids: list[int]) -> None:
        """Nobody shall have these any more: each process lets go of them."""
        for process in self.processes:
            self._plugin.tell(process, "freed", ids)
        for key in keys:
            self.keys.release(key, 1 << 60)

    def _place(self, client: str, name: str, pair: Pair, detached: bool) -> bool:
        """A new actor comes; False if another has its name."""
        if name and any(each[0] == name for each in self.actors.values()):
            return False
        # What its handles keep is kept by nothing here.
        self.actors[pair[0].actor] = name, pair if detached else pickle.loads(pickle.dumps(pair))
        return True

    def _keys_of(self, client: str, tasks: set[int]) -> list[str]:
        """Return the keys of these tasks, as far as they aren't over."""
        all_tasks = self._plugin.scheduler.tasks.items()
        return [key for key, ts in all_tasks if ts.state != "memory" and id_of(key) in tasks]


class _QuestionReader(pickle.Unpickler):
    """Has each native keep its key while it lives here."""

    def __init__(self, data: bytes, kept: Callable[[str], Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._kept = kept

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if found in (DaskRef, DaskActor):
            return lambda key, *more: found(key, *more, self._kept(key))
        return found


class WorkbenchScheduler(SchedulerPlugin):  # type: ignore[misc]
    name = NAME
    idempotent = True
    scheduler: Any

    def __init__(self) -> None:
        self.sessions: dict[str, ClusterSession] = {}
        self._logged = 0

    async def start(self, scheduler: Any) -> None:
        self.scheduler = scheduler

    def ask(self, session: str, client: str, call: bytes) -> tuple[bool, Any]:
        """See `ClusterSession.call`. KeyError if there is no such session."""
        return self.sessions[session].call(client, call)

    def open(self, session: str, client: str) -> tuple[str, bool]:
        """A process comes: (the session's unique name, whether it was there)."""
        begin = session + INCARNATION
        found = next((s for n, s in self.sessions.items() if n.startswith(begin)), None)
        joined = found or ClusterSession(begin + secrets.token_hex(4), self)
        self.sessions[joined.name] = joined
        joined.processes[client] = 0
        return joined.name, found is not None

    def tell(self, client: str, *message: Any) -> None:
        """Send something to a process: as an event of Dask's, which isn't logged."""
        event = time.time(), message
        self.scheduler.client_send(client, {"op": "event", "topic": ANSWERS, "event": event})

    @quietly()
    def log_event(self, topic: str, msg: Any) -> None:
        if topic != NAME or not msg:
            return
        kind, name, *rest = msg
        session = self.sessions.get(name)
        if session is None:
            return
        if kind == "shown":
            session.keeper.push(*rest)
        elif kind == "end":
            client, key, how, end = rest
            self.tell(client, "end", key, end)
            # Its process may have died without a word; what it showed was sent.
            session.keeper.ended(TaskEnd(id_of(key) or 0, how), True)
        elif kind == "gone":
            session.actors.pop(rest[0], None)
        self._logged += len(rest[-1]) if isinstance(rest[-1], bytes) else 0
        if self._logged > MOST_LOGGED:
            self.scheduler.loop.add_callback(self._clear_log)

    @quietly()
    def _clear_log(self) -> None:
        """Dask remembers so many events of each topic: put empty ones there."""
        self._logged = 0
        for _ in self.scheduler.get_events(NAME):
            self.scheduler.log_event(NAME, None)

    def left(self, session: ClusterSession, client: str, goodbye: bool) -> None:
        audience = session.processes.pop(client, 0)
        if audience in session.keeper.processes() and not session.keeper.leave(audience):
            self.scheduler.loop.add_callback(self._end_if_due, session, goodbye)

    async def _end_if_due(self, session: ClusterSession, goodbye: bool) -> None:
        """End a session whose last driver has gone: now, or when it is time. Nothing of it stays;
        with the last one nothing of us."""
        if self.sessions.get(session.name) is not session or session.keeper.drivers():
            return
        left = 0.0 if goodbye else session.keeper.seconds_left()
        if left is None or left > 0:
            later = LOOK if left is None else min(left, LOOK)
            self.scheduler.loop.call_later(later, self._end_if_due, session, False)
            return
        del self.sessions[session.name]
        session.keys.close()
        if not self.sessions:
            self._clear_log()
            with suppress(Exception):  # the cluster is closing, too
                await self.scheduler.unregister_scheduler_plugin(NAME)
                await self.scheduler.unregister_worker_plugin(None, NAME)

    def parts(self) -> ClusterParts:
        """Return what the cluster has: a worker is a slot that runs tasks, as on one machine."""
        told: list[WorkerRecord] = []
        waiting, limit, used = [*self.scheduler.queued, *self.scheduler.unrunnable], 0, 0
        for ws in self.scheduler.workers.values():
            ours = [ts for ts in ws.processing if id_of(ts.key) and ts not in ws.long_running]
            waiting += ours[ws.nthreads :]
            for place in range(ws.nthreads):
                names = tuple(ts.prefix.name for ts in ours[place : place + 1])
                state = "busy" if names else "idle"
                told.append(WorkerRecord(len(told) + 1, ws.pid, state, names, host=ws.host))
            limit, used = limit + (ws.memory_limit or 0), used + ws.metrics.get("memory", 0)
        return ClusterParts(
            tuple(told),
            limit or None,
            max(limit - used, 0) if limit else None,
            len([ts for ts in waiting if id_of(ts.key)]),
            len([w for w in told if w.tasks]),
        )

    @quietly()
    def update_graph(self, scheduler: Any, *, tasks: Any = (), **_: Any) -> None:
        for session in self.sessions.values():
            session.keys.came(tasks)

    @quietly()
    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Called for each change of any key there is."""
        if finish not in ("forgotten", "erred") or (id := id_of(key)) is None:
            return
        for session in self.sessions.values():
            if finish == "forgotten":
                session.keys.forgotten(key)
            else:  # what it showed was sent, unless its Dask worker died
                is_whole = "TaskFailed" in str(kwargs.get("exception_text"))
                session.keeper.ended(TaskEnd(id, "failed"), is_whole)

    @quietly()
    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
        for session in self.sessions.values():
            for actor in [actor for _, (actor, _) in session.actors.values()]:
                for process in session.processes if actor.address == worker else ():
                    session.actors.pop(actor.actor, None)
                    self.tell(process, "actor", actor.key)

    @quietly()
    def remove_client(self, scheduler: Any, client: str) -> None:
        """A process has gone, perhaps without a word: what it left behind is kept."""
        for session in [s for s in self.sessions.values() if client in s.processes]:
            self.left(session, client, False)


def called(method: str, args: tuple[Any, ...], dask_scheduler: Any) -> Any:
    """Run at the scheduler, by a client or a worker: call a method of our plugin."""
    return getattr(dask_scheduler.plugins[NAME], method)(*args)
