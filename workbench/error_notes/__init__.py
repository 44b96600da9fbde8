"""What Python's own errors are told besides, where they are about a session's objects.

Adds notes to the exception and does nothing else. Who catches it calls `explain`; in a script
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
    """Note whose read-only bytes it is about, or that a ref was taken for the value it refers to.

    Never raises, and asks the session only if the error is about one of these. In a notebook,
    ``variables`` are its own, and ``maker`` names the background cell that makes an object.
    """
    if isinstance(error, WorkbenchError):
        return  # a task's failure was explained where it ran
    with suppress(Exception):  # a session that just ended; an object that can't be looked at
        add(error, readonly.note_of(error))
    with suppress(Exception):
        add(error, ref_as_value.note_of(error, variables or {}, maker))


def add(error: BaseException, note: str) -> None:
    """Note that, if there is something to say, and once."""
    if note and (note := printable(note)) not in notes_of(error):
        add_note(error, note)


class _Hook:
    """In place of ``sys.excepthook``, which it calls."""

    def __init__(self, before: Callable[..., object]) -> None:
        self.before = before

    def __call__(self, kind: Any, error: BaseException, tb: TracebackType | None) -> None:
        explain(error)
        self.before(kind, error, tb)


def install() -> None:
    """In scripts: what Python shows when nobody catches it."""
    if not isinstance(sys.excepthook, _Hook):
        sys.excepthook = _Hook(sys.excepthook)


def uninstall() -> None:
    """Undo `install`, unless somebody has put another hook over ours."""
    if isinstance(sys.excepthook, _Hook):
        sys.excepthook = sys.excepthook.before
