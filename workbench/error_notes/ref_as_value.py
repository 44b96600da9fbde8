"""Note on a ref used as its value: which one it was, and how to get the value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from traceback import walk_tb
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from workbench.call_site import OURS
from workbench.engine.queries import Describe
from workbench.error_notes.readonly import named_at
from workbench.errors import ObjectFreedError
from workbench.ref import ObjectRef

if TYPE_CHECKING:
    from workbench.engine.base import Engine

KINDS = (AttributeError, TypeError, ValueError, RuntimeError)
"""Errors about a type that can't do something: from Python, numpy, pandas, torch."""

_CONTAINERS = (list, tuple, set, frozenset, dict)

_TEXTS = (ObjectRef.__name__, "can only join an iterable", "assign an iterable", "assign iterable")
"""Texts in Python's errors. Some don't name the type: then a ref must be named in the line."""

MOST_ITEMS = 100_000
"""Items of a container that is searched for the ref."""

Frames = list[tuple[FrameType, int]]


class _Misused(NamedTuple):
    """The ref, and the variable that is it, or contains it (``inside``); '' if none."""

    ref: ObjectRef
    name: str
    value: Any
    inside: bool


def note_of(
    error: BaseException,
    variables: Mapping[str, Any],
    maker: Callable[[ObjectRef], str] | None,
) -> str:
    """Return how to get the value, if the error is such; else ''. Asks the session only then."""
    found = _misused(error) if isinstance(error, KINDS) else None
    return "" if found is None else _text(found, variables, maker)


# -- which ref -------------------------------------------------------------------------------------


def _misused(error: BaseException) -> _Misused | None:
    """Return the misused ref; None if the error is about something else, which its text tells."""
    frames = list(walk_tb(error.__traceback__))
    ref: ObjectRef | None = None
    if isinstance(error, AttributeError) and error.obj is not None:
        if type(error.obj) is not ObjectRef:
            return None
        ref = error.obj
    elif not frames or not any(text in str(error) for text in _TEXTS):
        return None
    elif frames[-1][0].f_code is ObjectRef._is_no_value.__code__:
        ref = frames[-1][0].f_locals["self"]
    elif frames[-1][0].f_code.co_filename.startswith(OURS):
        return None  # our own errors explain themselves
    return _called(ref, frames)


def _called(ref: ObjectRef | None, frames: Frames) -> _Misused | None:
    """Find the outermost name of the ref: there a person can replace it by the value.

    Without a ``ref``, take the first one named, from the innermost frame on.
    """
    if ref is None:
        named = (value for _, value in _named(reversed(frames)))
        ref = next((each for value in named for each in _refs_in(value)), None)
        if ref is None:
            return None
    holder = _Misused(ref, "", None, False)
    for name, value in _named(frames):
        if value is ref:
            return _Misused(ref, name, value, False)
        if not holder.name and any(each is ref for each in _refs_in(value)):
            holder = _Misused(ref, name, value, True)
    return holder


def _named(frames: Iterable[tuple[FrameType, int]]) -> Iterator[tuple[str, Any]]:
    for frame, line in frames:
        yield from named_at(frame, line)


def _refs_in(value: Any) -> Iterator[ObjectRef]:
    if type(value) is ObjectRef:
        yield value
    elif type(value) in _CONTAINERS and len(value) <= MOST_ITEMS:
        items = value.values() if type(value) is dict else value
        yield from (each for each in items if type(each) is ObjectRef)


# -- the words -------------------------------------------------------------------------------------


def _text(
    found: _Misused,
    variables: Mapping[str, Any],
    maker: Callable[[ObjectRef], str] | None,
) -> str:
    ref, name, value, inside = found
    cell = maker(ref) if maker is not None else ""
    what, waits, is_there = _object(cast("Engine", ref._engine), ref, cell)
    if not name:
        subject = f"The value used here is a ref to {what}"
    elif inside:
        subject = f"`{name}` contains refs, one of them to {what}"
    else:
        subject = f"`{name}` is a ref to {what}"
    if not is_there:
        return f"{subject}."
    values = "the values" if inside else "the value"
    it = "them" if inside else "it"
    if name and variables.get(name) is value and not isinstance(value, set | frozenset | dict):
        way = f"`%get {name}` {f'waits for {it} and ' * waits}binds {values}"
        by_itself = "; `--wait` does so by itself" if cell else ""
        return f"{subject}: {way}{by_itself}."
    listed = f"list({name or 'refs'})" if isinstance(value, set | frozenset) else name or "ref"
    listed = f"list({name}.values())" if isinstance(value, dict) else listed
    return f"{subject}: `wb.get({listed})` {f'waits for {it} and ' * waits}returns {values}."


def _object(engine: Engine, ref: ObjectRef, cell: str) -> tuple[str, bool, bool]:
    """Describe what it refers to; and return whether it must be awaited, and whether it exists."""
    if engine.end_reason is not None:
        return "an object of a session that is over", False, False
    described = engine.ask(Describe(ref.id))
    record = None if described is None else described.object
    if record is not None and record.state == "pending":
        task = described.task if described is not None else None
        who = cell or (f"the task `{task.name}`" if task else "a task")
        does = "is making" if task is None or task.state == "running" else "will make"
        return f"what {who} {does}", True, True
    if engine.state(ref) == "failed" or (record is not None and record.state == "failed"):
        return _failed(engine, ref, cell)
    if record is None:
        what = "an object that the session doesn't have any more, or doesn't tell of just now"
        return what, False, False
    if cell:
        return f"what {cell} made", False, True
    if record.about is None:
        return "a task's result", False, True
    return f"a stored {record.about.type.partition(' ')[0]}", False, True


def _failed(engine: Engine, ref: ObjectRef, cell: str) -> tuple[str, bool, bool]:
    try:
        engine.get([ref], 0, False)
    except ObjectFreedError:
        return "an object that was freed: put it again, or make it again", False, False
    except Exception:
        pass
    return f"what {cell or 'a task'} failed to make: its error says why", False, False
