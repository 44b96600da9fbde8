"""Takes the state out of an exception, and puts it into one of any type. Pickles nothing.

Runs no code of the exception's own class: neither ``__new__`` nor ``__init__``,
``__setattr__`` or ``__getattr__``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import (
    BuiltinFunctionType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    TracebackType,
)
from typing import Any, NamedTuple

from workbench.errors.remote_frames import Frame

_OF_ALL = vars(BaseException)
_COMMON = frozenset(_OF_ALL) | {"__weakref__"}


class ExceptionState(NamedTuple):
    """All that ``except E as e`` sees, except the type.

    ``slots`` are values outside ``__dict__``, also of builtin types: ``errno``, ``code``, ``obj``.
    ``frames`` are where it was raised; ``group`` the message and the exceptions of a group.
    """

    args: tuple[Any, ...]
    attributes: dict[str, Any]
    slots: dict[str, Any]
    cause: BaseException | None
    context: BaseException | None
    suppress_context: bool
    frames: tuple[Frame, ...]
    group: tuple[str, list[BaseException]] | None = None


def exception_state_of(error: BaseException, frames: Sequence[Frame]) -> ExceptionState:
    group = (error.message, [*error.exceptions]) if isinstance(error, BaseExceptionGroup) else None
    return ExceptionState(
        _get(error, "args"),
        dict(_get(error, "__dict__")),
        dict(_slots_of(error)),
        _get(error, "__cause__"),
        _get(error, "__context__"),
        _get(error, "__suppress_context__"),
        tuple(frames),
        group,
    )


def attributes_of(error: BaseException) -> dict[str, Any]:
    """Return its ``__dict__``, with the notes. Some classes define ``__getattr__`` for any name."""
    found: dict[str, Any] = _get(error, "__dict__")
    return found


def notes_of(error: BaseException) -> list[str]:
    """Return its notes; none if something else has replaced them."""
    notes = attributes_of(error).get("__notes__")
    return [str(note) for note in notes] if isinstance(notes, list | tuple) else []


def add_note(error: BaseException, note: str) -> None:
    """Add a note to any exception: some classes refuse new attributes."""
    attributes_of(error)["__notes__"] = [*notes_of(error), note]


def bare(kind: type[BaseException], group: tuple[str, list[BaseException]] | None = None) -> Any:
    """Make an exception of that type without any state; TypeError if impossible.

    ``group`` is needed now: a group's exceptions can't be set later.
    """
    if group is not None:
        try:
            return BaseExceptionGroup.__new__(kind, *group)  # type: ignore[type-var]
        except TypeError:  # it has exceptions that are no `Exception`, though the type says so
            shell = type("_Group", kind.__bases__[:1], {})
            made: Any = BaseExceptionGroup.__new__(shell, *group)
            made.__class__ = kind
            return made
    native = kind
    while not isinstance(vars(native).get("__new__"), BuiltinFunctionType):
        native = native.__base__  # type: ignore[assignment]
    return vars(native)["__new__"](kind)


def fill(error: BaseException, state: ExceptionState) -> None:
    """Put a state into an exception. Values without a slot in its type are left out."""
    _set(error, "args", state.args)
    attributes_of(error).update(state.attributes)
    slots = _slots(type(error))
    for name, value in state.slots.items():
        if name in slots:
            try:
                slots[name].__set__(error, value)
            except (AttributeError, TypeError):  # read-only, in a C library's class
                continue
    _set(error, "__cause__", state.cause)
    _set(error, "__context__", state.context)
    _set(error, "__suppress_context__", state.suppress_context)
    _set(error, "__traceback__", traceback_of(state.frames))


def become(kind: type[BaseException], error: BaseException) -> Any:
    """Make an exception of another type with this one's state and traceback."""
    state = exception_state_of(error, ())
    made = bare(kind, state.group)
    fill(made, state)
    _set(made, "__traceback__", _get(error, "__traceback__"))
    return made


def _get(error: BaseException, name: str) -> Any:
    return _OF_ALL[name].__get__(error)


def _set(error: BaseException, name: str, value: Any) -> None:
    _OF_ALL[name].__set__(error, value)


def _slots(kind: type) -> dict[str, Any]:
    """Return the descriptors of its slots; of each name the first."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        if base is not BaseExceptionGroup:  # a group's are set when it is made
            for name, slot in vars(base).items():
                is_one = isinstance(slot, MemberDescriptorType | GetSetDescriptorType)
                if is_one and name not in _COMMON:
                    found.setdefault(name, slot)
    return found


def _slots_of(error: BaseException) -> dict[str, Any]:
    found = {}
    for name, slot in _slots(type(error)).items():
        try:
            value = slot.__get__(error)
        except AttributeError:  # it isn't set
            continue
        if value is not None or slot.__objclass__.__module__ != "builtins":  # None: not set
            found[name] = value
    return found


# -- where it was raised ---------------------------------------------------------------------------


def traceback_of(frames: Sequence[Frame]) -> TracebackType | None:
    """Make a traceback of frames from elsewhere: their places, without variables.

    Anything that shows tracebacks can show it: Python, logging, pytest.
    """
    found: TracebackType | None = None
    for filename, line, function, _ in reversed(frames):
        found = TracebackType(found, _frame(filename, max(line, 0), function), 0, max(line, 0))
    return found


def _frame(filename: str, line: int, function: str) -> FrameType:
    """Return a frame of a generator that never ran: other frames would keep their callers alive.

    Its first instruction is on its first line, and has no columns that could be underlined.
    """
    code = _template.__code__
    code = code.replace(
        co_filename=filename,
        co_name=function,
        co_qualname=function,
        co_firstlineno=line,
    )
    frame: FrameType = FunctionType(code, {"__name__": "__remote__"})().gi_frame
    return frame


def _template() -> Iterator[None]:
    yield
