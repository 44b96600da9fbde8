"""Ray's errors as ours: in words for who never calls Ray."""

from __future__ import annotations

import ray

from workbench import errors
from workbench.errors import WorkbenchError


def translated(error: BaseException) -> WorkbenchError:
    """Ray's error as ours."""
    known = ray.exceptions
    if isinstance(error, WorkbenchError):
        return error
    if isinstance(error, known.TaskCancelledError):
        return errors.TaskCancelledError("The task was stopped before it began.")
    if isinstance(error, known.RayTaskError):
        cause = getattr(error, "cause", None)
        if isinstance(cause, BaseException):
            return translated(cause)
    if isinstance(error, known.ActorUnavailableError):
        return errors.ActorUnavailableError(
            "The actor's process can't be reached: it is being made again, or the network fails. "
            "The call may have run."
        )
    if isinstance(error, known.RayActorError):
        return errors.ActorDiedError(f"The actor's process has ended.{_cause(error)}")
    if isinstance(error, known.OutOfMemoryError):
        return errors.OutOfMemoryError(first_line(error))
    if isinstance(error, known.WorkerCrashedError | known.LocalRayletDiedError):
        return errors.WorkerCrashedError("The task's worker process has ended before the task.")
    if isinstance(error, known.NodeDiedError):
        return errors.WorkerCrashedError("The task's node has gone.")
    if isinstance(error, known.ObjectLostError):
        return _lost(error)
    if isinstance(error, known.ObjectStoreFullError):
        return errors.StoreFullError(first_line(error))
    return WorkbenchError(f"{type(error).__name__}: {first_line(error)}")


def _cause(error: BaseException) -> str:
    """Why an actor died, if Ray says more than that it did."""
    said = first_line(error)
    usual = "The actor died unexpectedly before finishing this task"
    return "" if not said or said.startswith(usual) else f" {said}"


def _lost(error: BaseException) -> errors.ObjectLostError:
    """Ray's own words for it are an id, and advice for who calls Ray."""
    known = ray.exceptions
    if isinstance(error, known.ObjectFreedError | known.ReferenceCountingAssertionError):
        return errors.ObjectFreedError("It was freed. Put it again if you need it.")
    if isinstance(error, known.OwnerDiedError):
        return errors.ObjectLostError(
            "The object is lost: the process that owned it has ended, or its node has gone, and on "
            "Ray objects end with their owner. Make it again. What has a name is the session's, "
            "and outlives who made it."
        )
    if isinstance(error, known.ObjectFetchTimedOutError):
        return errors.ObjectLostError(
            "Ray found no copy of the object in time. Try again; if that doesn't help, it is lost: "
            "make it again."
        )
    return errors.ObjectLostError(
        "The object is lost: the nodes that had copies of it have gone, and Ray couldn't make it "
        "again. Run again what made it."
    )


def first_line(error: BaseException) -> str:
    """What it says first."""
    return next((line for line in str(error).splitlines() if line.strip()), "")
