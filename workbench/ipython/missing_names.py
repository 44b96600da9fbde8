"""Hints about a missing name or module: in the notebook, in what it sends, or on a worker.

Asks only the notebook: it also runs in the thread that reads the socket.
"""

from __future__ import annotations

import builtins
import importlib.util
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from workbench import error_notes
from workbench.errors import NotDefinedError, TaskError, failure_of
from workbench.report import names as texts
from workbench.report.mistyped import did_you_mean


class StayedName(NamedTuple):
    """A name that a remote cell assigned, and that didn't come back."""

    cell: str  # the job's name
    kind: str  # see `CellNames.bound`
    actor: str = ""  # its namespace
    asked: bool = False  # True: a person named what comes back

    def text(self, name: str) -> str:
        """Return where the name stayed, and what to do."""
        return texts.stayed_text(name, self.cell, self.kind, self.actor, self.asked)


def missing(
    names: list[str],
    where: str,
    known: Iterable[Any],
    stayed: Mapping[str, StayedName] | None = None,
    outcome: str = "",
) -> NotDefinedError:
    """Return the error about undefined names, with similar known ones.

    ``stayed`` are names that remote cells kept; ``outcome`` says what didn't happen, if that could
    be in doubt: ``Nothing was sent.``
    """
    found = [stayed[name].text(name) for name in names if stayed and name in stayed]
    hint = " " + " ".join(found) if found else did_you_mean(names[0], known)
    return NotDefinedError(texts.undefined_text(names, where, hint, outcome))


def note_missing_name(
    error: BaseException, variables: Mapping[str, Any], stayed: Mapping[str, StayedName]
) -> None:
    """Add a note that says where the missing name or module would have come from, once.

    ``variables`` are the notebook's, ``stayed`` names that its remote cells didn't bring back. A
    local error gets a note only if it is about one of these.
    """
    name = _missing_name(error)
    if not name:
        return
    if isinstance(error, NameError) and name in stayed and name not in variables:
        error_notes.add(error, stayed[name].text(name))
    elif isinstance(error, TaskError) and isinstance(error, ModuleNotFoundError):
        error_notes.add(error, _module(name))
    elif isinstance(error, TaskError) and isinstance(error, NameError):
        error_notes.add(error, _name(error, name, variables))


def _missing_name(error: BaseException) -> str:
    if isinstance(error, TaskError):
        return failure_of(error).missing_name
    return (error.name or "") if isinstance(error, NameError) else ""


def _name(error: TaskError, name: str, variables: Mapping[str, Any]) -> str:
    in_cell = any(function == "<module>" for _, _, function, _ in failure_of(error).frames)
    if name in variables and in_cell:
        return texts.unseen_text(name)
    if name in variables:
        return texts.not_given_text(name)
    if any(repr(name) in note for note in failure_of(error).notes):
        return ""  # the worker found it in the store
    known = [each for each in (*variables, *dir(builtins)) if not each.startswith("_")]
    hint = did_you_mean(name, known)
    return texts.nowhere_text(name, hint)


def _module(name: str) -> str:
    """Word the note on a top-level module; looking for a submodule would import its package."""
    try:
        found = importlib.util.find_spec(name) if "." not in name else None
    except (ImportError, ValueError):
        return ""
    if found is None:
        return ""
    where = found.origin or next(iter(found.submodule_search_locations or ()), "")
    return texts.module_text(name, where)
