"""What becomes of tasks at Dask's scheduler: stopped, dropped, lost with a worker, run again or
not. On its event loop alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from workbench.engines.cluster.backend import TaskEnd
from workbench.engines.dask.actor_places import ActorPlaces
from workbench.engines.dask.kept_session import ClusterSession
from workbench.engines.dask.placement import Placement
from workbench.engines.dask.topics import key_of

QUEUED = ("waiting", "queued", "no-worker")
"""States of Dask's tasks that no worker has."""

LOST = (
    "the worker that had it has died. It may have begun there, and `max_retries` doesn't allow to "
    "run it again."
)

_decode_end = msgspec.msgpack.Decoder(TaskEnd).decode


class TaskFates:
    """See the module."""

    def __init__(
        self,
        scheduler: Any,
        sessions: Mapping[str, ClusterSession],
        places: ActorPlaces,
        placement: Placement,
    ) -> None:
        self._scheduler = scheduler
        self._sessions = sessions
        self._places = places
        self._placement = placement
        self._at_workers: set[str] = set()  # keys of tasks that workers have

    # -- questions ---------------------------------------------------------------------------------

    def withdraw(self, key: str) -> bool:
        """Drop a task that no worker has; whether that was so."""
        task = self._scheduler.tasks.get(key)
        if task is None or task.state not in QUEUED:
            return False
        self._dropped(key)
        return True

    def begun(self, key: str) -> bool:
        """Whether a worker has it, or it is over."""
        task = self._scheduler.tasks.get(key)
        return task is None or task.state not in QUEUED

    # -- messages ----------------------------------------------------------------------------------

    def ended(self, session: str, reply_to: int, end: list[Any], **_: Any) -> None:
        """A worker sends how a task ended, for who submitted it."""
        found = self._sessions.get(session)
        if found is not None:
            found.keeper.ended(_decode_end(end[2]))  # its process may have died without a word
            found.tell(reply_to, end)

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
                found = self._sessions.get(session)
                if number and found is not None and actor in found.actors:
                    self._places.skip(actor, found.actors[actor][2], submitter, number)
                self.unbegun(known.key, session, task)

    def _key_of(self, session: str, task: int) -> str:
        end = key_of(session, "", task).rpartition("-")[2]
        return next((key for key in self._scheduler.tasks if str(key).endswith(end)), "")

    def unbegun(self, key: str, session: str, task: int, **_: Any) -> None:
        """A task was stopped before it began; unless it is over by now."""
        known = self._scheduler.tasks.get(key)
        if known is not None and known.state == "memory":
            return
        found = self._sessions.get(session)
        if found is not None:
            found.keeper.ended(TaskEnd(task, "stopped", 0.0, 0, (True,), (None,)))
            found.tell_all(["cancelled", key])
        self._dropped(key)

    def drop(self, keys: list[str], **_: Any) -> None:
        """Nobody shall have these any more."""
        for key in keys:
            self._dropped(key)

    def _dropped(self, key: str) -> None:
        self._places.will_not_be_made(key)
        task = self._scheduler.tasks.get(key)
        if task is not None and task.who_wants:
            client = next(iter(task.who_wants)).client_key
            self._scheduler.stimulus_cancel(
                [key], client=client, force=True, reason="stopped", msg="It was stopped."
            )

    # -- what the scheduler tells ------------------------------------------------------------------

    def submitted(self, task: Any) -> None:
        """A task of ours is known from now on; no worker has it yet."""
        if not _is_bound(task):  # an actor's are told that it is gone
            # Dask gives up what more than so many workers died of.
            task.suspicious = self._scheduler.allowed_failures - _tries(task)

    def changed(self, key: str, id: int, start: str, finish: str, why: Any) -> None:
        """Called amid each transition of a task of ours. ``why`` is the text of its error."""
        if finish == "processing":
            self._at_workers.add(key)
            self._placement.changed()
            return
        known = self._scheduler.tasks.get(key)
        if known is None:
            return
        if finish == "memory":
            self._finished(known)
        elif finish == "released" and start == "memory" and known.run_spec is not None:
            known.suspicious += 1  # lost with its worker: to make it again is one of its tries
        if start == "processing":
            self._left_worker(known, id, finish)
        if finish == "erred":
            is_lost = known.suspicious > self._scheduler.allowed_failures
            error = LOST if is_lost else why or "Dask could not run it."
            self._failed(key, id, ["erred", key, str(error)])
        elif finish == "forgotten" and known.has_lost_dependencies:
            self._failed(key, id, ["lost", key])

    def _finished(self, task: Any) -> None:
        """What may not run again is from now on as what was stored: lost with who has it."""
        if _is_bound(task) or task.suspicious >= self._scheduler.allowed_failures:
            task.run_spec = None

    def _left_worker(self, task: Any, id: int, finish: str) -> None:
        was_there = task.key in self._at_workers
        self._at_workers.discard(task.key)
        self._placement.left(task.key)
        is_wanted = task.who_wants or task.waiters
        if finish in ("released", "forgotten") and was_there and not is_wanted:
            # Its process would go on. Of one that is wanted, it is tried elsewhere. All are told:
            # it may have been moved from the worker that got it.
            for address in self._scheduler.stream_comms:
                self._scheduler.worker_send(address, {"op": "workbench_abandon", "task": id})

    def _failed(self, key: str, id: int, said: list[str]) -> None:
        for session in self._sessions.values():
            session.keeper.ended(TaskEnd(id, "failed", 0.0, 0, (True,), (None,)))
            session.tell_all(said)


def _is_bound(task: Any) -> bool:
    """Whether one worker alone may have it: it is an actor's."""
    return bool(task.worker_restrictions) and not task.loose_restrictions


def _tries(task: Any) -> float:
    """How many workers may die while they have a task, for it to run again."""
    return float("inf") if task.retries < 0 else float(task.retries)
