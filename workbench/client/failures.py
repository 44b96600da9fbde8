"""Errors decided by the core → exceptions. The texts come from where the decision was made."""

from __future__ import annotations

from workbench import errors

_TYPES: dict[str, type[errors.WorkbenchError]] = {
    "freed": errors.ObjectFreedError,
    "unknown": errors.ObjectLostError,
    "crashed": errors.WorkerCrashedError,
    "memory": errors.OutOfMemoryError,
    "timeout": errors.TaskTimeoutError,
    "cancelled": errors.TaskCancelledError,
    "actor": errors.ActorDiedError,
}


def refusal_error(header: bytes) -> errors.WorkbenchError:
    """The exception for a header ``!code\\ntext``."""
    code, _, text = header[1:].decode().partition("\n")
    return _TYPES.get(code, errors.WorkbenchError)(text)
