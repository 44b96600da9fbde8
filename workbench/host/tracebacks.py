"""A task's exception → the TaskError its reader sees: text and places, no live objects."""

from __future__ import annotations

import linecache
import os
import pickle
import re
import traceback
from types import TracebackType

import cloudpickle

from workbench import error_notes
from workbench.errors import SerializationError, TaskError, WorkbenchError, task_error

MOST_FRAMES = 60
MOST_TEXT = 8000  # characters kept of a message: errors travel inline

_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep

_POOLS = tuple(
    os.path.join(os.path.dirname(os.__file__), package, "")
    for package in ("multiprocessing", "concurrent")
)
"""Where the files are of what runs functions in processes of its own."""

Frames = list[tuple[str, int, str, str]]


def describe_error(error: BaseException, task: str) -> TaskError:
    """What to send in place of ``error``; always picklable.

    It is an instance of the error's type where that type can travel.
    """
    error_notes.explain(error)
    notes = [str(n)[:MOST_TEXT] for n in getattr(error, "__notes__", [])]
    if hint := _other_processes(error):
        notes.append(hint)
    kind: type[BaseException] = type(error)
    if isinstance(error, TaskError):  # a task that got another task's failure
        kind = getattr(kind, "_cause", kind)
        text = error.cause_text
        notes += ["", f"It came from task {error.task!r}:", *error.remote_traceback()]
        notes += error.remote_notes
    else:
        text = _said(error)
        notes += _chain(error)
    described = task_error(kind, task, text, frames_of(error.__traceback__), notes)
    if isinstance(error, NameError | ImportError):
        described.missing_name = error.name or ""  # its reader may know where it comes from
    if isinstance(error, SerializationError) and isinstance(described, SerializationError):
        described.failures = error.failures
    try:
        pickle.loads(cloudpickle.dumps(described))
    except Exception:  # the type can't travel: its text can
        described = TaskError(task, text, described.frames, notes)
    return described


def let_go(error: BaseException) -> None:
    """Empty the frames that it came through, and those of what it came from.

    A task's error and its frames often refer to each other in a ring: what a failed task had read
    and made would stay until the collector runs.
    """
    seen: set[int] = set()
    chain: list[BaseException | None] = [error]
    while chain:
        each = chain.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            traceback.clear_frames(each.__traceback__)
            chain += each.__cause__, each.__context__


def frames_of(tb: TracebackType | None) -> Frames:
    """The traceback without our own frames. Source lines only where this process has them."""
    frames: Frames = []
    for frame, lineno in traceback.walk_tb(tb):
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
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
    """What to do if `multiprocessing` couldn't send a function that no module has."""
    found = _UNFOUND.search(_said(error))
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


def _said(error: BaseException) -> str:
    """``Type: message``, without the notes. Our own types by their name alone."""
    said = traceback.TracebackException(type(error), error, None)
    said.__notes__ = None
    text = "".join(said.format_exception_only()).strip()
    return text.removeprefix(f"{WorkbenchError.__module__}.")[:MOST_TEXT]


def _chain(error: BaseException) -> list[str]:
    """The exceptions this one was raised from, as text."""
    lines: list[str] = []
    seen = {id(error)}
    while True:
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is None or id(cause) in seen or len(lines) > 20:
            return lines
        seen.add(id(cause))
        how = "Caused by" if error.__cause__ else "While handling"
        text = _said(cause)
        lines += ["", f"{how}: {text}"]
        lines += [f"  {f}, line {n}, in {name}" for f, n, name, _ in frames_of(cause.__traceback__)]
        error = cause
