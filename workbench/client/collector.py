"""What the garbage collector finds, in a way that can't harm a thread that is making a tuple, nor
what modules written in C keep."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, compress, count, cycle, repeat, starmap
from operator import call, is_, is_not
from types import ModuleType
from typing import Any

import numpy as np


def but_tuples(ask: Callable[..., list[Any]], *arguments: Any) -> list[Any]:
    """What one of the collector's functions finds, but for tuples, and what this is made with.

    Another thread may be making a tuple: ``tuple(...)`` enlarges what it fills, and fails if
    anybody else has that. So no thread may switch to another as long as we have them: all of this
    is one call of C code. A tuple that is finished is found in what refers to it.
    """
    twice = chain.from_iterable(map(repeat, starmap(ask, (arguments,)), (2,)))
    apply: Any = call
    types: Iterator[Any] = map(apply, cycle((iter, partial(map, type))), twice)
    wanted = partial(map, is_not, repeat(tuple))
    chosen: Iterator[Any] = map(apply, cycle((iter, wanted)), types)
    found = list(chain.from_iterable(map(compress, chosen, chosen)))
    for place in compress(count(), map(is_, found, repeat(found))):
        found[place] = None  # else it would have itself, for ever
        break
    return found


def referents_of(things: Iterable[Any]) -> list[Any]:
    """What these refer to; of a module, its namespace alone.

    What a module in C keeps beside that isn't ours to hold: of its own, Python 3.12's asyncio
    gives out objects that were freed. Held and let go, each is freed a second time, and the next
    who asks gets them in a circle, until the memory is full.
    """
    things = list(things)
    if any(issubclass(kind, ModuleType) for kind in {*map(type, things)}):
        modules = [each for each in things if issubclass(type(each), ModuleType)]
        others = [each for each in things if not issubclass(type(each), ModuleType)]
        names = [object.__getattribute__(each, "__dict__") for each in modules]  # loads no lazy one
        return gc.get_referents(*others) + names
    return gc.get_referents(*things)


class Kinds(dict[type, int]):
    """What the collector may not look into: 1 of an array, 2 of a dict or tuple, 0 of all else."""

    def __missing__(self, kind: type) -> int:
        is_array = issubclass(kind, np.ndarray | np.flatiter)
        self[kind] = 1 if is_array else 2 * issubclass(kind, dict | tuple)
        return self[kind]
