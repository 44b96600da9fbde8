"""The errors for values that can't be pickled or not be loaded: where, why, what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.errors import SerializationError
from workbench.serialization import rebuilding
from workbench.serialization.arrays import Reducer
from workbench.serialization.inspection import FLATTEN, Failure, inspect, said

MOST_LOOKED_AT = 200_000
"""Objects searched for the cause before the error is raised: about a second."""

LONGEST_PATH = 300
"""Characters of a path; the middle is left out."""

MOST_SHOWN = 5
"""Failing parts listed in a message; all are in its ``failures``."""


def cannot_pickle(
    error: Exception, parts: Mapping[str, Any], reducers: Mapping[type, Reducer]
) -> SerializationError:
    """The error for a value that couldn't be serialized, and why: what the pickler raised.

    ``parts`` is the value under the name that people know it by, or its parts under theirs.
    """
    described = _described(error, parts, reducers)
    for note in getattr(error, "__notes__", ()):
        described.add_note(note)
    return described


def _described(
    error: Exception, parts: Mapping[str, Any], reducers: Mapping[type, Reducer]
) -> SerializationError:
    names = " or ".join(parts) if len(parts) < 4 else "Something"
    failures: list[Failure] = []
    for name, part in parts.items():
        failures += inspect(part, reducers, name, most=MOST_LOOKED_AT).failures
    if not failures:  # perhaps the C pickler recurses less deeply than the tracing one
        is_deep = isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError)
        advice = f". {FLATTEN}" if is_deep else ""
        return SerializationError(f"{names} can't be serialized: {said(error)}{advice}")
    first = failures[0].path
    if len(failures) == 1 and first in parts:
        head = f"{first} can't be serialized."
    else:
        owners = [name for name in parts if any(name in f.path for f in failures)]
        head = f"{' and '.join(owners) or names} can't be serialized, because of:"
    lines = [f"  {failure}" for failure in failures[:MOST_SHOWN]]
    if len(failures) > MOST_SHOWN:
        lines.append(f"  … and {len(failures) - MOST_SHOWN} more: the error's `failures`.")
    return SerializationError("\n".join([head, *lines]), failures)


def cannot_rebuild(
    error: Exception, stream: Any, buffers: Sequence[Any], name: str, side: str
) -> SerializationError:
    """The error for a stored value that can't be built in this process.

    The unpickler that raised is run again, slowly, to find the place. ``side`` is where the value
    should have been built.
    """
    path = rebuilding.where(stream, buffers, name)
    if len(path) > LONGEST_PATH:
        path = f"{path[: LONGEST_PATH // 2]} … {path[-LONGEST_PATH // 2 :]}"
    why = str(error) if isinstance(error, SerializationError) else f"{said(error)}."
    advice = ""
    if isinstance(error, ModuleNotFoundError):
        advice = (
            f" The module {error.name!r} can't be imported there: install it, or put its directory "
            "on PYTHONPATH before the session starts, or have it travel by value "
            "(`cloudpickle.register_pickle_by_value(module)`)."
        )
    elif isinstance(error, AttributeError | ImportError):
        advice = " The module there is another version than the one it was stored with."
    return SerializationError(f"{path} can't be rebuilt {side}: {why}{advice}")
