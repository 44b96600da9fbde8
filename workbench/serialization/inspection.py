"""What in an object can't be serialized: where, why, and what to do. Stores and sends nothing."""

from __future__ import annotations

import html
import io
import socket
import sys
import threading
import types
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from workbench.serialization.pickler import Reducer
from workbench.serialization.tracing import Place, TracingPickler, path_text, short

MOST_OBJECTS = 2_000_000
"""Objects looked at before the inspection ends with what it has found: some ten seconds."""

MOST_ROWS = 1_000_000
"""Rows of a table that are searched for the cell that failed."""


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


class Inspection(NamedTuple):
    """The answer of `inspect`: ``ok, failures = ...``."""

    ok: bool
    failures: tuple[Failure, ...]

    def __str__(self) -> str:
        if self.ok:
            return "It can be serialized."
        count = len(self.failures)
        head = f"{count} part{'s' if count > 1 else ''} can't be serialized:"
        return "\n".join([head, *(f"  {failure}" for failure in self.failures)])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        if self.ok:
            return "<p>It can be serialized.</p>"
        rows = "".join(
            f'<tr><td style="text-align: left"><code>{html.escape(f.path)}</code></td>'
            f'<td style="text-align: left">{html.escape(f.type)}</td>'
            f'<td style="text-align: left">{html.escape(f.why)}<br>'
            f"{html.escape(f.advice)}</td></tr>"
            for f in self.failures
        )
        return (
            "<table><thead><tr><th>can't be serialized</th><th>type</th><th>why, and what to do"
            f"</th></tr></thead><tbody>{rows}</tbody></table>"
        )


class _EnoughError(Exception):
    """Too many objects to go on."""


def inspect(value: Any, reducers: Mapping[type, Reducer], name: str = "") -> Inspection:
    """Find every part of a value that can't be serialized; doesn't stop at the first.

    Parameters
    ----------
    value : object
        Anything.
    reducers : mapping of type → reducer
        As for `codec.serialize`.
    name : str
        What the paths begin with; default the value's own name, or its type's.
    """
    failures: list[Failure] = []
    looked = 0

    def failed(path: list[Place], error: Exception) -> bool:
        nonlocal looked
        if isinstance(error, _EnoughError):
            return False
        part = path[-1].object
        failures.append(
            Failure(_located(path), type_of(part), _first_line(error), advice_for(part))
        )
        return True

    class Inspector(TracingPickler):
        def save_here(self, obj: Any) -> None:
            nonlocal looked
            looked += 1
            if looked > MOST_OBJECTS:
                raise _EnoughError
            super().save_here(obj)

    root = name or getattr(value, "__name__", "") or type(value).__name__
    try:
        Inspector(reducers, root, failed, file=_Nowhere(), buffer_callback=_ignore).trace(value)
    except _EnoughError:
        pass
    except RecursionError as error:
        depth = "It is nested too deeply, perhaps a long linked list. Store it as a flat list."
        failures.append(Failure(root, type_of(value), _first_line(error), depth))
    return Inspection(not failures, tuple(dict.fromkeys(failures)))


class _Nowhere(io.RawIOBase):
    """Where the bytes go."""

    def write(self, data: Any) -> int:
        return len(data)


def _ignore(buffer: Any) -> None:
    """Out-of-band buffers can always be stored."""


# -- how it is said -------------------------------------------------------------------------------


def type_of(value: Any) -> str:
    """``_thread.lock``, ``generator``, ``Model``."""
    kind = type(value)
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


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


def _located(path: list[Place]) -> str:
    """The path; through a pandas object by column and row rather than by its inner blocks."""
    pandas: Any = sys.modules.get("pandas")
    if pandas is not None:
        for i, place in enumerate(path):
            if isinstance(place.object, pandas.DataFrame | pandas.Series):
                for j in range(i + 1, len(path)):
                    cell = _cell_of(place.object, path[j].object)
                    if cell:
                        return path_text(path[: i + 1]) + cell + path_text(path[j + 1 :])
    return path_text(path)


def _cell_of(table: Any, value: Any) -> str:
    """Where in a table this very object is."""
    columns = table.items() if table.ndim == 2 else [(None, table)]
    for name, column in columns:
        if column.dtype == object:
            for row, cell in zip(column.index, column.array[:MOST_ROWS], strict=False):
                if cell is value:
                    where = f" row {short(row)}"
                    return where if name is None else f" column {short(name)}{where}"
    return ""
