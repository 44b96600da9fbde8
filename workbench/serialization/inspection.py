"""Finds the parts of an object that can't be pickled: where, why, what to do. Makes the error."""

from __future__ import annotations

import enum
import pickle
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NamedTuple, NoReturn

from workbench.errors import SerializationError
from workbench.expressions import error_line, type_of
from workbench.format import human_count
from workbench.ray_api import IN_FAILURES, missing
from workbench.report.markup import Rich, Table, code, page
from workbench.serialization import interchange
from workbench.serialization.arrays import Reducers
from workbench.serialization.paths import path_text
from workbench.serialization.pickler import ByteCounter, is_picklable, try_pickling
from workbench.serialization.process_bound import (
    Bound,
    bound_to_process,
    is_of_library,
    looks_connected,
)
from workbench.serialization.roundtrip import Broken, NotTriedError, first_broken
from workbench.serialization.tracing import (
    BATCH,
    EndlessError,
    TooDeepError,
    TooManyObjectsError,
    TracingPickler,
)

MOST_OBJECTS = 2_000_000
"""Objects examined before the inspection ends with what it has found: some ten seconds."""

MOST_LOOKED_AT = 200_000
"""Objects searched for the cause before an error is raised: about a second."""

MOST_SHOWN = 5
"""Failing parts listed in a message, similar ones as one; all are in its ``failures``."""

MOST_LISTED = 20
"""Failing parts listed by an inspection, similar ones as one."""

PATIENCE = 1.0
"""Seconds of work on trying batches that turned out to be large."""

