"""The errors that failed objects stand for, by their headers: in our store and on a cluster."""

from __future__ import annotations

from workbench import errors
from workbench.serialization import codec

_REFUSALS: dict[str, type[errors.WorkbenchError]] = {
    "freed": errors.ObjectFreedError,
    "unknown": errors.ObjectLostError,
    "full": errors.StoreFullError,
    "crashed": errors.WorkerCrashedError,
    "memory": errors.OutOfMemoryError,
    "timeout": errors.TaskTimeoutError,
    "nested": errors.NestingError,
    "cancelled": errors.TaskCancelledError,
    "actor": errors.ActorDiedError,
    "unavailable": errors.ActorUnavailableError,
}
"""Exception types of the core's error codes. The core supplies the texts."""


def failure_of(header: bytes) -> BaseException:
    if header[:1] != b"!":
        return errors.task_error(codec.deserialize_inline(header))
    code, _, text = header[1:].decode().partition("\n")
    code, _, actor = code.partition(" ")
    error = _REFUSALS.get(code, errors.WorkbenchError)(text)
    if actor and isinstance(error, errors.ActorDiedError):
        error.actor_id = actor
    return error
