"""A session on a Dask cluster: `cluster.backend.Backend` over a client of Dask's, by what anybody
may ask of one. Any thread.

Dask's own future says when a key is there, or is gone. How a task of ours ends is told before that,
behind all that it showed and with its results if they are small: nobody asks for those."""

from __future__ import annotations

import pickle
import secrets
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from concurrent import futures
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any

from workbench import errors
from workbench.engines.cluster import backend as seam
from workbench.engines.cluster.backend import Launch, Native, StoredValue, TaskEnd, encode
from workbench.engines.cluster.entries import wait_for
from workbench.engines.cluster.keeper import FREES, batch_of
from workbench.engines.cluster.work_thread import WorkThread
from workbench.engines.dask.abilities import CAN
from workbench.engines.dask.keys import (
    ANSWERS,
    DaskActor,
    DaskRef,
    Pair,
    TaskFailed,
    TaskValues,
    flat,
    id_of,
    key_of,
)
from workbench.engines.dask.slots import RunHead
from workbench.errors import ObjectLostError, SessionError, WorkbenchError, WorkerCrashedError

ALWAYS = 1 << 30  # so often Dask tries what is to be tried again always

LOST = "The connection to the Dask scheduler was lost: the session is over."


class KeyHold(futures.Future[None]):
    """One key: while this lives, Dask keeps it for this process, by its own ``future``. It is done
    when that is there, or never will be. ``found``: what of that is here; at least a task's end."""

    found: TaskValues | None = None

    def __init__(self, key: str, future: Any) -> None:
        super().__init__()
        self.key, self.future = key, future
        future.add_done_callback(partial(_is_done, weakref.ref(self)))

    def settle(self, error: WorkbenchError | None = None) -> None:
        """The first who says so counts."""
        with suppress(futures.InvalidStateError):
            self.set_result(None) if error is None else self.set_exception(error)


def _is_done(weak: weakref.ref[KeyHold], future: Any) -> None:
    """In Dask's thread for callbacks."""
    hold = weak()
    why: WorkbenchError | None = None
    if hold is None:
        return
    error = future.exception() if future.status == "error" else None
    if isinstance(error, TaskFailed):  # its own, or that of what it would be made from
        hold.found = hold.found or error.so
    elif error is not None:
        why = WorkerCrashedError(f"Dask gave the task up: {type(error).__name__}: {error}")
    elif future.status != "finished":  # Dask cancels all if it has lost the scheduler
        is_running = future.client.status == "running"
        why = lost(hold.key) if is_running else SessionError(LOST)
    hold.settle(why)


def lost(key: str) -> ObjectLostError:
    """Why somebody who holds a key has nothing."""
    name = key.rpartition("-")[0]
    what = "A stored value" if name == "put" else f"The result of `{name}`"
    why = "was freed, or is gone with the Dask worker that had it. Make it again."
    return ObjectLostError(f"{what} {why}")


