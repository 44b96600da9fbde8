"""Every exception that Workbench raises, all picklable. The only logic is how they are shown,
and how a task's error becomes an instance of what the task raised.

Each message is one paragraph: what happened, who caused it, and what to do next.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
import weakref
from _pickle import PicklingError  # not pickle: the server has none
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from workbench.errors import exception_state, remote_frames
from workbench.errors.remote_frames import Frame
from workbench.format import printable, shortened


class WorkbenchError(Exception):
    """Base of everything Workbench raises itself."""

    def __str__(self) -> str:
        return printable(shortened(super().__str__()))  # it may have names that others chose

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows instead of our own stack: the message and its notes."""
        said = f"{type(self).__name__}: {self}", *getattr(self, "__notes__", ())
        return [_in_lines(text) for text in said]


_CODE = re.compile(r"`[^`\n]*`")


def _in_lines(text: str) -> str:
    """Break lines between words: notebooks break long lines within words, and in code too.

    The space that ends a line stays, and text in backticks is not broken.
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
    """A setting (option, environment variable, config file) has an unusable value."""


class SessionError(WorkbenchError, ConnectionError):
    """There is no session to talk to: none was started, or its server is gone."""


class NotAnsweringError(SessionError, TimeoutError):
    """The session's server exists, but doesn't answer."""


class ProtocolError(WorkbenchError):
    """The peer sent bytes that are not a frame of ours. Only the connection ends."""


class MagicError(WorkbenchError):
    """A magic was called wrongly: an unknown option, a missing argument."""


class CellSyntaxError(WorkbenchError, ValueError):
    """A ``%%remote`` cell is not valid Python. Nothing was sent.

    Not a SyntaxError: IPython shows those its own way, with a misleading traceback.
    """


class UnattendedError(WorkbenchError, RuntimeError):
    """Code on a worker needs a person: ``input``, ``getpass``, ``breakpoint``."""


class NotDefinedError(WorkbenchError, NameError):
    """A name is neither in the notebook nor in the store."""


class SerializationError(WorkbenchError, TypeError, PicklingError):
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


class SessionFileError(WorkbenchError, ValueError):
    """A file is no session file, is damaged, or has what wasn't allowed to be opened."""


class StoreFullError(WorkbenchError, MemoryError):
    """The store has no room; the message lists what takes it."""


class LimitError(WorkbenchError, OSError):
    """The system refused memory, a file, a process or a thread; the message says which limit."""


class ObjectLostError(WorkbenchError, LookupError):
    """The session has no such object (any more), or its bytes are gone."""


class ObjectFreedError(ObjectLostError):
    """The object was freed by ``free`` while refs to it were still held."""


class SpillError(WorkbenchError, OSError):
    """An object can't be moved to disk on a person's request."""


class ForeignRefError(WorkbenchError, ValueError):
    """The ref belongs to another session."""

    @classmethod
    def between(cls, theirs: str, ours: str) -> ForeignRefError:
        """Make the error from the sessions' unique names: see `core.snapshot.INCARNATION`."""
        name, here = theirs.partition("~")[0], ours.partition("~")[0]
        which = f"session {name!r}, and this process is in {here!r}"
        if name == here:
            which = f"an earlier session {name!r} than the one that this process is in"
        return cls(
            f"The ref belongs to {which}. A ref is good only inside its own session: what it "
            "refers to has to be put, or made by its task, again."
        )


class GetTimeoutError(WorkbenchError, TimeoutError):
    """``get`` or ``wait`` timed out. The tasks go on; the refs stay valid."""


class WorkerCrashedError(WorkbenchError):
    """The worker process died while it ran the task."""


class OutOfMemoryError(WorkerCrashedError, MemoryError):
    """The worker was killed because memory ran short; the message says who used how much."""


MOST_TEXT = 8000
"""Characters kept of a message or note in a task's error."""


class TaskFailure(NamedTuple):
    """Report on a task that raised. ``original`` is the exception, pickled.

    See `TaskError`; ``text`` is its ``cause_text``, ``notes`` are its ``remote_notes``.
    """

    task: str = ""
    text: str = ""
    frames: tuple[Frame, ...] = ()
    notes: tuple[str, ...] = ()
    missing_name: str = ""
    original: bytes = b""
    cause: BaseException | None = None


T = TypeVar("T")


