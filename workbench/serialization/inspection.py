"""Finds the parts of an object that can't be pickled: where, why, what to do. Makes the error."""

from __future__ import annotations

import io
import socket
import threading
import time
import types
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from workbench.errors import SerializationError
from workbench.markup import Rich, Table, code, page
from workbench.report.format import human_count
from workbench.serialization.arrays import Reducers
from workbench.serialization.paths import path_text
from workbench.serialization.pickler import ByteCounter, Pickler
from workbench.serialization.tracing import BATCH, TooDeepError, TooManyObjectsError, TracingPickler

MOST_OBJECTS = 2_000_000
"""Objects looked at before the inspection ends with what it has found: some ten seconds."""

MOST_LOOKED_AT = 200_000
"""Objects searched for the cause before an error is raised: about a second."""

MOST_SHOWN = 5
"""Failing parts listed in a message; all are in its ``failures``."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One part that can't be serialized.

    Attributes
    ----------
    path : str
        Where it is, as one would write it: ``model.callbacks[2].logger.lock``.
    type : str
        What it is.
    why : str
        What Python says.
    advice : str
        What to do about it.
    """

    path: str
    type: str
    why: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path} ({self.type}): {self.why}\n    {self.advice}"


class _Answer(NamedTuple):
    ok: bool
    failures: tuple[Failure, ...]


class Inspection(Rich, _Answer):
    """The answer of `inspect`: ``ok, failures = ...``.

    Attributes
    ----------
    name : str
        What was inspected.
    only_first : int
        How many objects were looked at, if there are more; 0: it was all of them.
    """

    name = "It"
    only_first = 0

    def __str__(self) -> str:
        if self.ok:
            return f"`{self.name}` can be stored."
        count = len(self.failures)
        head = f"{count} part{'s' if count > 1 else ''} can't be stored{self._limit()}:"
        return "\n".join([head, *(f"  {failure}" for failure in self.failures)])

    def _limit(self) -> str:
        if not self.only_first:
            return ""
        return f" (looked at the first {human_count(self.only_first)} objects)"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        if self.ok:
            return page(str(self))
        head = (f"can't be stored{self._limit()}", "type", "why, and what to do")
        rows = ((code(f.path), f.type, f"{f.why} {f.advice}") for f in self.failures)
        return page(Table(head, tuple(rows)).html())


PATIENCE = 1.0
"""Seconds of trying batches that turned out to be large."""

FLATTEN = (
    "Flatten it: a list of rows instead of a list in a list in a list, a list of nodes with "
    "indices instead of a chain of references."
)


def inspect(
    value: Any, reducers: Reducers, name: str = "", *, most: int = MOST_OBJECTS
) -> Inspection:
    """Find every part of a value that can't be serialized; doesn't stop at the first.

    ``most`` objects are looked at; numbers and short texts are not counted.
    """
    root = name or name_of(value)
    inspector = _Inspector(reducers, root, most)
    ended_early = False
    try:
        inspector.trace(value)
    except TooManyObjectsError:
        ended_early = True
        try:
            if not inspector.failures:
                _pickle(value, reducers)
        except Exception as error:
            where = f"It is not among the first {human_count(most)} objects. Inspect a part of it."
            inspector.failures.append(Failure(root, type_of(value), said(error), where))
    except TooDeepError as error:
        inspector.failures.append(Failure(root, type_of(value), said(error), FLATTEN))
    found = Inspection(not inspector.failures, tuple(dict.fromkeys(inspector.failures)))
    found.name, found.only_first = root, most if ended_early else 0
    return found


def name_of(value: Any) -> str:
    """What a value is called if nobody says: ``train``, ``DataFrame``."""
    name = getattr(value, "__name__", "")
    return name if name and isinstance(name, str) else type(value).__name__


class _Inspector(TracingPickler):
    """Goes on without what fails, and writes it down."""

    def __init__(self, reducers: Reducers, root: str, most: int) -> None:
        counter = ByteCounter()
        super().__init__(reducers, root, counter, counter.add_buffer, most)
        self.failures: list[Failure] = []
        self._reducers = reducers
        self._patience = PATIENCE

    def failed(self, error: Exception) -> bool:
        part = self.path[-1].object
        if isinstance(error, SerializationError) and type(part) in self._reducers:
            name = type(part).__name__
            advice = f"Correct its serializer, or `deregister_serializer({name})`."
        else:
            advice = advice_for(part)
        self.failures.append(Failure(path_text(self.path), type_of(part), said(error), advice))
        return True

    def _save_items(self, batches: Iterable[list[Any]]) -> None:
        super()._save_items(map(self._doubtful, batches))

    def _save_pairs(self, batches: Iterable[list[tuple[Any, Any]]]) -> None:
        super()._save_pairs(map(self._doubtful, batches))

    def _doubtful(self, batch: list[Any]) -> list[Any]:
        """The batch, or none of it if the C pickler takes all of it: that is so much faster."""
        if len(batch) < BATCH or self._patience < 0:
            return batch
        started = time.perf_counter()
        try:
            _pickle(batch, self._reducers)
        except Exception:
            return batch
        finally:  # what leads back to the whole would be pickled with each of its parts
            if time.perf_counter() - started > 0.1:
                self._patience -= time.perf_counter() - started
        self.path[-1].pass_by(batch)
        return []


