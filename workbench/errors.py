"""Every exception Workbench raises, on one page, all picklable. No logic beyond how they show.

Each message is one paragraph: what happened, whose doing it was, and what to do next.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from workbench import remote_frames
from workbench.remote_frames import Frame
from workbench.remote_frames import cell_label as cell_label
from workbench.report.format import printable


class WorkbenchError(Exception):
    """Base of everything Workbench raises itself."""

    def __str__(self) -> str:
        return printable(super().__str__())  # it names what others have named

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of our own stack: the paragraph and its notes."""
        said = f"{type(self).__name__}: {self}", *getattr(self, "__notes__", ())
        return [_in_lines(text) for text in said]


_CODE = re.compile(r"`[^`\n]*`")


def _in_lines(text: str) -> str:
    """Broken where words end: notebooks break long lines in the middle of a word, of code too.

    The space that ends a line stays, and what stands in backticks is in one piece.
    """
    room = shutil.get_terminal_size().columns  # 80 in a kernel
    lines = []
    for line in text.split("\n"):
        whole = _CODE.sub(lambda code: code[0].replace(" ", "\0"), line)
        indent = whole[: len(whole) - len(whole.lstrip(" "))]
        pieces = textwrap.wrap(
            whole, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        lines.append(" \n".join(pieces).replace("\0", " ") if len(line) > room else line)
    return "\n".join(lines)


class ConfigError(WorkbenchError, ValueError):
    """A setting (option, environment variable, config file) has a value that can't be used."""


class SessionError(WorkbenchError, ConnectionError):
    """There is no session to talk to: none was started, or its server has gone."""


class NotAnsweringError(SessionError, TimeoutError):
    """The session's server is there, and doesn't answer."""


class ProtocolError(WorkbenchError):
    """The peer sent bytes that are not a frame of ours. The connection ends; nothing else does."""


class MagicError(WorkbenchError):
    """A magic was used in a way it can't be: an unknown option, a missing argument."""


class CellSyntaxError(WorkbenchError, ValueError):
    """A ``%%remote`` cell is not valid Python. Nothing was sent.

    Not a SyntaxError: IPython shows those its own way, with a traceback that leads nowhere.
    """


class UnattendedError(WorkbenchError, RuntimeError):
    """Code on a worker asked for a person: ``input``, ``getpass``, ``breakpoint``."""


class NotDefinedError(WorkbenchError, NameError):
    """A name is neither in the notebook nor in the store."""


class SerializationError(WorkbenchError, TypeError):
    """An object could not be turned into bytes, or bytes could not be turned into an object.

    Attributes
    ----------
    failures : tuple of `workbench.serialization.inspection.Failure`
        The parts that can't be serialized, as `inspect_serializability` finds them.
    """

    failures: tuple[Any, ...] = ()

    def __init__(self, message: str = "", failures: Sequence[Any] = ()) -> None:
        super().__init__(message)
        if failures:
            self.failures = tuple(failures)


class StoreFullError(WorkbenchError, MemoryError):
    """The store has no room, and the message lists what holds it."""


class ObjectLostError(WorkbenchError, LookupError):
    """The session has no such object (any more), or its bytes are gone."""


class ObjectFreedError(ObjectLostError):
    """The object was freed by ``free`` while refs to it were still held."""


class SpillError(WorkbenchError, OSError):
    """An object can't be moved to disk as a person asked."""


class ForeignRefError(WorkbenchError, ValueError):
    """The ref belongs to another session."""


class GetTimeoutError(WorkbenchError, TimeoutError):
    """``get`` or ``wait`` ran out of time. The tasks go on; the refs stay good."""


class WorkerCrashedError(WorkbenchError):
    """The worker process died while it ran the task."""


class OutOfMemoryError(WorkerCrashedError, MemoryError):
    """The worker was ended because memory ran short; the message says who used how much."""


class TaskError(WorkbenchError):
    """A task raised. Also an instance of the exception it raised (see :func:`task_error`).

    Attributes
    ----------
    task : str
        Name of the function or cell.
    cause_text : str
        ``Type: message`` of the original exception.
    frames : tuple of (filename, line number, function, source line)
        The remote traceback, outermost first, without Workbench's own frames. The source line
        is empty where the worker could not know it (a notebook's cell); who shows it looks it up.
    remote_notes : tuple of str
        Notes (``add_note``) and chained causes of the original, as text.
    missing_name : str
        What a NameError or ImportError did not find; else ''.
    """

    def __init__(
        self,
        task: str = "",
        cause_text: str = "",
        frames: Sequence[Frame] = (),
        remote_notes: Sequence[str] = (),
    ) -> None:
        # Not super(): next in line may be the original's __init__, which wants its own arguments.
        BaseException.__init__(self, task, cause_text, tuple(frames), tuple(remote_notes))
        self.task = task
        self.missing_name = ""
        self.cause_text = cause_text
        self.frames = tuple(frames)
        self.remote_notes = tuple(remote_notes)

    def __str__(self) -> str:
        notes = map(remote_frames.placed, self.remote_notes)
        return "\n".join([self.cause_text, *notes, "", *self.remote_traceback()])

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: in its colours, and in the mode that `%xmode` has set."""
        mode = remote_frames.mode()
        placed = map(remote_frames.placed, self.remote_notes)
        notes = [_in_lines(note) for note in (*placed, *getattr(self, "__notes__", ()))]
        if mode == "Minimal":
            return [remote_frames.painted(self.cause_text), *notes]
        head = remote_frames.painted(type(self).__name__)
        head += f" in {printable(self.task)}" if self.task else ""
        trace, left_out = remote_frames.shown(self.frames, mode)
        # IPython has noted the error of a cell by now; a background cell's is only shown.
        how = _LAST if getattr(sys, "last_value", None) is self else _EVERY
        hint = ["", how] if left_out else []
        return [head, *trace, "", remote_frames.painted(self.cause_text), *notes, *hint]

    def remote_traceback(self) -> list[str]:
        """The remote traceback as lines of text; source lines are filled in from ``linecache``."""
        return remote_frames.plain(self.frames)


_LAST = "`%tb Verbose` shows the frames left out; after `%xmode Verbose`, every error has them."
_EVERY = "After `%xmode Verbose`, errors show the frames left out."


def _task_error_type(cause: type[BaseException]) -> type[TaskError]:
    """TaskError and ``cause`` in one type, so that ``except ValueError`` catches it."""
    if issubclass(TaskError, cause):
        return TaskError
    try:
        return type(
            f"TaskError({cause.__name__})",
            (TaskError, cause),
            {"__module__": TaskError.__module__, "__reduce__": _reduce_task_error, "_cause": cause},
        )
    except TypeError:  # a layout that can't be combined, or a final class
        return TaskError


def _reduce_task_error(self: TaskError) -> tuple[object, ...]:
    cause = type(self)._cause  # type: ignore[attr-defined]
    fields = self.task, self.cause_text, self.frames, self.remote_notes
    state = {"__notes__": getattr(self, "__notes__", []), "missing_name": self.missing_name}
    if isinstance(self, SerializationError) and self.failures:
        state["failures"] = self.failures
    return task_error, (cause, *fields), state


_STOPS = (StopIteration, StopAsyncIteration)


def task_error(
    cause: type[BaseException] | None,
    task: str,
    cause_text: str,
    frames: Sequence[tuple[str, int, str, str]] = (),
    remote_notes: Sequence[str] = (),
) -> TaskError:
    """A :class:`TaskError` that is also an instance of ``cause`` where Python allows it.

    The idea is Ray's ``RayTaskError.as_instanceof_cause``. ``KeyboardInterrupt`` and
    ``SystemExit`` are left out: nobody wants a task to end the notebook that reads its result.
    So is ``StopIteration``, which ends the loop or coroutine that reads it without a word.
    """
    kind = TaskError
    if cause is not None and issubclass(cause, Exception) and not issubclass(cause, _STOPS):
        kind = _task_error_type(cause)
    native: Any = kind
    while native.__module__ != "builtins":
        native = native.__base__
    try:
        error: TaskError = native.__new__(kind)  # no __new__ of the original's own
    except TypeError:  # the native one wants arguments too: an ExceptionGroup
        error = TaskError.__new__(TaskError)
    TaskError.__init__(error, task, cause_text, frames, remote_notes)
    return error


class ActorDiedError(WorkbenchError):
    """The actor is dead: its worker died, it left, it was ended, or it could not be made."""


class ActorExit(BaseException):
    """What `exit_actor` raises; not for anybody to catch."""


class TaskCancelledError(WorkbenchError):
    """The task was stopped, or cancelled, before it was done."""


class TaskTimeoutError(TaskCancelledError, TimeoutError):
    """The task ran for longer than its ``timeout``, and was interrupted."""
