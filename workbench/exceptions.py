"""Ray's names for the errors in `errors`, for code that uses ``ray.exceptions``.

No class belongs here. Ray's errors that nothing here raises are in `ray_api`.
"""

from __future__ import annotations

from workbench.errors import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    ObjectFreedError,
    ObjectLostError,
    OutOfMemoryError,
    SessionError,
    SpillError,
    StoreFullError,
    TaskCancelledError,
    TaskError,
    WorkbenchError,
    WorkerCrashedError,
)

RayError = WorkbenchError
RayTaskError = TaskError
RayActorError = ActorDiedError
RaySystemError = SessionError
ObjectStoreFullError = StoreFullError
OutOfDiskError = SpillError

__all__ = [
    "ActorDiedError", "ActorUnavailableError", "GetTimeoutError", "ObjectFreedError",
    "ObjectLostError", "ObjectStoreFullError", "OutOfDiskError", "OutOfMemoryError",
    "RayActorError", "RayError", "RaySystemError", "RayTaskError", "TaskCancelledError",
    "WorkerCrashedError",
]  # fmt: skip


def __getattr__(name: str) -> object:
    from workbench.ray_api import IN_EXCEPTIONS, missing

    raise missing("module 'workbench.exceptions'", name, IN_EXCEPTIONS)
