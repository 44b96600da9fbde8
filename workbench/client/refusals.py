"""The errors that failed objects stand for, by their headers: in our store and on a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from workbench import errors
from workbench.engine.queries import Places
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


_REF = re.compile(r"ObjectRef\(([0-9a-f]{16})\)")


def failure_of(header: bytes, held: Callable[[], Mapping[int, Places]] = dict) -> BaseException:
    """Return the error that a failed object with this header stands for.

    ``held`` returns which variables of this process hold objects: a ref in the text is named so.
    """
    if header[:1] != b"!":
        return errors.task_error(codec.deserialize_inline(header))
    code, _, text = header[1:].decode().partition("\n")
    code, _, actor = code.partition(" ")
    if code in ("freed", "unknown"):
        text = _REF.sub(partial(_as_known, held()), text)
    error = _REFUSALS.get(code, errors.WorkbenchError)(text)
    if actor and isinstance(error, errors.ActorDiedError):
        error.actor_id = actor
    return error


def _as_known(held: Mapping[int, Places], ref: re.Match[str]) -> str:
    from workbench.report.facts import variables_of  # late: only errors need it

    places = held.get(int(ref[1], 16), ())
    names = [(path.partition(" in ")[0], note) for path, note in places]
    return f"`{variables_of(names).partition(', ')[0]}`" if names else ref[0]
