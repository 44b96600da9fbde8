"""Ray's errors as ours: in words for who never calls Ray."""

from __future__ import annotations

import ray

from workbench import errors
from workbench.errors import WorkbenchError

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
