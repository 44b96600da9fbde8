"""What a Dask worker gets for our tasks: slots, actors, ways to stop them; and what Dask runs for
us in one of its threads: that has a child run a head, and passes on what the child says."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from typing import Any

from distributed import get_worker, rejoin, secede
from distributed.diagnostics.plugin import WorkerPlugin

from workbench.engines.cluster.backend import Message, StoredValue, TaskEnd, encode
from workbench.engines.cluster.parcels import refused
from workbench.engines.dask.keys import NAME, TaskFailed, TaskValues, id_of
from workbench.engines.dask.scheduler import quietly
from workbench.engines.dask.slots import ChildDied, HeadDone, RunHead, SlotChild, Slots
from workbench.options import Variables


class ActorGone(Exception):  # noqa: N818 - it is told to people in other words
    """The actor has ended: ``why``, said behind its class's name; ``value`` is what calls give."""

    def __init__(self, why: str = "has ended.", value: StoredValue | None = None) -> None:
        super().__init__(why)
        self.why, self.value = why, value


class ActorProcess:
    """One actor: a child of its own. Who has the ``turn`` calls it."""

    def __init__(self, child: SlotChild, session: str) -> None:
        self.child, self.session, self.turn = child, session, threading.Lock()
        self.gone: ActorGone | None = None


class WorkerSide:
    """What our code in a worker's threads has to do with the worker. Any thread."""

    def __init__(self, worker: Any, variables: Variables) -> None:
        self._worker = worker
        address = worker.scheduler.address
        self.scheduler = address, worker.security if address.startswith("tls") else None
        self.slots = Slots(worker.state.nthreads, variables)
        self.attempts: dict[int, Attempt] = {}  # tasks that a thread of this worker has
        self.early: set[int] = set()  # those that were stopped before they came
        self.actors: dict[int, ActorProcess] = {}

    def tell(self, *message: Any) -> None:
        """Tell our plugin at the scheduler, in order with how tasks end."""
        self._worker.log_event(NAME, message)

    def end_actor(self, id: int, gone: ActorGone) -> None:
        """End it for good, if it is here and hasn't ended."""
        actor = self.actors.get(id)
        if actor is None or actor.gone is not None:
            return
        actor.gone = gone
        self.tell("gone", actor.session, id)
        actor.child.kill()

        def release() -> None:
            with actor.turn:  # nobody reads what it says any more
                self.slots.release(actor.child)

        threading.Thread(target=release, name="workbench-end").start()

    def close(self) -> None:
        for id in list(self.actors):
            self.end_actor(id, ActorGone("died with its Dask worker."))
        for attempt in list(self.attempts.values()):
            attempt.stop(True)
        threading.Thread(target=self.slots.close, name="workbench-end").start()


class WorkbenchWorker(WorkerPlugin):  # type: ignore[misc]
    """Registered by each driver; the first one's stays. ``variables`` are those of all tasks."""

    name = NAME
    idempotent = True
    side: WorkerSide | None = None

    def __init__(self, variables: Variables = ()) -> None:
        self._variables = variables

    def setup(self, worker: Any) -> None:
        self.side = WorkerSide(worker, self._variables)

    @quietly()
    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """On the event loop. What nobody wants any more, Dask lets run on: we end it."""
        id = id_of(key) if finish in ("released", "forgotten") else None
        if id is None or self.side is None:
            return
        attempt = self.side.attempts.get(id)
        if start in ("executing", "long-running") and attempt is not None:
            attempt.abandon()
        elif start == "memory":
            self.side.end_actor(id, ActorGone("has ended: nobody had a handle of it."))

    def teardown(self, worker: Any) -> None:
        if self.side is not None:
            self.side.close()


def stop_here(tasks: list[int], force: bool, dask_worker: Any) -> list[int]:
    """Run at a worker by a client: stop those of these tasks that a thread has here; which?"""
    side = dask_worker.plugins[NAME].side
    found = {task: side.attempts[task] for task in tasks if task in side.attempts}
    side.early.update(set(tasks).difference(found))
    for attempt in found.values():
        attempt.stop(force)
    return list(found)


def end_here(actor: int, dask_worker: Any) -> None:
    """The same: end an actor."""
    dask_worker.plugins[NAME].side.end_actor(actor, ActorGone("was ended by kill()."))


def run_head(call: bytes, *values: TaskValues) -> TaskValues:
    """A Dask task. ``call`` is what an `Attempt` is of, pickled: Dask looks for nothing in it."""
    return Attempt(get_worker().plugins[NAME].side, *pickle.loads(call)).ran(values)