FLATTEN = (
    "Flatten it: a list of rows instead of a list in a list in a list, a list of nodes with "
    "indices instead of a chain of references."
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One part that can't be serialized.

    Attributes
    ----------
    path : str
        The expression for it: ``model.callbacks[2].logger.lock``.
    type : str
        Its type, in words for people.
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

    def __getattr__(self, name: str) -> NoReturn:
        raise missing("'Failure' object", name, IN_FAILURES)


class _Answer(NamedTuple):
    ok: bool
    failures: tuple[Failure, ...]


class Inspection(Rich, _Answer):
    """The answer of `inspect`: ``ok, failures = ...``.

    Attributes
    ----------
    name : str
        Name of the inspected value.
    only_first : int
        Number of objects examined, if there are more; 0: all were examined.
    not_tried : str
        Why it isn't known whether the value can be rebuilt from its pickle; empty: it is known.
    """

    name = "It"
    only_first = 0
    not_tried = ""

    def _text(self) -> str:
        if self.ok:
            untried = f" Whether it can be built again was not tried: {self.not_tried}."
            return f"`{self.name}` can be stored{self._limit()}.{untried * bool(self.not_tried)}"
        count = len(self.failures)
        head = f"{count} part{'s' if count > 1 else ''} can't be stored{self._limit()}:"
        return "\n".join([head, *listed(self.failures, MOST_LISTED, "the answer's")])

    def _limit(self) -> str:
        if not self.only_first:
            return ""
        return f" (looked at the first {human_count(self.only_first)} objects)"

    __repr__ = _Answer.__repr__

    _repr_pretty_ = Rich._repr_pretty_  # IPython takes what stands in the class of a `__repr__`

    def _repr_html_(self) -> str:
        if self.ok:
            return page(str(self))
        head = (f"can't be stored{self._limit()}", "type", "why", "what to do")
        groups = alike(self.failures)
        rows: list[tuple[Any, str, str, str]] = [
            (code(f.path), f.type, f.why, " ".join([f.advice, *_others(f, *more)]))
            for f, *more in groups[:MOST_LISTED]
        ]
        left = sum(map(len, groups[MOST_LISTED:]))
        if left:
            rows.append((f"… and {left} more", "", "", "all are in the answer's `failures`"))
        return page(Table(head, tuple(rows)).html())


def alike(failures: Sequence[Failure]) -> list[list[Failure]]:
    """Group failures whose paths differ only in numbers and keys."""
    groups: dict[Any, list[Failure]] = {}
    for f in failures:
        place = re.sub(r"\[[^\[\]]*\]", "[…]", f.path)
        groups.setdefault((place, f.type, f.why, f.advice), []).append(f)
    return list(groups.values())


def _others(first: Failure, *others: Failure) -> list[str]:
    if not others:
        return []
    count = "one more is" if len(others) == 1 else f"{human_count(len(others))} more are"
    return [f"And {count} like it, up to {others[-1].path}."]


def listed(failures: Sequence[Failure], most: int, whose: str) -> Iterator[str]:
    """Yield lines that list the failures, similar ones as one, at most ``most``."""
    groups = alike(failures)
    for group in groups[:most]:
        yield f"  {group[0]}"
        yield from (f"    {line}" for line in _others(*group))
    left = sum(map(len, groups[most:]))
    if left:
        yield f"  … and {human_count(left)} more: {whose} `failures`."


def inspect(
    value: Any,
    reducers: Reducers,
    name: str = "",
    *,
    most: int = MOST_OBJECTS,
    rebuild: bool = True,
) -> Inspection:
    """Find every part of a value that can't be serialized; doesn't stop at the first.

    About ``most`` objects are examined, numbers and short texts not counted. If all can be pickled,
    the value is rebuilt, to see whether that works (unless ``rebuild`` is False).
    """
    root = name or name_of(value)
    inspector = _Inspector(reducers, root, most)
    ended_early, not_tried = False, ""
    try:
        inspector.trace(value)
    except TooManyObjectsError:
        ended_early = True
        try:
            if not inspector.failures:
                try_pickling(value, reducers)
        except Exception as error:
            where = f"It is not among the first {human_count(most)} objects. Inspect a part of it."
            inspector.failures.append(Failure(root, type_of(value), error_line(error), where))
    except EndlessError as error:
        inspector.failures.append(_endless(error, reducers))
    except TooDeepError as error:
        # Python 3.13's C pickler recurses deeper than this tracer, and than a small stack allows.
        tries = inspector.has_large_stack and not inspector.failures
        if not (tries and is_picklable(value, reducers)):
            inspector.failures.append(Failure(root, type_of(value), error_line(error), FLATTEN))
    failures = list(dict.fromkeys(inspector.failures))
    if rebuild and not failures:
        try:
            failures += map(_not_rebuilt, filter(None, [first_broken(value, reducers, root)]))
        except NotTriedError as reason:
            not_tried = str(reason)
        except (RecursionError, pickle.PicklingError) as error:  # C code recurses less deeply
            failures.append(Failure(root, type_of(value), error_line(error), FLATTEN))
    found = Inspection(not failures, tuple(failures))
    found.name, found.only_first = root, most if ended_early else 0
    found.not_tried = not_tried
    return found


def _endless(error: EndlessError, reducers: Reducers) -> Failure:
    """Describe the cycle, and its cause: a registered serializer, or the class's own method."""
    part = error.path[-1].object
    kind = type(part)
    name = kind.__qualname__
    who = f"the serializer registered for {name}" if kind in reducers else f"{name}.__reduce__"
    again = f"the {name} itself" if error.is_itself else f"another {name}"
    why = f"what {who} returns contains {again}, and so on without end"
    advice = f"Return what a new {name} can be made from, such as a path: not a {name}."
    return Failure(path_text(error.path), type_of(part), why, advice)


def _not_rebuilt(broken: Broken) -> Failure:
    why = f"can be pickled, but not built again: {broken.text}"
    return Failure(broken.path, type_of(broken.part), why, _advice_to_rebuild(broken))


def name_of(value: Any) -> str:
    """Return a value's name if the caller gives none: ``train``, ``DataFrame``."""
    try:
        name = value.__name__
    except Exception:  # it has no name, or the attribute raises
        name = ""
    return name if name and isinstance(name, str) else type(value).__name__


class _Inspector(TracingPickler):
    """Records what fails, and goes on without it.

    An object bound to one process, or a private part of an installed class, is one failure,
    whatever else in it can't be pickled.
    """

    def __init__(self, reducers: Reducers, root: str, most: int) -> None:
        counter = ByteCounter()
        super().__init__(counter, reducers, counter.add_buffer, root, most)
        self.failures: list[Failure] = []
        self._patience = PATIENCE
        self._bound: dict[type, Bound | None] = dict.fromkeys(reducers)
        self._wholes: set[str] = set()
        self._in_tables: set[int] = set()

    def save_here(self, obj: Any) -> None:
        kind = type(obj)
        if kind not in self._bound:
            self._bound[kind] = bound_to_process(kind)
        if self._bound[kind] is not None:
            try_pickling(obj, self._reducers)  # if it raises, its parts need no inspection
        super().save_here(obj)

    def failed(self, error: Exception) -> bool:
        part = self.path[-1].object
        path = path_text(self.path)
        if any(step.cells is not None for step in self.path):
            is_unnamed = any(step.cells and not step.label for step in self.path)
            if is_unnamed and id(part) in self._in_tables:  # pandas pickles its index twice
                return True
            self._in_tables.add(id(part))
        whole = self._whole()
        if whole is not None:
            path, part, advice = whole
            if path in self._wholes:
                return True
            self._wholes.add(path)
        elif isinstance(error, SerializationError) and type(part) in self._reducers:
            advice = _correct("serializer", type(part))
        else:
            advice = self._instead() or advice_for(part)
        members = (s.object for s in self.path if issubclass(type(s.object), enum.Enum))
        member = next(members, None)
        if member is not None and path.endswith(".value"):  # it is in the member's class, too
            twin = f"{path.removesuffix('.value')}.__class__.{member.name}.value"
            self.failures = [f for f in self.failures if f.path != twin]
        self.failures.append(Failure(path, type_of(part), error_line(error), advice))
        return True

    def _instead(self) -> str:
        """Advise what to store of the failing part, or of its owner, if they offer their data."""
        owners = (step.object for step in self.path[:-3:-1])
        return next(filter(None, map(interchange.advice, owners)), "")

    def _whole(self) -> tuple[str, Any, str] | None:
        """Return path, object and advice, if a private part of an installed class fails.

        None if an object of the user's is between the two: the user can change that.
        """
        last = self.path[-1].object
        for n, step in enumerate(self.path[:-1]):
            below = [s.label for s in self.path[n + 1 :] if s.label]
            if not below or not below[0].startswith("._") or below[0].startswith(".__"):
                continue
            inner = (s.object for s in self.path[n + 1 :])
            if not _is_of_library(step.object) or any(map(_is_of_user, inner)):
                continue
            bound = bound_to_process(type(last))
            why = "which belongs to one process" if bound else "which can't be pickled"
            what = bound.what if bound else type_of(last)
            kind = type(step.object).__name__
            advice = (
                interchange.advice(step.object)
                or f"{kind} keeps {what} (`{''.join(below)}`), {why}: make it inside the task."
            )
            return path_text(self.path[: n + 1]), step.object, advice
        return None

    def _batches(self, items: Iterable[Any], many: bytes, one: bytes = b"") -> Iterator[list[Any]]:
        return map(self._doubtful, super()._batches(items, many, one))

    def _doubtful(self, batch: list[Any]) -> list[Any]:
        """Return the batch; empty if the C pickler takes all of it, which is far faster."""
        if len(batch) < BATCH or self._patience < 0:
            return batch
        started = time.thread_time()
        try:
            try_pickling(batch, self._reducers)
        except Exception:
            return batch
        finally:  # a part that refers to the whole would pickle the whole each time
            if (spent := time.thread_time() - started) > 0.1:
                self._patience -= spent
        self.path[-1].skip(batch)
        return []


def _is_of_library(obj: Any) -> bool:
    """True if it is an instance of an installed package's class, and no container."""
    kind = type(obj)  # not `isinstance`: a proxy's `__class__` may raise
    if issubclass(kind, type) or str(kind.__module__).partition(".")[0] in _CONTAINERS:
        return False
    return is_of_library(kind)


_CONTAINERS = frozenset(
    {"builtins", "collections", "functools", "numpy", "pandas", "polars", "pyarrow", "scipy"}
)


def _is_of_user(obj: Any) -> bool:
    """True if it is a function or class that isn't installed, or an instance of such a class."""
    is_code = issubclass(type(obj), type | FunctionType)
    return not is_of_library(obj if is_code else type(obj))


def cannot_pickle(
    error: Exception, parts: Mapping[str, Any], reducers: Reducers
) -> SerializationError:
    """Return the error for a value that couldn't be serialized; ``error`` is the pickler's.

    ``parts`` has the value by the name that people know, or its parts by theirs.
    """
    failures: list[Failure] = []
    for name, part in parts.items():
        failures += inspect(part, reducers, name, most=MOST_LOOKED_AT, rebuild=False).failures
    described = SerializationError(_text(error, parts, failures), failures)
    for note in getattr(error, "__notes__", ()):
        described.add_note(note)
    return described


def _text(error: Exception, parts: Mapping[str, Any], failures: list[Failure]) -> str:
    names = " or ".join(parts) if len(parts) < 4 else "Something"
    if not failures:  # perhaps the C pickler recurses less deeply than the tracing one
        is_deep = isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError)
        if is_deep:
            return f"{names} can't be serialized: it is nested too deeply. {FLATTEN}"
        return f"{names} can't be serialized: {error_line(error)}"
    first = failures[0].path
    if len(failures) == 1 and first in parts:
        head = f"{first} can't be serialized."
    else:
        owners = [name for name in parts if any(name in f.path for f in failures)]
        head = f"{' and '.join(owners) or names} can't be serialized, because of:"
    return "\n".join([head, *listed(failures, MOST_SHOWN, "the error's")])


