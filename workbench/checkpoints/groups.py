"""Pickles variables together, and finds what they share with others. Stores nothing."""

from __future__ import annotations

import dataclasses
import enum
import gc
import io
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from sys import getrefcount
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import xxhash

from workbench.checkpoints.records import StoredGroup
from workbench.engine.base import Engine
from workbench.engine.queries import Pack
from workbench.errors import SerializationError, StoreFullError
from workbench.expressions import describe
from workbench.ref import ObjectRef
from workbench.serialization.arrays import Array, owner_of
from workbench.serialization.comparison import PATIENCE, is_sealed
from workbench.serialization.object_state import FIXED, travels_by_value
from workbench.serialization.packing import OtherSide, PackedValues
from workbench.serialization.process_bound import bound_to_process
from workbench.serialization.shared_memory import arrays_of, bounds, is_of_pandas, stretches

_ALONE = FIXED | {tuple, frozenset, ObjectRef}
"""Types whose instances may be two objects afterwards, where they were one: they can't change."""


_IN_MEMORY = io.BytesIO, io.StringIO


class GroupPickle(NamedTuple):
    """Some variables at one moment.

    ``links``: ids of the objects in them that can change; ``spans``: the memory of their arrays,
    from address to address, in order. Variables that have one in common belong together. ``digest``
    is that of the pickle, without its buffers; ``uses``: names of the code that it refers to.
    ``altered``: variables that a pickle doesn't have as they are, and why.
    ``packed`` and ``held``, the objects of ``links``, keep alive what the variables have, and what
    pickling them has made; None once it is stored.
    """

    packed: PackedValues | None
    held: list[Any] | None
    digest: bytes
    links: frozenset[int]
    spans: list[tuple[int, int]]
    uses: frozenset[str]
    seconds: float
    altered: Mapping[str, str]


@dataclass(eq=False)
class VariableGroup:
    """Variables that are stored together, as they were compared after a cell.

    ``ids`` are those of the values, ``kinds`` their types. ``stored`` is what is stored of them;
    ``contents`` are the digests of its pickle and its buffers. ``full``: why it couldn't be stored.
    """

    names: tuple[str, ...]
    ids: Mapping[str, int]
    seen: GroupPickle
    since: int
    is_code: bool
    kinds: Mapping[str, str]
    contents: tuple[bytes, ...] = ()
    stored: StoredGroup | None = None
    full: StoreFullError | None = None

    def let_go(self) -> None:
        """Drop what keeps the variables' objects alive."""
        self.seen = self.seen._replace(packed=None, held=None)

    def as_stored(self) -> StoredGroup | None:
        """Return what is stored, with the last cell after which it was compared."""
        now: dict[str, Any] = {"since": self.since, "is_code": self.is_code, "kinds": self.kinds}
        return self.stored and dataclasses.replace(self.stored, **now, altered=self.seen.altered)


def look(
    engine: Engine, values: Mapping[str, Any], namespace: dict[str, Any], code: Mapping[int, str]
) -> GroupPickle:
    """Pickle variables of a namespace. Runs code of their classes.

    Parameters
    ----------
    engine : Engine
        The session that the pickle is for.
    values : mapping
        The variables.
    namespace : dict
        All variables: what functions have as globals.
    code : mapping
        Functions and classes, by id, that are written as their names.

    Raises
    ------
    SerializationError
        If something in them can't be pickled, or wouldn't be what it was, like an open file; the
        message says what and where.
    """
    began, at = time.thread_time(), time.monotonic()
    there = OtherSide(namespace=namespace, code=code)
    packed, memo = engine.ask(Pack(dict(values), lambda: values, there))
    paused = gc.isenabled()  # for a million objects, collection would quadruple the time
    gc.disable()
    try:
        held, spans, uses, others = _sorted(_met(memo), code, namespace)
    finally:
        if paused:
            gc.enable()
    digest = xxhash.xxh3_128_digest(packed.stream)
    seconds = max(time.thread_time() - began, (time.monotonic() - at) / PATIENCE)
    links = frozenset(map(id, held))
    if id(namespace) in links:
        raise SerializationError("it has all variables of the notebook, as globals() does")
    names = {id(value): [name] for name, value in values.items()}
    altered = {name: why for obj, why in others for name in names.get(id(obj), values)}
    spans = [(begin, end) for begin, end, _ in stretches((*each, None) for each in spans)]
    return GroupPickle(packed, held, digest, links, spans, frozenset(uses), seconds, altered)


def look_at_most(
    engine: Engine, values: Mapping[str, Any], namespace: dict[str, Any], code: Mapping[int, str]
) -> tuple[GroupPickle | None, dict[str, Exception]]:
    """Pickle variables as `look` does, without those that can't be; return these with the errors.

    MemoryError passes: it says nothing of a variable. None if none is left.
    """
    left, failed = dict(values), dict[str, Exception]()
    while True:
        if not left:
            return None, failed
        try:
            return look(engine, left, namespace, code), failed
        except Exception as error:  # also the user's
            if isinstance(error, MemoryError) and not isinstance(error, StoreFullError):
                raise
            found = _failures(engine, left, namespace, code) or dict.fromkeys(left, error)
            failed |= found
            for name in found:
                del left[name]


def _failures(
    engine: Engine, values: Mapping[str, Any], namespace: dict[str, Any], code: Mapping[int, str]
) -> dict[str, Exception]:
    """Return the variables that can't be pickled alone, and why."""
    failed: dict[str, Exception] = {}
    for name, value in values.items() if len(values) > 1 else ():
        try:
            look(engine, {name: value}, namespace, code)
        except Exception as error:
            failed[name] = error
    return failed