class Attempt:
    """One call of `run_head`: ``run`` has no values yet, ``picks`` are which of each dependency are
    meant. The end of the ``key`` is told to ``client``."""

    def __init__(
        self, side: WorkerSide, run: RunHead, key: str, client: str, picks: tuple[int, ...]
    ) -> None:
        self._side, self._run, self._head = side, run, run.head
        self._to, self._picks = (run.head.session, client, key), picks
        self._child: SlotChild | None = None
        self._has_thread = True  # of the worker's pool
        self._is_stopped = self._is_forced = False

    def ran(self, values: Sequence[TaskValues]) -> TaskValues:
        self._side.attempts[self._head.task] = self
        try:
            ended = self._ended(values)
        finally:
            del self._side.attempts[self._head.task]
        assert ended.end is not None
        self._side.tell("end", *self._to, ended.end.how, ended.told())
        return ended

    def _ended(self, values: Sequence[TaskValues]) -> TaskValues:
        head, side, name = self._head, self._side, self._head.name
        if head.task in side.early:
            return self._failed("stopped", "cancelled", f"`{name}` was stopped before it began.")
        picked = zip(values, self._picks, strict=False)
        given = tuple(each.values[number - 1] for each, number in picked)
        message = self._run._replace(values=given, scheduler=side.scheduler)
        try:
            done = (self._in_actor if head.actor else self._in_slot)(message)
            return TaskValues(done.end, done.values)
        except ActorGone as gone:
            said = f"{name.partition('.')[0]} {gone.why}"
            return self._failed("failed", "actor", said, value=gone.value)
        except ChildDied as died:
            more = head.origin, head.audience, head.job, died.worker
            left = [Message(*piece, *more) for piece in died.unsent if piece[0] == head.task]
            side.tell("shown", head.session, encode(left))
            if self._is_forced and not head.actor:
                return self._failed("stopped", "cancelled", f"`{name}` was stopped.")
            code = "actor" if head.actor else "crashed"
            ended = self._failed("failed", code, died.said(name), died.worker)
            if head.actor:
                return ended
            raise TaskFailed(ended) from None

    def _in_slot(self, message: RunHead) -> HeadDone:
        child, alive = self._side.slots.lease(), False
        try:
            done = self._in_child(child, message)
            alive = not done.leaves
            return done
        finally:
            self._side.slots.release(child, alive)

    def _in_actor(self, message: RunHead) -> HeadDone:
        """Calls of one submitter come one after the other: each needs what the last one made."""
        self._leave_pool()  # an actor has no slot
        id, side = self._head.actor, self._side
        is_made = self._head.task != id
        if not is_made:
            side.actors[id] = ActorProcess(side.slots.lease(), self._head.session)
        actor = side.actors.get(id)
        if actor is None:
            raise ActorGone
        with actor.turn:
            if actor.gone is not None:
                raise ActorGone(actor.gone.why, actor.gone.value)
            try:
                done = self._in_child(actor.child, message)
            except ChildDied:
                side.end_actor(id, ActorGone("died: its process has ended."))
                raise
        if done.leaves:
            side.end_actor(id, ActorGone("has ended itself."))
        elif not is_made and done.end.how != "done":
            side.end_actor(id, ActorGone("could not be made.", *done.values[:1]))
        return done

    def _in_child(self, child: SlotChild, message: RunHead) -> HeadDone:
        self._child = child
        return child.run(message, self._heard, lambda: self._is_stopped)

    def stop(self, force: bool) -> None:
        """Interrupt it, or kill its process. Any thread."""
        self._is_stopped, self._is_forced = True, self._is_forced or force
        if self._child is not None:
            self._child.stop(self._head.task, force)

    def abandon(self) -> None:
        """Nobody wants its result: kill its process, unless that is an actor's."""
        self.stop(self._head.actor in (0, self._head.task))

    def _heard(self, child: SlotChild, said: Any) -> None:
        """What a child says while it runs the task: see `slots`."""
        if type(said) is bytes:
            self._side.tell("shown", self._head.session, said)
        elif said:
            self._leave_pool()
        else:
            if not self._has_thread:
                rejoin()
                self._has_thread = True
            child.work.send("go on")

    def _leave_pool(self) -> None:
        """Others run meanwhile."""
        if self._has_thread:
            self._has_thread = False
            secede()

    def _failed(
        self, how: str, code: str, text: str, worker: int = 0, value: StoredValue | None = None
    ) -> TaskValues:
        n = self._head.returns
        end = TaskEnd(self._head.task, how, 0, (True,) * n, (None,) * n, worker)
        return TaskValues(end, [value or refused(code, text)] * max(n, 1))