class _FailureAttribute(Generic[T]):
    """Descriptor for an attribute from the `TaskFailure`.

    Unlike a property, it yields to an attribute of the original with the same name.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, error: TaskError, kind: type) -> T:
        found: T = getattr(failure_of(error), self._name)
        return found


class TaskError(WorkbenchError):
    """A task raised. Also an instance of the exception that it raised, with the same state.

    So ``except E as e`` sees what it would see if the task had run here: ``args``, attributes,
    notes, ``__cause__``, the text; and a traceback that ends where it was raised.

    Attributes
    ----------
    cause : BaseException or None
        The original exception; None if it could not travel.
    task : str
        Name of the function or cell.
    cause_text : str
        ``Type: message`` of the original exception.
    frames : tuple of (filename, line number, function, source line)
        The remote traceback, outermost first, without Workbench's own frames. The source line is
        empty where the worker didn't know it (a notebook's cell): it is looked up when shown.
    remote_notes : tuple of str
        Notes (``add_note``) and chained causes of the original, as text.
    missing_name : str
        What a NameError or ImportError did not find; else ''.
    """

    cause: _FailureAttribute[BaseException | None] = _FailureAttribute("cause")
    task: _FailureAttribute[str] = _FailureAttribute("task")
    cause_text: _FailureAttribute[str] = _FailureAttribute("text")
    frames: _FailureAttribute[tuple[Frame, ...]] = _FailureAttribute("frames")
    remote_notes: _FailureAttribute[tuple[str, ...]] = _FailureAttribute("notes")
    missing_name: _FailureAttribute[str] = _FailureAttribute("missing_name")

    def __init__(
        self,
        task: str = "",
        cause_text: str = "",
        frames: Sequence[Frame] = (),
        remote_notes: Sequence[str] = (),
    ) -> None:
        super().__init__(cause_text)
        _set_failure(self, TaskFailure(task, cause_text, tuple(frames), tuple(remote_notes)))

    def __str__(self) -> str:
        """Return the original's text, unless its class has a ``__str__``, which comes first."""
        cause, text = failure_of(self).cause, BaseException.__str__(self)
        is_ours = cause is None or isinstance(cause, WorkbenchError)
        return printable(shortened(text)) if is_ours else text

    def __reduce_ex__(self, protocol: Any) -> Any:
        failure = failure_of(self)._replace(cause=None)
        return task_error, (failure, tuple(exception_state.notes_of(self)))

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows: in its colours, and in the mode set by `%xmode`."""
        failure = failure_of(self)
        mode = remote_frames.mode()
        own = exception_state.notes_of(self)
        own = [note for note in own if note[:MOST_TEXT] not in failure.notes]
        notes = [_in_lines(note) for note in (*map(remote_frames.placed, failure.notes), *own)]
        if mode == "Minimal":
            return [remote_frames.painted(failure.text), *notes]
        head = remote_frames.painted(type(self).__name__)
        head += f" in {printable(shortened(failure.task))}" if failure.task else ""
        trace, left_out = remote_frames.formatted(failure.frames, mode)
        # By now IPython has recorded the error of a cell; a background cell's is only shown.
        how = _LAST if getattr(sys, "last_value", None) is self else _EVERY
        hint = ["", how] if left_out else []
        return [head, *trace, "", remote_frames.painted(failure.text), *notes, *hint]

    def as_instanceof_cause(self) -> TaskError:
        """Return this error as an instance of what the task raised. `get` raises it like that.

        Returns
        -------
        TaskError
            Itself if it is one already, or can't be.
        """
        failure = failure_of(self)
        if failure.cause is None or isinstance(self, type(failure.cause)):
            return self
        return task_error(failure, exception_state.notes_of(self))

    def remote_traceback(self) -> list[str]:
        """Return the remote traceback as lines of text, with source lines from ``linecache``."""
        return remote_frames.plain(failure_of(self).frames)


_LAST = "`%tb Verbose` shows the frames left out; after `%xmode Verbose`, every error has them."
_EVERY = "After `%xmode Verbose`, errors show the frames left out."

_KEY = "_workbench_failure"


def failure_of(error: TaskError) -> TaskFailure:
    """Return the report on the task, even if the original has attributes of the same names."""
    found: TaskFailure = object.__getattribute__(error, _KEY)
    return found


def original_of(error: TaskError) -> BaseException | None:
    """Return the exception that it was made from, with later changes: notes, traceback, cause."""
    cause = failure_of(error).cause
    if cause is None:
        return None
    now = error if isinstance(error, type(cause)) else cause
    original: BaseException = exception_state.become(type(cause), now)
    return original.with_traceback(error.__traceback__)


def _set_failure(error: TaskError, failure: TaskFailure) -> None:
    object.__setattr__(error, _KEY, failure)


_types: weakref.WeakValueDictionary[type, type[TaskError]] = weakref.WeakValueDictionary()
"""By the original's type. One per process, like types."""