# -- advice ----------------------------------------------------------------------------------------


def advice_for(value: Any) -> str:
    """Return advice about a part that can't be serialized."""
    bound = bound_to_process(type(value)) or looks_connected(type(value))
    if bound is not None:
        return bound.advice
    if _has_reduce(type(value)):
        return _correct_reduce(type(value))
    register = _register(type(value))
    return f"Leave it out in its owner's `__getstate__`, or say how to store it: {register}"


def _advice_to_rebuild(broken: Broken) -> str:
    """Return advice about a part that can be pickled but not rebuilt."""
    part, kind = broken.part, type(broken.part)
    name = kind.__qualname__
    if not broken.is_found:
        return "It is not known what in it: inspect a part of it."
    if broken.error is SerializationError:
        return _correct("deserializer", kind)
    if broken.error in (AttributeError, ImportError):
        return "Define it in a module that can be imported, or make it inside the task."
    if isinstance(part, BaseException):
        return (
            f"Pass all that `{name}.__init__` takes on to `super().__init__`, or give it a "
            "`__reduce__` that returns the class and the arguments."
        )
    if "__setstate__" in dir(kind):
        return f"Correct `{name}.__setstate__`: it gets what `__getstate__` returned."
    if _has_reduce(kind):
        return _correct_reduce(kind)
    return (
        f"Give {name} a `__reduce__` that returns the class and the arguments to make it with, or "
        f"say how: {_register(kind)}"
    )


def _has_reduce(kind: type) -> bool:
    """True if a class of the user's defines a ``__reduce__``."""
    owner = next(cls for cls in kind.__mro__ if "__reduce__" in vars(cls))
    return owner.__module__ != "builtins" and not is_of_library(owner)


def _correct_reduce(kind: type) -> str:
    name = kind.__qualname__
    return (
        f"Correct `{name}.__reduce__`: it returns the class, and a tuple of the arguments to make "
        f"it with. For one argument: `return {name}, (self.x,)`, with the comma."
    )


def _register(kind: type) -> str:
    return f"`register_serializer({kind.__name__}, serializer=..., deserializer=...)`."


def _correct(what: str, kind: type) -> str:
    return f"Correct its {what}, or `deregister_serializer({kind.__name__})`."