def reason(error: Exception) -> str:
    """Return why something can't be stored, for people."""
    failures = getattr(error, "failures", ())
    known = isinstance(error, SerializationError | StoreFullError)
    text = str(error) if known else f"{type(error).__name__}: {error}"
    return str(failures[0].why) if failures else text


def _sorted(
    met: Iterator[tuple[Any, bool]], code: Mapping[int, str], namespace: dict[str, Any]
) -> tuple[list[Any], list[tuple[int, int]], set[str], list[tuple[Any, str]]]:
    """Return the objects that can change, the memory of arrays, names of code, and objects that
    don't come back as they are, with the reasons."""
    held: list[Any] = []
    shown: list[Array] = []
    of_pandas: set[int] = set()
    others: list[tuple[Any, str]] = []
    of_functions: dict[int, dict[str, Any]] = {}
    spans: list[tuple[int, int]] = []
    uses: set[str] = set()
    owners: dict[int, Any] = {}
    for obj, stays in met:
        if id(obj) in code:
            uses.add(code[id(obj)])
        elif isinstance(obj, np.ndarray):
            if obj.nbytes and not is_sealed(obj):
                spans.append(bounds(obj))
                owner = owner_of(obj)
                owners[id(owner)] = owner
                if stays:
                    shown.append(obj)
            if stays:
                held.append(obj)
            if type(obj) is np.memmap:
                others.append((obj, "file"))
        elif not isinstance(obj, type | FunctionType):
            held.append(obj)
        elif travels_by_value(obj):
            held += [obj, *(getattr(obj, "__closure__", None) or ())]
            names = getattr(obj, "__globals__", namespace)
            if names is not namespace and "__spec__" not in names:  # nor a module's
                of_functions[id(names)] = names
    kinds = {n for n in {*map(type, held)} if issubclass(n, BaseException) or is_of_pandas(n)}
    for obj in [each for each in held if type(each) in kinds] if kinds else ():
        if not isinstance(obj, BaseException):
            of_pandas.update(map(id, arrays_of(obj)))
        elif obj.__traceback__ is not None:
            others.append((obj, "traceback"))
    if of_functions:
        others += [(each, "globals") for each in held if id(each) in of_functions]
        held += of_functions.values()
    for obj in held:
        if id(obj) in owners:
            raise SerializationError(f"an array has memory of another object, {describe(obj)}")
    held += [owner for owner in owners.values() if owner is not None]
    return held, spans, uses, others + [(each, "memory") for each in _apart(shown, of_pandas)]


def _apart(arrays: list[Array], of_pandas: set[int]) -> Iterator[Array]:
    """Yield arrays that show the same memory, but won't afterwards: of objects or texts, which
    aren't stored as bytes, or one of them a part of an object of pandas."""
    spans = sorted(((*bounds(each), each) for each in arrays), key=lambda each: each[:2])
    last_end, last = 0, None
    for begin, end, array in spans:
        if begin < last_end and last is not None:
            both = len({id(last), id(array)} & of_pandas)
            alone = [n for n in (last, array) if n.dtype.hasobject or n.dtype.kind == "T"]
            if both == 1 or (alone and not both):
                yield from (last, array)
        if end > last_end:
            last_end, last = end, array


def overlap(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> bool:
    """True if memory is in both; each is in order."""
    few, many = sorted((one, two), key=len)
    for begin, end in few:
        place = bisect_right(many, (begin, begin))
        if place < len(many) and many[place][0] < end:
            return True
        if place and many[place - 1][1] > begin:
            return True
    return False


def _met(memo: Any) -> Iterator[tuple[Any, bool]]:
    """Yield the objects that were pickled, but for those that can't change, and most of those that
    don't stay, which exist only because something was pickled: another object gets their ids next.
    Of these only arrays: others may show their memory."""
    kinds: dict[type, bool] = {}
    places = memo.copy()
    gone = _temporary(places)
    for key, (_, obj) in places.items():
        kind = type(obj)
        counts = kinds.get(kind)
        if counts is None:
            fixed = kind in _ALONE or issubclass(kind, enum.Enum | np.dtype | np.generic)
            counts = kinds[kind] = not (fixed or _is_function(obj))
            bound = bound_to_process(kind)
            if bound is not None and kind not in _IN_MEMORY:  # cloudpickle copies a file's text
                raise SerializationError(f"{bound.what} belongs to one process")
        if counts and (key not in gone or issubclass(kind, np.ndarray)):
            yield obj, key not in gone


def _temporary(places: dict[int, tuple[int, Any]]) -> set[int]:
    """Return ids of the objects in a memo's copy that only the memo refers to, and others of
    these."""
    found = [obj for _, obj in places.values() if getrefcount(obj) == _TEMPORARY]
    gone: set[int] = set()
    known: Counter[int] = Counter()  # references that these have, by id
    while found:
        gone.update(map(id, found))
        keys = [*map(id, gc.get_referents(*found))]
        known.update(keys)
        found = [
            obj
            for key in (places.keys() & keys) - gone
            for _, obj in (places[key],)
            if getrefcount(obj) - known[key] == _TEMPORARY
        ]
    return gone


def _is_function(obj: Any) -> bool:
    """True for a function of a library, as each makes its own type for: it travels by name."""
    is_named = callable(obj) and not isinstance(obj, type | FunctionType | _lru_cache_wrapper)
    return is_named and hasattr(obj, "__qualname__")


def _references_of_temporary() -> int:
    held = [object()]  # as the pickler's memo holds it
    found = [getrefcount(obj) for _, obj in {0: (0, held[0])}.values()]
    return found[0]


_TEMPORARY = _references_of_temporary()
"""What `getrefcount` says in `_temporary` of an object that only the memo refers to."""