class DaskBackend:
    """See the module. ``lends`` lends the slot of the task that this process runs; None in a
    driver. ``close_client``: it is ours to close. ``sink`` gets what comes, and can be set."""

    engine = "dask"
    process = ""  # Dask says itself who has gone
    can = CAN

    def __init__(
        self,
        connect: Callable[[], Any],
        session: str,
        joined: bool,
        address: str,
        lends: Callable[[], AbstractContextManager[None]] | None = None,
        close_client: bool = True,
    ) -> None:
        self.session, self.joined, self.address = session, joined, address
        self.blocks = lends is not None
        self.sink: seam.Sink = lambda messages: None
        self._lends = lends or nullcontext
        self._close_client = close_client
        self._connect = connect
        self._why: str | None = None
        self._lock = threading.Lock()
        self._client: Any = None
        self._holds: weakref.WeakSet[KeyHold] = weakref.WeakSet()
        self._news = WorkThread("workbench-dask")
        # Of tasks that aren't over: their key, whose call it is, and what they need.
        self._running: dict[int, tuple[KeyHold, DaskActor | None, Sequence[Native]]] = {}
        self._last: dict[int, DaskRef] = {}  # by actor, its last call from here: the next one waits
        self._dead: set[str] = set()  # keys of actors

    @property
    def client(self) -> Any:
        """A distributed.Client, made once it is needed: most tasks ask nothing."""
        with self._lock:
            if self._client is None:
                self._client = self._connect()
                self._client.subscribe_topic(ANSWERS, self._came)
            return self._client

    def hold(self, key: str, future: Any) -> KeyHold:
        hold = KeyHold(key, future)
        self._holds.add(hold)
        if self._why is not None:
            hold.settle(SessionError(self._why))
        return hold

    def of(self, ref: DaskRef) -> KeyHold:
        """Return what holds a native here: from now on, if nothing did."""
        if ref.hold is None:
            client = self.client
            from distributed import Future

            ref.hold = self.hold(ref.key, Future(ref.key, client))
            self.ask("want", ref.key)
        found: KeyHold = ref.hold
        return found

    @property
    def workers(self) -> int:
        return sum(self.client.nthreads().values()) if self.end_reason is None else 0

    def ask(self, question: str, *args: Any) -> Any:
        from workbench.engines.dask.scheduler import called

        asked = self.session, self.client.id, pickle.dumps((question, args))
        try:
            is_right, found = self.client.run_on_scheduler(called, "ask", asked)
        except Exception as error:
            said = f"Dask's scheduler doesn't answer: {type(error).__name__}: {error}"
            raise SessionError(self.end_reason or said) from error
        if not is_right:
            raise found
        return found

    def tell(self, question: str, *args: Any) -> None:
        with suppress(SessionError):
            self.ask(question, *args)

    def _came(self, event: tuple[float, Sequence[Any]]) -> None:
        """What our plugin says: on the client's event loop."""
        kind, *said = event[1]
        if kind == "end":
            self._found(*said)
        self._news.do(partial(self._heard, kind, *said))

    def _found(self, key: str, values: bytes) -> KeyHold | None:
        """Note how a task of ours has ended; return what holds it here."""
        running = self._running.get(id_of(key) or 0)
        if running is None:
            return None
        running[0].found = running[0].found or pickle.loads(values)
        return running[0]

    def _heard(self, kind: str, *said: Any) -> None:
        with suppress(Exception):  # of who is told: others are told all the same
            if kind == "messages":
                self.sink(batch_of(said[0]))
            elif kind == "freed":
                self.sink([seam.Message(0, FREES, encode(said[0]), 0, 0)])
            elif kind == "end" and (hold := self._found(*said)) is not None:
                hold.settle()
            elif kind == "actor":
                self._actor_gone(said[0])

    def listen(self, audience: int, sink: seam.Sink) -> None:
        self.sink = sink
        self.ask("listens", audience)

    def put(self, value: StoredValue, keep: bool) -> DaskRef:
        key, client = key_of(self.session, "put", secrets.randbits(64)), self.client
        try:
            if not client.scheduler_info()["workers"]:
                client.submit(bool, pure=False).result()  # it has one then; `scatter` gives up
            future = client.scatter({key: TaskValues(None, [value])}, hash=False)[key]
        except Exception as error:
            raise self._failed(error) from error
        hold = self.hold(key, future)
        hold.settle()
        if value.natives:
            self.contains(key, value.natives)
        return DaskRef(key, 1, hold)

    def contains(self, key: str, natives: Sequence[Native]) -> None:
        """What lies under a key refers to these; returns when that is known."""
        self.ask("contain", key, [ref.key for ref in flat(natives)])

    def get(self, natives: Sequence[DaskRef], timeout: float | None) -> list[StoredValue]:
        if not self.wait(natives, len(natives), timeout):
            raise TimeoutError
        holds = [self.of(native) for native in natives]
        self._bring(holds)
        found = [
            (values := hold.found.values)[min(native.index, len(values)) - 1]
            for native, hold in zip(natives, holds, strict=True)
            if hold.found is not None
        ]
        for ref in flat(native for value in found for native in value.natives):
            self.of(ref)  # before what refers to it is let go
        return found

    def _bring(self, holds: Sequence[KeyHold]) -> None:
        """Have the values of these here; raises why one can't be had."""
        for hold in holds:
            hold.result()
        absent = {h.key: h for h in holds if h.found is None or not h.found.values}
        try:
            gathered = self.client.gather([h.future for h in absent.values()]) if absent else []
        except Exception as error:
            gone = [h for h in absent.values() if h.future.status in ("cancelled", "lost")]
            is_lost = gone and not self.end_reason
            raise lost(gone[0].key) if is_lost else self._failed(error) from error
        for hold, values in zip(absent.values(), gathered, strict=True):
            hold.found = values

    def wait(self, natives: Sequence[DaskRef], enough: int, timeout: float | None) -> bool:
        holds = [self.of(native) for native in natives]
        if sum(hold.done() for hold in holds) >= enough:
            return True
        with self._lends():
            return wait_for(holds, enough, timeout)

    def on_ready(self, native: DaskRef, callback: Callable[[BaseException | None], None]) -> None:
        self.of(native).add_done_callback(lambda hold: callback(hold.exception()))

    def on_done(self, native: DaskRef, callback: Callable[[TaskEnd | BaseException], None]) -> None:
        def done(hold: Any) -> None:
            try:
                if hold.found is None:  # nobody told us
                    self._bring([hold])
                callback(hold.found.end)
            except WorkbenchError as error:
                callback(error)

        self.of(native).add_done_callback(done)

    def outlive(self, natives: Sequence[DaskRef]) -> list[DaskRef]:
        return list(natives)  # the keeper keeps them

    def free(self, ids: Sequence[int], natives: Sequence[Native]) -> None:
        self.ask("drop", [ref.key for ref in flat(natives)], list(ids))

    def submit(self, launch: Launch) -> list[DaskRef]:
        from workbench.engines.dask.worker import run_head  # brings distributed

        actor: DaskActor | None = launch.actor
        if actor is None and (launch.cpus != 1 or launch.memory):
            warnings.warn(CAN.needs, stacklevel=5)
        head, deps, inside = launch.head, launch.deps, launch.inside
        key, client = key_of(self.session, head.name, head.task), self.client
        retries = 0 if actor is not None else ALWAYS if head.retries < 0 else head.retries
        run = RunHead(head, tuple(inside))
        call = pickle.dumps((run, key, client.id, tuple(ref.index for ref in deps)))
        where, after = {}, []
        if actor is not None:
            where = {"workers": [actor.address], "allow_other_workers": False}
            after = [self._last.get(actor.actor, actor)] if head.task != actor.actor else []
        try:
            if inside and (launch.keep or actor is not None):  # an actor may keep them for good
                self.contains(key if actor is None else actor.key, inside)
            needs = [self.of(ref).future for ref in (*deps, *after)]
            hold = self.hold(
                key,
                client.submit(
                    run_head, call, *needs, key=key, pure=False, retries=retries, **where
                ),
            )
        except Exception as error:
            raise self._failed(error) from error
        self._running[head.task] = hold, actor, (*deps, *inside, actor)
        hold.add_done_callback(lambda _: self.forget(head.task))
        made = [DaskRef(key, index, hold) for index in range(head.returns + 1)]
        if actor is not None:
            self._last[actor.actor] = made[0]
            if actor.key in self._dead:
                self._actor_gone(actor.key)
        return made

    def forget(self, task: int) -> None:
        self._running.pop(task, None)

    def has_begun(self, task: int) -> bool:
        running = self._running.get(task)
        told = self.client.processing() if running is not None else {}
        return running is None or any(running[0].key in keys for keys in told.values())

    def _drop(self, holds: Sequence[KeyHold], why: str) -> None:
        """Have Dask drop what no worker has; but no calls of actors: others wait for these."""
        calls = [hold.key for hold, actor, _ in list(self._running.values()) if actor is not None]
        queued = [hold.future for hold in holds if hold.key not in calls]
        for hold in holds:
            hold.settle(errors.TaskCancelledError(why))
        if queued:
            self.client.cancel(queued, force=True, reason="stopped", msg=why)

    def stop(self, tasks: Sequence[int], force: bool) -> None:
        tasks = self.ask("unfinished", list(tasks))
        ran = self._run("stop_here", list(tasks), force)
        left = set(tasks).difference(*filter(None, ran.values()))
        for task in left:
            self.tell("ended", TaskEnd(task, "stopped"))
        holds = [self.of(DaskRef(key, 0)) for key in self.ask("keys_of", left)] if left else []
        self._drop(holds, "The task was stopped before it began.")

    def _run(self, function: str, *args: Any, **where: Any) -> dict[str, Any]:
        """Have all workers run a function of `worker`, or those that are named."""
        from workbench.engines.dask import worker

        found: dict[str, Any] = {}
        with suppress(Exception):  # one that is gone has nothing of ours
            run = self.client.run
            found = run(getattr(worker, function), *args, on_error="ignore", **where)
        return found

    def create(self, launch: Launch, described: DaskRef) -> Pair:
        if launch.cpus or launch.memory:
            warnings.warn(CAN.needs, stacklevel=5)
        if launch.restarts:
            warnings.warn(CAN.restarts, stacklevel=5)
        workers = self.client.nthreads()
        if not workers:
            raise WorkerCrashedError("The Dask cluster has no worker for an actor.")
        taken = [other.address for _, _, (other, _) in self.ask("living")]
        address = min(workers, key=lambda each: (taken.count(each), each))
        head = launch.head
        actor = DaskActor(key_of(self.session, head.name, head.actor), head.actor, address)
        if not self.ask("place", head.called, (actor, described), launch.keep):
            raise ValueError(f"Another actor is called {head.called!r}.")
        made = self.submit(launch._replace(actor=actor))
        actor.hold = made[0].hold
        return actor, made[0]

    def _actor_gone(self, key: str) -> None:
        self._dead.add(key)
        for hold, actor, _ in list(self._running.values()):
            if actor is not None and actor.key == key:
                why = "The actor's Dask worker is gone, and the actor with it."
                hold.settle(errors.ActorDiedError(why))

    def find_actor(self, name: str) -> tuple[int, Pair] | None:
        living: list[tuple[int, str, Pair]] = self.ask("living")
        return next(((id, pair) for id, taken, pair in living if taken == name), None)

    def actor_names(self) -> list[str]:
        return [taken for _, taken, _ in self.ask("living") if taken]

    def kill_actor(self, actor: DaskActor, restart: bool) -> None:
        self.ask("gone", actor.actor)
        self._run("end_here", actor.actor, workers=[actor.address])

    def parts(self) -> seam.ClusterParts:
        found: seam.ClusterParts = self.ask("parts")
        return found

    @property
    def end_reason(self) -> str | None:
        if self._why is None and self._client is not None and self._client.status != "running":
            self._end(LOST)
        return self._why

    def _end(self, why: str) -> None:
        """Nothing comes any more. The first reason counts."""
        self._why = self._why or why
        for hold in list(self._holds):
            hold.settle(SessionError(self._why))

    def _failed(self, error: Exception) -> WorkbenchError:
        """What a call of Dask's raised, as one of ours."""
        if isinstance(error, WorkbenchError):
            return error
        if self.end_reason is not None:
            return SessionError(self.end_reason)
        return WorkerCrashedError(f"Dask says: {type(error).__name__}: {error}")

    def close(self, goodbye: bool) -> None:
        if self._client is None:
            return
        if self.end_reason is None:
            with suppress(Exception):
                self.ask("leaves", goodbye)
        self._end("This process has left the session.")
        self._news.close()
        if self._close_client:
            self._client.close()
        self._running.clear()
