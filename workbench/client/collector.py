"""Queries to the garbage collector that harm neither a thread that is making a tuple nor objects
that modules written in C keep."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, compress, count, cycle, repeat, starmap
from operator import call, is_, is_not
from types import ModuleType
from typing import Any

import numpy as np

from workbench.heap.sizes import blocks
from workbench.serialization.arrays import address

LONG = 10_000
"""Length from which on a list is checked for being all numbers and texts."""

LEAVES = frozenset({int, float, complex, bool, str, bytes, type(None)})
"""Types that refer to nothing."""


def but_tuples(ask: Callable[..., list[Any]], *arguments: Any) -> list[Any]:
    """Return what the collector's function ``ask`` finds, without tuples and the list itself.

    Another thread may be making a tuple: ``tuple(...)`` resizes the tuple that it fills, and fails
    if anybody else has a reference to it. So no thread may switch while we have any: all of this
    is one call of C code. A finished tuple is found in what refers to it.
    """
    twice = chain.from_iterable(map(repeat, starmap(ask, (arguments,)), (2,)))
    apply: Any = call
    types: Iterator[Any] = map(apply, cycle((iter, partial(map, type))), twice)
    wanted = partial(map, is_not, repeat(tuple))
    chosen: Iterator[Any] = map(apply, cycle((iter, wanted)), types)
    found = list(chain.from_iterable(map(compress, chosen, chosen)))
    for place in compress(count(), map(is_, found, repeat(found))):
        found[place] = None  # else the list would contain itself for ever
        break
    return found


def referents_of(things: Iterable[Any]) -> list[Any]:
    """Return what these objects refer to; of a module only its namespace.

    We mustn't hold what a module in C keeps beside its namespace: asyncio of Python 3.12 gives out
    objects of its own that were freed. Each is freed a second time when we let go of it, and the
    next caller gets them in a circle, until the memory is full.
    """
    things = list(things)
    if any(issubclass(kind, ModuleType) for kind in {*map(type, things)}):
        modules = [each for each in things if issubclass(type(each), ModuleType)]
        others = [each for each in things if not issubclass(type(each), ModuleType)]
        names = [object.__getattribute__(each, "__dict__") for each in modules]  # loads no lazy one
        return gc.get_referents(*others) + names
    return gc.get_referents(*things)


class Kinds(dict[type, int]):
    """Cache by type of what the collector may not look into: 1 array, 2 dict or tuple, 3 what hides
    something from it, 0 others.

    Of kind 3 are asyncio's tasks, whose results ``gc.get_referrers`` misses, and Arrow's arrays and
    tables, whose memory is C++'s.
    """

    def __missing__(self, kind: type) -> int:
        is_array = issubclass(kind, np.ndarray | np.flatiter)
        tasks = getattr(sys.modules.get("asyncio"), "Task", ())
        is_unseen = is_arrow(kind) or issubclass(kind, tasks)
        self[kind] = 1 if is_array else 3 if is_unseen else 2 * issubclass(kind, dict | tuple)
        return self[kind]


def hides(thing: Any, kind: int) -> bool:
    """True of an array, tuple or untracked dict that may refer to other things."""
    if kind == 2:
        return type(thing) is tuple or not gc.is_tracked(thing)
    return kind == 3 or (kind == 1 and (thing.base is not None or thing.dtype.hasobject))


def is_flat(thing: Any, known: dict[int, bool]) -> bool:
    """True of a long list that has only numbers and texts. ``known``: cache by id."""
    if type(thing) is not list or len(thing) < LONG:
        return False
    if id(thing) not in known:
        pieces = (thing[at : at + LONG] for at in range(0, len(thing), LONG))  # others may run
        known[id(thing)] = all(LEAVES.issuperset(map(type, piece)) for piece in pieces)
    return known[id(thing)]


def is_arrow(kind: type) -> bool:
    """True of pyarrow's arrays and tables."""
    parts = ("buffers", "chunks", "columns")
    return kind.__module__ == "pyarrow.lib" and any(hasattr(kind, part) for part in parts)


def shows(thing: Any, array: np.ndarray[Any, Any]) -> bool:
    """True if pyarrow's ``thing`` has a buffer in the memory of ``array``."""
    begin = address(array)
    return any(begin <= block.address < begin + array.nbytes for block in blocks(thing))
