"""Adds a hint to NameError and ModuleNotFoundError raised on a worker.

Asks the notebook alone: it runs in the thread that reads the socket, too.
"""

from __future__ import annotations

import builtins
import importlib.util
from collections.abc import Mapping
from typing import Any

from workbench.errors import TaskError
from workbench.report.mistyped import did_you_mean


def explain(error: BaseException, variables: Mapping[str, Any]) -> None:
    """Add a note that says where the missing name or module would have come from.

    Only a task's error gets it, and only once. ``variables`` are the notebook's.
    """
    note = ""
    if not isinstance(error, TaskError) or not error.missing_name:
        return
    if isinstance(error, ModuleNotFoundError):
        note = _module(error.missing_name)
    elif isinstance(error, NameError):
        note = _name(error, error.missing_name, variables)
    if note and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _name(error: TaskError, name: str, variables: Mapping[str, Any]) -> str:
    in_cell = any(function == "<module>" for _, _, function, _ in error.frames)
    if name in variables and in_cell:
        return (
            f"The notebook has a variable {name!r}, but the cell isn't seen to read it: code in a "
            f"string is not looked at. Name it: `%%remote -i {name}`."
        )
    if name in variables:
        return f"The notebook has a variable {name!r}: give it to the function as an argument."
    if any(repr(name) in note for note in error.remote_notes):  # the worker found it in the store
        return ""
    known = [each for each in (*variables, *dir(builtins)) if not each.startswith("_")]
    hint = did_you_mean(name, known)
    return f"Neither the notebook nor the store has anything of the name {name!r}.{hint}"


def _module(name: str) -> str:
    """Only of a top-level module: to find one in a package, the package would be imported."""
    try:
        found = importlib.util.find_spec(name) if "." not in name else None
    except (ImportError, ValueError):
        return ""
    if found is None:
        return ""
    where = found.origin or next(iter(found.submodule_search_locations or ()), "")
    return (
        f"The notebook finds {name!r} at {where}. Was `sys.path` changed there? Remote cells get "
        "its changes, other tasks the `sys.path` with which the session began."
    )
