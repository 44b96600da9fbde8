"""RayBackend: `engines.cluster.backend.Backend` by what Ray has; and Ray's errors as ours, in words
for who never calls Ray."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ray

from workbench import errors
from workbench.core.snapshot import INCARNATION
from workbench.engine.records import Abilities
from workbench.engines.cluster.abilities import CAN
from workbench.engines.cluster.backend import (
    ClusterParts,
    Launch,
    Native,
    Sink,
    StoredValue,
    TaskEnd,
)
from workbench.engines.cluster.entries import of_object
from workbench.engines.cluster.keeper import batch_of
from workbench.engines.cluster.kept_jobs import end_of
from workbench.engines.cluster.work_thread import WorkThread
from workbench.errors import SessionError, WorkbenchError

NAMESPACE = "workbench"
"""Ray's, of all actors of ours that have a name."""


def name_of(session: str) -> str:
    """Under which name Ray knows the supervisor of a session, by its name or its unique one."""
    return f"workbench:{session.partition(INCARNATION)[0]}"


AGAIN = 0.5
"""Seconds after which somebody is asked again who can't be reached."""

REACH = 60.0
"""Seconds for which that is tried, unless who asks says how long."""

LEAVE = 10.0
"""Seconds that leaving may take."""


def cancel(native: Native, force: bool) -> None:
    """Have Ray drop a task that is queued; with ``force`` end its process too, if it runs."""
    with contextlib.suppress(Exception):
        try:
            ray.cancel(native, force=force)
        except ValueError:  # an actor's call can't be ended by force
            ray.cancel(native, force=False)


def actors_of(session: str) -> list[str]:
    """The names that actors of that session have in it."""
    mine = f"{session}/"
    found: Any = ray.util.list_named_actors(all_namespaces=True)
    return [
        each["name"].removeprefix(mine)
        for each in found
        if each["namespace"] == NAMESPACE and each["name"].startswith(mine)
    ]


_FREED = "It was freed. Put it again if you need it."

_ENDED = "The task's worker process has ended before the task."

# Of two that are of one class the first counts. '' stands for Ray's own words; of lost objects
# these are an id, and advice for who calls Ray.
_OURS: tuple[tuple[str, type[WorkbenchError], str], ...] = (
    ("TaskCancelledError", errors.TaskCancelledError, "The task was stopped before it began."),
    ("ActorUnavailableError", errors.ActorUnavailableError,
     "The actor's process can't be reached: it is being made again, or the network fails. The "
     "call may have run."),
    ("OutOfMemoryError", errors.OutOfMemoryError, ""),
    ("WorkerCrashedError", errors.WorkerCrashedError, _ENDED),
    ("LocalRayletDiedError", errors.WorkerCrashedError, _ENDED),
    ("NodeDiedError", errors.WorkerCrashedError, "The task's node has gone."),
    ("ObjectFreedError", errors.ObjectFreedError, _FREED),
    ("ReferenceCountingAssertionError", errors.ObjectFreedError, _FREED),
    ("OwnerDiedError", errors.ObjectLostError,
     "The object is lost: the process that owned it has ended, or its node has gone, and on Ray "
     "objects end with their owner. Make it again. What has a name is the session's, and outlives "
     "who made it."),
    ("ObjectFetchTimedOutError", errors.ObjectLostError,
     "Ray found no copy of the object in time. Try again; if that doesn't help, it is lost: make "
     "it again."),
    ("ObjectLostError", errors.ObjectLostError,
     "The object is lost: the nodes that had copies of it have gone, and Ray couldn't make it "
     "again. Run again what made it."),
    ("ObjectStoreFullError", errors.StoreFullError, ""),
)  # fmt: skip


def translated(error: BaseException) -> WorkbenchError:
    if isinstance(error, WorkbenchError):
        return error
    cause = getattr(error, "cause", None)
    if isinstance(error, ray.exceptions.RayTaskError) and isinstance(cause, BaseException):
        return translated(cause)
    said = first_line(error)
    for name, ours, words in _OURS:
        if isinstance(error, getattr(ray.exceptions, name)):
            return ours(words or said)
    if isinstance(error, ray.exceptions.RayActorError):
        usual = "The actor died unexpectedly before finishing this task"
        why = "" if not said or said.startswith(usual) else f" {said}"
        return errors.ActorDiedError(f"The actor's process has ended.{why}")
    return WorkbenchError(f"{type(error).__name__}: {said}")


def first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "")


