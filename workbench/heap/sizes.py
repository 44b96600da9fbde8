"""What an object takes by itself, and what is in it. Runs no code of the user's."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from workbench.serialization.arrays import address
from workbench.serialization.sampling import choose, large_among
from workbench.serialization.shared_memory import bounds

LONG, SAMPLE = 10_000, 1_000
"""Length from which on a container is sampled, and how many of its items are then looked at."""

ATOMS = frozenset((int, float, complex, str, bytes, bytearray, bool, type(None)))
"""Types with nothing inside: most objects are such."""

MACHINERY = tuple(
    f"workbench.{room}." for room in ("client", "engines", "ipython", "widgets", "worker")
)
_BARRIERS = frozenset(("IPython", "ipykernel", "tornado", "zmq"))
"""Our modules, and other packages, whose objects refer to all of a notebook."""


class Block(NamedTuple):
    """Memory that an object shows, known by its address: several may show the same."""

    address: int
    nbytes: int


Parts = Iterable[tuple[Iterable[Any], float]]
"""Objects and blocks, and for how many each of them stands."""


def own_size(thing: Any) -> int:
    """Return the bytes of an object without what it refers to, as allocators round them."""
    kind = type(thing)
    # Its own method may count what it shows or refers to, too.
    counts_more = type(kind.__sizeof__) is FunctionType or _LOOKS[kind] in (_array, _arrow)
    size = object.__sizeof__(thing) if counts_more else sys.getsizeof(thing)
    if kind.__dictoffset__ < 0 and sys.version_info < (3, 13):
        size += 16 + 9 * len(gc.get_referents(thing))  # attributes, beside the object
    return -(-size // 16) * 16


def parts(thing: Any, deep: bool) -> Parts | None:
    """Return what is in an object. Raises what its library raises.

    None: many refer to it, and it is part of none of them. A module, and unless ``deep`` a class of
    one, or code.
    """
    look = _LOOKS[type(thing)]
    if isinstance(thing, ModuleType) or (isinstance(thing, dict) and "__builtins__" in thing):
        return None
    if not deep and (look is _shared or (look is _class and thing.__module__ != "__main__")):
        return None
    return look(thing)


def blocks(thing: Any) -> list[Block]:
    """Return the memory that an object shows: of an array or a table, of most others none."""
    look = _LOOKS[type(thing)]
    if look in _WITHOUT or (look is _object and gc.is_tracked(thing)):
        return []
    with suppress(Exception):  # its library's code raised
        return [part for some, _ in look(thing) for part in some if type(part) is Block]
    return []


def is_apart(kind: type) -> bool:
    """True of a type whose instances many refer to, and which lead to all there is."""
    return _LOOKS[kind] in (_shared, _class)


def is_ours(kind: type) -> bool:
    """True of a class of the session itself, which refers to everything and is no reason.

    Not of what stands for a person's function (`is_a_functions`): that is the function's.
    """
    if getattr(kind, "is_a_functions", False) is True:
        return False
    return str(kind.__module__).startswith(MACHINERY)


class _Looks(dict[type, Callable[[Any], Parts]]):
    """By class: the function that looks into its instances."""

    def __missing__(self, kind: type) -> Callable[[Any], Parts]:
        package = str(kind.__module__).partition(".")[0]
        by_base = (look for base, look in _BY_BASE if issubclass(kind, base))
        is_barrier = package in _BARRIERS or is_ours(kind)
        other = _shared if is_barrier else _LIBRARIES.get(package, _object)
        self[kind] = look = next(by_base, other)
        return look


def _nothing(thing: Any) -> Parts:
    return ()


def _object(thing: Any) -> Parts:
    inside = gc.get_referents(thing)
    if not inside and not gc.is_tracked(thing):
        return _shown_by(thing)
    return ((inside, 1.0),)


def _shared(thing: Any) -> Parts:
    return _object(thing)


def _class(thing: Any) -> Parts:
    return _object(thing)


def _shown_by(thing: Any) -> Parts:
    """Return the memory that a library's object shows by the buffer protocol, if it does."""
    try:
        array = np.frombuffer(thing, np.uint8)
    except Exception:
        return ()
    return (([Block(address(array), array.nbytes)], 1.0),)


def _container(thing: Any) -> Parts:
    if len(thing) <= LONG:
        return ((gc.get_referents(thing), 1.0),)
    items: Any = thing.items() if isinstance(thing, dict) else thing
    chosen = choose(items, len(thing), SAMPLE, large_among(items, len(thing)))
    flat = chain.from_iterable if isinstance(thing, dict) else iter
    return [(list(flat(some)), stands_for) for _, some, stands_for in chosen]


def _array(array: Any) -> Parts:
    """Return an array's memory: of the outermost array, if no other object is known to have it."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    owner = array.base.obj if isinstance(array.base, memoryview) else array.base
    if isinstance(owner, bytes | bytearray):
        return (([owner], 1.0),)
    low, high = bounds(array)
    block = ([Block(low, high - low)], 1.0)
    if not array.dtype.hasobject:
        return (block,)
    most = min(array.size, SAMPLE)
    return [block, *((some, each) for _, some, each in choose(array.flat, array.size, most, []))]


# -- libraries whose memory Python doesn't see -----------------------------------------------------


def _blocks(made: Iterable[Any]) -> Parts:
    """Return the blocks in objects that were made just now: their ids will be used again."""
    return (([block for each in made for block in blocks(each)], 1.0),)


def _arrow(thing: Any) -> Parts:
    for inside in ("chunks", "columns"):
        if hasattr(thing, inside):
            return _blocks(getattr(thing, inside))
    buffers = thing.buffers() if hasattr(thing, "buffers") else [thing]
    return (
        ([Block(each.address, each.size) for each in buffers if hasattr(each, "address")], 1.0),
    )


def _polars(thing: Any) -> Parts:
    if hasattr(thing, "get_columns"):
        return _blocks(thing.get_columns())
    return _blocks([thing.to_arrow()]) if hasattr(thing, "to_arrow") else _object(thing)


def _sklearn(thing: Any) -> Parts:
    if hasattr(thing, "node_count"):  # a tree, which shows its memory as arrays
        return _blocks(thing.__getstate__().values())
    return _object(thing)


def _torch(thing: Any) -> Parts:
    if not hasattr(thing, "untyped_storage") or thing.device.type != "cpu":
        return _object(thing)
    storage, gradient = thing.untyped_storage(), thing.grad if thing.is_leaf else None
    return (([Block(storage.data_ptr(), storage.nbytes()), gradient, thing.__dict__], 1.0),)


_BY_BASE: tuple[tuple[Any, Callable[[Any], Parts]], ...] = (
    ((*ATOMS, range, np.generic, np.dtype), _nothing),
    ((list, tuple, set, frozenset, dict, deque), _container),
    (np.ndarray, _array),
    (type, _class),
    ((CodeType, ModuleType), _shared),
)
_WITHOUT = frozenset((_nothing, _container, _class, _shared))

_LIBRARIES = {
    "polars": _polars,
    "pyarrow": _arrow,
    "sklearn": _sklearn,
    "torch": _torch,
}
_LOOKS = _Looks()
