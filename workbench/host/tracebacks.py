"""A task's exception → the TaskError its reader sees: the exception pickled, texts and places."""

from __future__ import annotations

import linecache
import os
import re
import traceback
from types import TracebackType
from typing import Any

from workbench import error_notes
from workbench.call_site import OURS
from workbench.errors import (
    MOST_TEXT,
    TaskError,
    TaskFailure,
    WorkbenchError,
    failure_of,
    original_of,
    task_error,
)
from workbench.errors.exception_state import notes_of
from workbench.serialization.arrays import Reducers
from workbench.serialization.exceptions import left_out_note, pack

MOST_FRAMES = 60

MOST_MEMBERS = 10
"""Most exceptions of a group that are listed one by one."""

_POOLS = tuple(
    os.path.join(os.path.dirname(os.__file__), package, "")
    for package in ("multiprocessing", "concurrent")
)
"""Directories of the packages that run functions in processes of their own."""

Frames = list[tuple[str, int, str, str]]


def describe_error(error: BaseException, task: str) -> TaskError:
    """Return what to send in place of ``error``: see `TaskError`; always picklable."""
    return task_error(task_failure(error, task, {}))


def task_failure(error: BaseException, task: str, reducers: Reducers) -> TaskFailure:
    error_notes.explain(error)
    error_notes.add(error, _other_processes(error))
    notes = [note[:MOST_TEXT] for note in notes_of(error)]
    missing = (error.name or "") if isinstance(error, NameError | ImportError) else ""
    if isinstance(error, TaskError):  # a task that got another task's failure
        inner = failure_of(error)
        missing = inner.missing_name
        text = inner.text
        others = [f"It came from task {inner.task!r}.", *inner.notes]
        notes += [note for note in others if note not in notes]
        original = original_of(error)
    else:
        text = error_text(error)
        notes += _chain(error)
        original = error
    data, left_out = pack(original, frames_of, reducers) if original is not None else (b"", [])
    if left_out:
        notes.insert(len(notes_of(error)), left_out_note(left_out))
    frames = tuple(frames_of(error.__traceback__))
    return TaskFailure(task, text, frames, tuple(notes), missing, data)


def clear_frames(error: BaseException) -> None:
    """Clear the frames in the tracebacks of an error, its causes and its group's members.

    A task's error and its frames often form a reference cycle: what a failed task had read and
    made would stay until the collector runs.
    """
    seen: set[int] = set()
    chain: list[BaseException | None] = [error]
    while chain:
        each = chain.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            traceback.clear_frames(each.__traceback__)
            chain += each.__cause__, each.__context__
            if isinstance(each, BaseExceptionGroup):
                chain += each.exceptions


def frames_of(tb: TracebackType | None) -> Frames:
    """Return a traceback without our own frames. Source lines only if this process has them."""
    frames: Frames = []
    for frame, lineno in traceback.walk_tb(tb):
        code = frame.f_code
        if not code.co_filename.startswith(OURS):
            line = linecache.getline(code.co_filename, lineno, frame.f_globals).strip()
            frames.append((code.co_filename, lineno, code.co_name, line))
    if len(frames) > MOST_FRAMES:
        half = MOST_FRAMES // 2
        gap = ("…", 0, f"{len(frames) - 2 * half} frames left out", "")
        frames = [*frames[:half], gap, *frames[-half:]]
    return frames


_UNFOUND = re.compile(
    r"Can't (?:pickle|get)\b.*?(?:<function |local object '|attribute ')([\w.<>]+)"
)


def _other_processes(error: BaseException) -> str:
    """Return advice if `multiprocessing` couldn't send a function that no module has."""
    found = _UNFOUND.search(error_text(error))
    frames = (frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__))
    if found is None or not any(filename.startswith(_POOLS) for filename in frames):
        return ""
    name = found[1].rpartition(".")[2]
    shown = "f" if name == "<lambda>" else name
    return (
        "Other processes import a function from its module's file, and what a notebook defines has "
        f"none. `workbench.map({shown}, items)` runs it on the session's workers instead, also "
        "from here; or put it into a file and import it."
    )


def error_text(error: BaseException) -> str:
    """Return ``Type: message``, without notes. Our own types without their module."""
    said = traceback.TracebackException(type(error), error, None)
    said.__notes__ = None
    text = "".join(said.format_exception_only()).strip()
    return text.removeprefix(f"{WorkbenchError.__module__}.")[:MOST_TEXT]


def _chain(error: BaseException) -> list[str]:
    """Return the exceptions that this one was raised from, and those of a group, as text."""
    lines: list[str] = []
    seen: set[int] = set()
    here: BaseException | None = error
    how = ""
    while here is not None and id(here) not in seen and len(lines) <= 20:
        seen.add(id(here))
        if how:
            lines += _placed(how, here)
        if isinstance(here, BaseExceptionGroup):
            lines += _members(here)
        how = "Caused by" if here.__cause__ else "While handling"
        here = here.__cause__ or (None if here.__suppress_context__ else here.__context__)
    return lines


def _members(group: BaseExceptionGroup[Any]) -> list[str]:
    lines: list[str] = []
    for number, each in enumerate(group.exceptions, 1):
        if number > MOST_MEMBERS:
            return [*lines, "", f"and {len(group.exceptions) - MOST_MEMBERS} more"]
        lines += _placed(f"{number} of {len(group.exceptions)}", each)
    return lines


def _placed(how: str, error: BaseException) -> list[str]:
    places = [f"  {f}, line {n}, in {name}" for f, n, name, _ in frames_of(error.__traceback__)]
    return ["", f"{how}: {error_text(error)}", *places]
