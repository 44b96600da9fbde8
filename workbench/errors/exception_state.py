"""What an exception is made of: taken out of one, put into another of any type. Pickles nothing.

No code of the exception's own class runs here: neither ``__new__`` nor ``__init__``,
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
    """All that ``except E as e`` sees, but for the type.

    ``slots`` lie beside ``__dict__``, those of builtin types too: ``errno``, ``code``, ``obj``.
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


def state_of(error: BaseException, frames: Sequence[Frame]) -> ExceptionState:
    """What it is now."""
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
    """Its ``__dict__``, in which notes are too. Some classes answer for any name themselves."""
    found: dict[str, Any] = _get(error, "__dict__")
    return found


def notes_of(error: BaseException) -> list[str]:
    """Its notes; none if somebody has put something else in their place."""
    notes = attributes_of(error).get("__notes__")
    return [str(note) for note in notes] if isinstance(notes, list | tuple) else []


def add_note(error: BaseException, note: str) -> None:
    """`add_note` of any exception: some classes refuse new attributes."""
    attributes_of(error)["__notes__"] = [*notes_of(error), note]


def bare(kind: type[BaseException], group: tuple[str, list[BaseException]] | None = None) -> Any:
    """An exception of that type without any state; TypeError if there can't be one.

    A group's exceptions can't be set later.
    """
    if group is not None:
        try:
            return BaseExceptionGroup.__new__(kind, *group)  # type: ignore[type-var]
        except TypeError:  # it has some that are no `Exception`, and the type says it is one
            shell = type("_Group", kind.__bases__[:1], {})
            made: Any = BaseExceptionGroup.__new__(shell, *group)
            made.__class__ = kind
            return made
    native = kind
    while not isinstance(vars(native).get("__new__"), BuiltinFunctionType):
        native = native.__base__  # type: ignore[assignment]
    return vars(native)["__new__"](kind)


def fill(error: BaseException, state: ExceptionState) -> None:
    """Put a state into an exception. What its type has no slot for is left out."""
    _set(error, "args", state.args)
    attributes_of(error).update(state.attributes)
    slots = _slots(type(error))
    for name, value in state.slots.items():
        if name in slots:
            try:
                slots[name].__set__(error, value)
            except (AttributeError, TypeError):  # it is read-only: a C library's
                continue
    _set(error, "__cause__", state.cause)
    _set(error, "__context__", state.context)
    _set(error, "__suppress_context__", state.suppress_context)
    _set(error, "__traceback__", traceback_of(state.frames))


def become(kind: type[BaseException], error: BaseException) -> Any:
    """An exception of another type with the state of this one, and its traceback."""
    state = state_of(error, ())
    made = bare(kind, state.group)
    fill(made, state)
    _set(made, "__traceback__", _get(error, "__traceback__"))
    return made


def _get(error: BaseException, name: str) -> Any:
    return _OF_ALL[name].__get__(error)


def _set(error: BaseException, name: str, value: Any) -> None:
    _OF_ALL[name].__set__(error, value)


def _slots(kind: type) -> dict[str, Any]:
    """The descriptors of its slots; each name's first."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        if base is not BaseExceptionGroup:  # those of a group are set as it is made
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
        if value is not None or slot.__objclass__.__module__ != "builtins":  # None: nor is that
            found[name] = value
    return found


# -- where it was raised ---------------------------------------------------------------------------


def traceback_of(frames: Sequence[Frame]) -> TracebackType | None:
    """A traceback of frames that aren't here: their places, and no variables.

    Whatever shows tracebacks shows these: Python, logging, pytest.
    """
    found: TracebackType | None = None
    for filename, line, function, _ in reversed(frames):
        found = TracebackType(found, _frame(filename, max(line, 0), function), 0, max(line, 0))
    return found


def _frame(filename: str, line: int, function: str) -> FrameType:
    """That of a generator which never ran: another one would keep the frames of its callers.

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
