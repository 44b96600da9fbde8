"""The read-only lesson, taught in place: numpy's own error, with a note on whose bytes those are.

Adds a note to the exception and does nothing else; who catches it calls `explain`.
"""

from __future__ import annotations

import dis
import gc
import os
import re
import types
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from workbench import context
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.engines.base import Engine, Shown

KINDS = (ValueError, TypeError, BufferError)
"""What numpy, pandas, Cython, memoryview raise."""

_SAYS_SO = re.compile(r"read[- ]?only|writeable|writable", re.IGNORECASE)

_OTHERS = re.compile(
    re.escape(os.path.dirname(__file__) + os.sep) + "|.*" + re.escape(os.sep + "IPython" + os.sep)
)
"""Files whose variables nobody means: a shell has all of a notebook in its ``self``."""

MOST_OBJECTS = 2_000
"""Objects looked through for an array inside a table or a model."""


def explain(error: BaseException) -> None:
    """If a write to a stored object's bytes failed, say which, and the two ways out.

    Never raises, and asks the session only if the error is about something read-only.
    """
    if not isinstance(error, KINDS) or isinstance(error, WorkbenchError):
        return  # a task's failure was explained where it ran
    if not _SAYS_SO.search(str(error)):
        return
    engine = context.get()
    if engine is None:
        return
    try:
        note = _note(engine, error.__traceback__)
    except Exception:  # a session that just ended; an object that can't be looked at
        return
    if note and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _note(engine: Engine, tb: TracebackType | None) -> str:
    """Whose bytes they are is known best where it failed; what they are called, further out.

    If there are arrays where it failed, and none of them shows an object, it was none of ours.
    """
    frames = []
    while tb is not None:
        if not _OTHERS.match(tb.tb_frame.f_code.co_filename):
            frames.append((tb.tb_frame, tb.tb_lineno))
        tb = tb.tb_next
    shown: Shown | None = None
    called: tuple[str, Any] = "", None
    for frame, line in reversed(frames):
        there = [(name, v, list(arrays_in(v))) for name, v in named_at(frame, line)]
        for name, value, arrays in there:
            found = next(filter(None, map(engine.shown, arrays)), None)
            if found is not None and (shown is None or found.id == shown.id):
                shown, called = found, (name, value)
                break
        if shown is None and any(arrays for *_, arrays in there):
            break
    return "" if shown is None else _text(*called, shown)


def _text(name: str, value: Any, shown: Shown) -> str:
    about = f" ({shown.about})" if shown.about else ""
    has_copy = hasattr(type(value), "__array__") and hasattr(type(value), "copy")
    copy = f"`{name} = {name}.copy()`" if has_copy else "copy the array before you change it"
    if not shown.id:
        return (
            f"`{name}` came to the task as an argument{about}, and those are read-only, as all "
            f"that is stored. The way out: {copy}."
        )
    stored = f"the stored object {shown.names[0]!r}" if shown.names else "a stored object"
    private = f"`%get {shown.names[0]} --copy`, " if shown.names else ""
    return (
        f"`{name}` shows {stored}{about}, and what is stored doesn't change. Two ways out: "
        f"{copy}, or get a private copy: {private}`get(ref, copy=True)`."
    )


def named_at(frame: FrameType, line: int) -> Iterator[tuple[str, Any]]:
    """The variables that a line refers to, with their values."""
    variables = {**frame.f_globals, **frame.f_locals}
    names = dict.fromkeys(
        name
        for i in dis.get_instructions(frame.f_code)
        if i.positions and i.positions.lineno == line and i.opname.startswith("LOAD_")
        for name in (i.argval if isinstance(i.argval, tuple) else (i.argval,))
        if isinstance(name, str) and name.isidentifier()
    )
    for name in names:
        if name in variables:
            yield name, variables[name]


def arrays_in(value: Any) -> Iterator[Any]:
    """The arrays a value is or holds: a table's, a model's."""
    seen: set[int] = set()
    queue = [value]
    while queue and len(seen) < MOST_OBJECTS:
        each = queue.pop()
        if id(each) in seen or isinstance(each, type | types.ModuleType | types.FunctionType):
            continue
        seen.add(id(each))
        if isinstance(each, memoryview) or hasattr(type(each), "__array_interface__"):
            yield each
        queue.extend(gc.get_referents(each))
