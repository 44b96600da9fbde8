"""Which variables hold which objects, as far as a short search finds: for live views.

A walk from the names a person knows down to handles, and to arrays that show objects' bytes. For
all objects at once, so it can't be the search of `%why` (`client.referrer_search`), which takes a
pass over all objects for each step. Runs in any thread while the person's code runs: what changes
meanwhile is seen as it was or as it is. Keeps no reference to what it looked at.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from types import FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from workbench.client.collector import referents_of
from workbench.engine.base import ROOT_NOTE
from workbench.engine.queries import Places
from workbench.heap.roots import SAME, raised, running
from workbench.heap.sizes import is_ours

MOST_SECONDS = 0.02
MOST_NODES = 10_000
MOST_INSIDE = 500
"""Limits of a survey, as it is repeated often; `MOST_INSIDE` is per container. The seconds are CPU
time of its thread: it finds as much on a busy machine as on a quiet one."""

_LEAVES = (
    int, float, complex, str, bytes, bytearray, bool, type(None), type, ModuleType, range,
    FrameType,
)  # fmt: skip
"""Types that hold nothing that a person put there."""

Step = tuple[str, Any, bool]


def main_variables() -> dict[str, Any]:
    """Return the variables of a person's code in this process: the main module's, those of
    running functions, and those that the last error keeps."""
    main, functions = vars(sys.modules["__main__"]), chain(running(), raised())
    return {**main, **{f"{r.name}{ROOT_NOTE} {r.where}": r.value for r in functions}}


def held(
    held_by: Callable[[Any], tuple[int | None, str]],
    roots: Callable[[], Mapping[str, Any]],
    name: str = "",
    value: Any = None,
) -> dict[int, Places]:
    """Answer `queries.Held`; ``roots`` hold things beside this process's variables."""
    if name:  # a person asks: as far as there are nodes
        return survey(held_by, {name: value}, clock=lambda: 0.0)
    return survey(held_by, {**main_variables(), **roots()})


def survey(
    held_by: Callable[[Any], tuple[int | None, str]],
    roots: Mapping[str, Any],
    clock: Callable[[], float] = time.thread_time,
) -> dict[int, Places]:
    """Return where each object is held, the plainest place first, within `MOST_SECONDS`.

    ``held_by`` returns the object whose handle or view a thing is, and which of the two.
    """
    found: dict[int, dict[tuple[str, str], None]] = {}
    seen: set[int] = set()
    queue: deque[tuple[str, Any, bool, str]] = deque(
        (name, value, True, where)
        for key, value in list(roots.items())
        if key not in SAME
        for name, _, where in [key.partition(ROOT_NOTE)]
    )
    until = clock() + MOST_SECONDS
    for nodes in range(MOST_NODES):
        if not queue or (nodes % 100 == 99 and clock() > until):
            break
        path, thing, plain, where = queue.popleft()
        try:  # even asking for its class may fail: a weak proxy whose object is gone
            id_held, kind = held_by(thing)
            if id_held is not None:
                found.setdefault(id_held, {})[path + where, kind] = None
                continue
            if isinstance(thing, _LEAVES) or id(thing) in seen or is_ours(type(thing)):
                continue
            seen.add(id(thing))
            inside = list(islice(_inside(path, thing), MOST_INSIDE))
        except Exception:  # it changed meanwhile, or its own code raised
            continue
        for below, value, named in inside:
            plainly = plain and named
            queue.append((below if plainly else path, value, plainly, where))
    return {id: tuple(places) for id, places in found.items()}


def _inside(path: str, thing: Any) -> Iterator[Step]:
    """Yield (path, value, is plain) of what a thing holds; not plain: only C code leads there."""
    if isinstance(thing, dict):
        if "__builtins__" in thing:
            return  # a module's namespace isn't part of the function that refers to it
        for key, value in list(thing.items()):
            yield f"{path}[{_key(key)}]", value, True
            if not isinstance(key, str | int):
                yield f"a key of {path}", key, True
    elif isinstance(thing, list | tuple | deque):
        for place, value in enumerate(list(thing)):
            yield f"{path}[{place}]", value, True
    elif isinstance(thing, np.ndarray):
        if thing.dtype.hasobject:
            for place, value in enumerate(thing.flat):
                yield f"{path}[{place}]", value, thing.ndim == 1
        elif thing.base is not None:  # perhaps an object's pages, copied when they are written
            yield path, thing.base, False
    elif isinstance(thing, set | frozenset):
        for value in list(thing):
            yield f"an element of {path}", value, True
    elif isinstance(thing, FunctionType):
        names = thing.__code__.co_freevars
        for name, cell in zip(names, thing.__closure__ or (), strict=False):
            yield f"{name} in {path}()", cell.cell_contents, True
        for value in thing.__defaults__ or ():
            yield f"a default of {path}()", value, True
    else:
        named = getattr(thing, "__dict__", None)
        if isinstance(named, dict):
            for name, value in list(named.items()):
                yield f"{path}.{name}", value, not name.startswith("_")
        for value in referents_of([thing]):
            if value is not named:
                yield path, value, False


def _key(key: Any) -> str:
    text = repr(key) if isinstance(key, str | int | float | bool | tuple) else type(key).__name__
    return text if len(text) <= 40 else f"{text[:37]}..."