class RayBackend:
    """See the module. ``calls`` is what Ray runs for us: the module of that name."""

    engine = "ray"
    can: Abilities = CAN

    def __init__(
        self, session: str, supervisor: Any, calls: Any, joined: bool, blocks: bool
    ) -> None:
        self.session = session
        self._remote = calls
        self.joined = joined
        self.blocks = blocks
        self._supervisor = supervisor
        context = ray.get_runtime_context()
        self.process, self.address = str(context.get_job_id()), str(context.gcs_address)
        self._says = WorkThread("workbench-says")
        self._results = WorkThread("workbench-results")
        self._behind: list[Callable[[], object]] = []  # what the next news come before
        self._audience = 0
        self._listens = False  # to what tasks show
        self.busy = threading.Event()  # else it needn't
        self.busy.set()
        self.runs: Callable[[], Sequence[int]] = tuple  # which tasks
        self._ends: dict[int, Native] = {}  # of tasks of ours that aren't over
        self._over: str | None = None
        self._closed = False
        self.leaves_ray = False  # True if this process came to Ray only for the session

    @property
    def workers(self) -> int:
        return int(ray.cluster_resources().get("CPU", 0))

    # -- objects ------------------------------------------------------------------------------

    def put(self, stored: StoredValue, keep: bool) -> Native:
        try:
            if keep:
                stored = stored._replace(natives=tuple(self.outlive(stored.natives)))
                return ray.get(self._supervisor.put.remote(stored))[0]
            return ray.put(stored)
        except ray.exceptions.RayError as error:
            raise translated(error) from None

    def get(self, natives: Sequence[Native], timeout: float | None) -> list[StoredValue]:
        try:
            return list(ray.get(list(natives), timeout=timeout))
        except ray.exceptions.GetTimeoutError:
            raise TimeoutError from None
        except ray.exceptions.RayError as error:
            raise translated(error) from None

    def wait(self, natives: Sequence[Native], enough: int, timeout: float | None) -> None:
        ray.wait(list(natives), num_returns=enough, timeout=timeout, fetch_local=False)

    def on_ready(self, native: Native, callback: Callable[[BaseException | None], None]) -> None:
        def ready(future: Any) -> None:
            error = future.exception()
            callback(None if error is None else translated(error))

        self._when_done(native, ready)

    def on_done(self, native: Native, callback: Callable[[TaskEnd | BaseException], None]) -> None:
        self._when_done(native, partial(self._ended, callback))

    def _when_done(self, native: Native, callback: Callable[[Any], None]) -> None:
        """In a thread of ours: Ray's own must not wait for anything."""
        native.future().add_done_callback(
            lambda future: self._results.do(partial(callback, future))
        )

    def _ended(self, callback: Callable[[TaskEnd | BaseException], None], future: Any) -> None:
        error = future.exception()
        end = end_of(future.result()) if error is None else translated(error)
        if isinstance(end, TaskEnd) and end.shown and self._listens:
            self._behind.append(partial(callback, end))  # what it showed waits for us
            self.tell("wake", self._audience)
        else:
            callback(end)

    def outlive(self, natives: Sequence[Native]) -> list[Native]:
        """Objects die with their owner on Ray: these become the supervisor's."""
        if not natives:
            return []
        plain = list(dict.fromkeys(map(of_object, natives)))
        there = set(ray.wait(plain, num_returns=len(plain), timeout=0, fetch_local=False)[0])
        flags = [each in there for each in plain]
        made = self._answer(partial(self._supervisor.outlive.remote, plain, flags))
        known = dict(zip(plain, made, strict=True))
        return [
            (each[0], known[each[1]]) if type(each) is tuple else known[each] for each in natives
        ]

    def free(self, ids: Sequence[int], natives: Sequence[Native]) -> None:
        """Ray frees an object with its last ref, wherever that is: all are told to drop theirs."""
        self.ask("free", list(ids), self._audience)

    # -- tasks --------------------------------------------------------------------------------

    def submit(self, launch: Launch) -> list[Native]:
        if launch.keep:
            self.settle()
            return list(ray.get(self._supervisor.submit.remote(launch)))
        made = list(self._remote.submit(launch))
        self._ends[launch.head.task] = made[0]
        return made

    def forget(self, task: int) -> None:
        self._ends.pop(task, None)

    def has_begun(self, task: int) -> bool:
        return task not in self._ends or not self._queued([task])

    def _queued(self, tasks: Sequence[int]) -> list[int]:
        """Those of these that surely no process runs. Code that holds the interpreter keeps one
        from saying what it runs."""
        running, silent = self._answer(self._supervisor.running.remote)
        lives = self._remote.living(list(silent.values()))
        for prefix, is_there in zip(silent, lives, strict=True):
            if not is_there:
                self.ask("rests", prefix)
        return [] if any(lives) else [task for task in tasks if task not in running]

    def stop(self, tasks: Sequence[int], force: bool) -> None:
        """Have each process stop what it runs, or will: Ray's own word doesn't end a sleep, and
        after it nothing is killed any more."""
        tasks = self.ask("unfinished", list(tasks))
        if force:
            self._drop(tasks, True)
            self.ask("stop", tasks, True)  # of actors' calls Ray itself ends none so
        else:
            self.ask("stop", tasks, False)
            self._drop(self._queued(tasks), False)

    def _drop(self, tasks: Sequence[int], force: bool) -> None:
        self._answer(partial(self._supervisor.drop.remote, tasks, force))
        for native in filter(None, map(self._ends.get, tasks)):
            cancel(native, force)

    # -- actors -------------------------------------------------------------------------------

    def create(self, launch: Launch, described: Native) -> tuple[Native, Native]:
        name = self._full(launch.head.called) if launch.head.called else ""
        made: tuple[Native, Native] = self._remote.create(launch, described, name, NAMESPACE)
        return made

    def _full(self, name: str) -> str:
        return f"{self.session}/{name}"

    def find_actor(self, name: str) -> tuple[int, Native] | None:
        try:
            actor = ray.get_actor(self._full(name), namespace=NAMESPACE)
            id, described = ray.get(actor.described.remote())
        except (ValueError, ray.exceptions.RayActorError):
            return None
        return id, (actor, ray.put(described))

    def actor_names(self) -> list[str]:
        return actors_of(self.session)

    def kill_actor(self, actor: Native, restart: bool) -> None:
        ray.kill(actor, no_restart=not restart)

    # -- the keeper and the channel -----------------------------------------------------------

    def ask(self, question: str, *args: Any) -> Any:
        try:
            self.settle()
            return self._answer(partial(self._supervisor.ask.remote, question, args))
        except ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from None

    def _answer(self, call: Callable[[], Native], timeout: float | None = None) -> Any:
        """What the supervisor answers. One that can't be reached lives: it is asked again, which
        has to do no harm."""
        end = time.monotonic() + (REACH if timeout is None else timeout)
        while True:
            try:
                return ray.get(call(), timeout=timeout)
            except ray.exceptions.ActorUnavailableError as error:
                if time.monotonic() > end or self._closed:
                    raise errors.ActorUnavailableError(
                        "The session's supervisor can't be reached, perhaps because of the "
                        "network. The session lives on: try again."
                    ) from error
                time.sleep(AGAIN)
            except ray.exceptions.RayActorError as error:
                self._over = self._over or "The session has ended: its supervisor is gone."
                raise SessionError(self._over) from error

    def tell(self, question: str, *args: Any) -> None:
        """Each when the one before was heard: Ray itself may begin an actor's calls in another
        order."""

        def say() -> None:
            with contextlib.suppress(Exception):  # also if this process has left Ray
                ray.get(self._supervisor.ask.remote(question, args))

        self._says.do(say)

    def settle(self) -> None:
        """Return when the supervisor has heard all that this process told it."""
        self._says.finish()

    def listen(self, audience: int, sink: Sink) -> None:
        self._audience, self._listens = audience, not self.blocks
        name = "workbench-channel"
        threading.Thread(target=self._listen, args=(sink,), name=name, daemon=True).start()

    def _listen(self, sink: Sink) -> None:
        try:
            self._hear(sink)
        finally:  # nothing more comes
            self._listens = False
            for tell in self._behind:
                tell()

    def _poll(self, number: int, at_once: bool) -> Native:
        return self._supervisor.poll.remote(self._audience, number, at_once, self.runs())

    def _hear(self, sink: Sink) -> None:
        number = 0
        while self.end_reason is None:
            behind = len(self._behind)
            try:
                if not self.busy.is_set():
                    self.ask("rests", self._audience)  # before it may listen again
                    self.busy.wait()
                batch = self._answer(partial(self._poll, number, behind > 0))
            except errors.ActorUnavailableError:
                continue
            except SessionError:
                return
            except Exception as error:
                if self.end_reason is None:  # or its end is what that is about
                    self._over = f"The session is over for this process: {first_line(error)}"
                return
            number += 1
            if batch and self.end_reason is None:
                sink(batch_of(batch))
            for tell in self._behind[:behind]:
                tell()
            del self._behind[:behind]

    def parts(self) -> ClusterParts:
        total, left = ray.cluster_resources(), ray.available_resources()
        store = total.get("object_store_memory")
        free = left.get("object_store_memory", 0)
        return ClusterParts(self.ask("workers"), None if store is None else int(store), int(free))

    @property
    def end_reason(self) -> str | None:
        if self._over is None and not ray.is_initialized():
            self._over = "This process has left the Ray cluster."
        return self._over

    def close(self, goodbye: bool) -> None:
        if self._closed:
            return
        self._closed = True
        was_over, self._over = self._over, self._over or "The session was shut down."
        if was_over is None:
            with contextlib.suppress(Exception):
                leave = self._supervisor.leave.remote
                self._answer(partial(leave, self._audience, goodbye), LEAVE)
        self._says.close()
        self._results.close()
        if self.leaves_ray:
            ray.shutdown()