def _pickle(value: Any, reducers: Reducers) -> None:
    """With the C pickler, to see whether it raises."""
    counter = ByteCounter()
    Pickler(counter, reducers, counter.add_buffer).dump(value)


def cannot_pickle(
    error: Exception, parts: Mapping[str, Any], reducers: Reducers
) -> SerializationError:
    """The error for a value that couldn't be serialized, and why: what the pickler raised.

    ``parts`` is the value under the name that people know it by, or its parts under theirs.
    """
    failures: list[Failure] = []
    for name, part in parts.items():
        failures += inspect(part, reducers, name, most=MOST_LOOKED_AT).failures
    described = SerializationError(_text(error, parts, failures), failures)
    for note in getattr(error, "__notes__", ()):
        described.add_note(note)
    return described


def _text(error: Exception, parts: Mapping[str, Any], failures: list[Failure]) -> str:
    names = " or ".join(parts) if len(parts) < 4 else "Something"
    if not failures:  # perhaps the C pickler recurses less deeply than the tracing one
        is_deep = isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError)
        return f"{names} can't be serialized: {said(error)}" + (f". {FLATTEN}" if is_deep else "")
    first = failures[0].path
    if len(failures) == 1 and first in parts:
        head = f"{first} can't be serialized."
    else:
        owners = [name for name in parts if any(name in f.path for f in failures)]
        head = f"{' and '.join(owners) or names} can't be serialized, because of:"
    lines = [f"  {failure}" for failure in failures[:MOST_SHOWN]]
    if len(failures) > MOST_SHOWN:
        lines.append(f"  … and {len(failures) - MOST_SHOWN} more: the error's `failures`.")
    return "\n".join([head, *lines])


# -- how it is said -------------------------------------------------------------------------------


def type_of(value: Any) -> str:
    """``_thread.lock``, ``generator``, ``Model``."""
    kind = type(value)
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def said(error: BaseException) -> str:
    """The first line of what an error says; never raises, whatever its ``__str__`` does."""
    try:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    except Exception:
        return type(error).__name__


_LOCK_TYPES = (type(threading.Lock()), type(threading.RLock()))
_ADVICE: list[tuple[tuple[type, ...], str]] = [
    (
        (*_LOCK_TYPES, threading.Event, threading.Condition, threading.Semaphore),
        "A lock guards the memory of one process. Leave it out in `__getstate__` and make a new "
        "one in `__setstate__`, or create it inside the task.",
    ),
    (
        (types.GeneratorType, types.AsyncGeneratorType, types.CoroutineType),
        "It is half-way through a run that can't be copied. Make a list of it, or call the "
        "function that makes it inside the task.",
    ),
    ((io.IOBase,), "An open file belongs to one process. Pass its path and open it there."),
    ((socket.socket,), "A connection belongs to one process. Connect inside the task."),
    ((threading.Thread,), "A thread runs in one process. Start it inside the task."),
    (
        (weakref.ref, weakref.WeakKeyDictionary, weakref.WeakValueDictionary),
        "A weak reference means nothing in another process. Leave it out in `__getstate__`.",
    ),
    (
        (types.FrameType, types.TracebackType),
        "It refers to a running program. Keep its text instead (`traceback.format_exception`).",
    ),
]
_CONNECTIONS = ("Connection", "Cursor", "Session", "Client", "Engine")


def advice_for(value: Any) -> str:
    """What to do about a part that can't be serialized."""
    for kinds, advice in _ADVICE:
        if isinstance(value, kinds):
            return advice
    if type(value).__name__.endswith(_CONNECTIONS):
        return "A connection belongs to one process. Connect inside the task that uses it."
    return (
        "Leave it out in its owner's `__getstate__`, or say how to store it: "
        f"`register_serializer({type(value).__name__}, serializer=..., deserializer=...)`."
    )