def _task_error_type(cause: type[BaseException]) -> type[TaskError]:
    """Return a type that is TaskError and ``cause``, so that ``except ValueError`` catches it.

    The original's class comes first: its text and its methods stay the same.
    """
    found = _types.get(cause)
    if found is None:
        own = "__reduce_ex__", "_render_traceback_"
        body: dict[str, Any] = {name: vars(TaskError)[name] for name in own}
        body["__module__"] = TaskError.__module__
        if not issubclass(cause, BaseExceptionGroup) or issubclass(cause, Exception):
            body["__slots__"] = (_KEY,)  # not in `vars(e)`; other groups can't have slots
        name = f"TaskError({cause.__name__})"
        bases: tuple[type, ...] = cause, TaskError
        if issubclass(TaskError, cause):
            name, bases = TaskError.__name__, (TaskError,)
        found = _types[cause] = type(name, bases, body)
    return found


def task_error(failure: TaskFailure, notes: Sequence[str] = ()) -> TaskError:
    """Return the error of a task that raised, also an instance of what it raised, if possible.

    The idea is Ray's ``RayTaskError.as_instanceof_cause``. It is a plain `TaskError` if the
    original can't be built here, its type can't be combined, or it would end the process that asks.
    """
    cause = failure.cause
    if cause is None and failure.original:
        import pickle  # here: the server must not import pickle

        try:
            cause = pickle.loads(failure.original)
        except Exception as error:  # its module can't be imported here
            text = f"The original can't be rebuilt in this process: {type(error).__name__}: {error}"
            failure = failure._replace(notes=(*failure.notes, text))
    failure = failure._replace(cause=cause)
    if cause is None or isinstance(cause, _ENDS_PROCESS):
        return _plain(failure, notes)
    try:
        found: TaskError = exception_state.become(_task_error_type(type(cause)), cause)
    except Exception:  # incompatible layouts, or a final class
        return _plain(failure, notes)
    for note in notes:
        if note not in exception_state.notes_of(found):
            exception_state.add_note(found, note)
    _set_failure(found, failure)
    return found


def for_future(error: BaseException) -> BaseException:
    """Return a form of the error for a future. Some types are commands to its waiter, not errors.

    An event loop takes a CancelledError for that of its own task; a StopIteration can't be raised
    into a coroutine at all.
    """
    if not isinstance(error, TaskError):
        return error
    asyncio: Any = sys.modules.get("asyncio.exceptions")
    commands = _ENDS_LOOP if asyncio is None else (*_ENDS_LOOP, asyncio.CancelledError)
    is_command = isinstance(error, commands)
    return _plain(failure_of(error), exception_state.notes_of(error)) if is_command else error


_ENDS_PROCESS = SystemExit, KeyboardInterrupt, GeneratorExit
_ENDS_LOOP = StopIteration, StopAsyncIteration


def _plain(failure: TaskFailure, notes: Sequence[str]) -> TaskError:
    error = TaskError(failure.task, failure.text, failure.frames, failure.notes)
    _set_failure(error, failure)
    for note in notes:
        error.add_note(note)
    cause = failure.cause
    error.__cause__ = cause.__cause__ if cause is not None else None
    error.__traceback__ = exception_state.traceback_of(failure.frames)
    return error


class ActorDiedError(WorkbenchError):
    """The actor is dead: its worker died, it exited, it was killed, or it could not be created.

    Attributes
    ----------
    actor_id : str or None
        Id as from `get_runtime_context` in the actor, ``get_actor_id()``; None if unknown.
    """

    actor_id: str | None = None


class ActorUnavailableError(ActorDiedError):
    """The worker that ran the call died, and the actor is being restarted for later calls.

    The call may have been done in part. It is only retried if ``max_task_retries`` allows it.
    """


class ActorExit(BaseException):
    """Raised by `exit_actor`; don't catch it."""


class TaskCancelledError(WorkbenchError):
    """The task was stopped, or cancelled, before it was done."""


class NestingError(WorkbenchError, RecursionError):
    """Deadlock: every worker waits, inside a task, for a task that needs a worker."""


class TaskTimeoutError(TaskCancelledError, TimeoutError):
    """The task ran longer than its ``timeout``, and was interrupted."""
