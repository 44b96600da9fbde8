"""Notes for Python's own errors, if these concern objects of a session.

Only adds notes to exceptions. Code that catches an error calls `explain`; in a script
nobody does, so there is a hook.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from workbench.error_notes import readonly, ref_as_value
from workbench.errors import WorkbenchError
from workbench.errors.exception_state import add_note, notes_of
from workbench.format import printable
from workbench.ref import ObjectRef

KINDS = (*readonly.KINDS, *ref_as_value.KINDS)
"""Errors that may get a note."""


def explain(
    error: BaseException,
    variables: Mapping[str, Any] | None = None,
    maker: Callable[[ObjectRef], str] | None = None,
) -> None:
    """Note whose read-only bytes the error is about, or that a ref was used as its value.

    Never raises, and asks the session only if the error is about one of these. In a notebook,
    ``variables`` are its own, and ``maker`` names the background cell that makes an object.
    """
    if isinstance(error, WorkbenchError):
        return  # a task's failure was explained where it ran
    with suppress(Exception):  # the session just ended; an object can't be inspected
        add(error, readonly.note_of(error))
    with suppress(Exception):
        add(error, ref_as_value.note_of(error, variables or {}, maker))


def explain_shortage(error: BaseException) -> None:
    """Note what has this process's memory, if there was none for something. Never raises.

    For errors that a person sees, not for each that is raised: it takes a while.
    """
    if isinstance(error, MemoryError | RuntimeError):
        with suppress(Exception):
            from workbench.error_notes import shortage  # imports what only this needs

            add(error, shortage.note_of(error))


def add(error: BaseException, note: str) -> None:
    """Add a note once, unless it is empty."""
    if note and (note := printable(note)) not in notes_of(error):
        add_note(error, note)


class _Hook:
    """Replaces ``sys.excepthook``, and calls the earlier one."""

    def __init__(self, before: Callable[..., object]) -> None:
        self.before = before

    def __call__(self, kind: Any, error: BaseException, tb: TracebackType | None) -> None:
        explain(error)
        explain_shortage(error)
        self.before(kind, error, tb)


def install() -> None:
    """Install the hook for scripts: it adds notes to uncaught errors."""
    if not isinstance(sys.excepthook, _Hook):
        sys.excepthook = _Hook(sys.excepthook)


def uninstall() -> None:
    """Undo `install`, unless another hook has replaced ours."""
    if isinstance(sys.excepthook, _Hook):
        sys.excepthook = sys.excepthook.before
