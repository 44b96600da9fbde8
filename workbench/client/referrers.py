"""Finds what holds an object in this process: variables, outputs, frames. Keeps nothing.

A walk from the names a person knows down to a handle, or to an array that shows the object's
bytes. It may run in any thread while the person's code runs: what changes meanwhile is seen as it
was or as it is.
"""

from __future__ import annotations

import gc
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from inspect import CO_OPTIMIZED
from itertools import islice
from types import FrameType, FunctionType, ModuleType, TracebackType
from typing import Any

import numpy as np

from workbench.call_site import is_own
from workbench.engines.base import WHERE

MOST_SECONDS = 1.0
MOST_NODES = 500_000
"""How far a walk goes, at most."""

MOST_PLACES = 20
"""Places told of one object."""

SURVEY_SECONDS = 0.02
SURVEY_NODES = 10_000
SURVEY_INSIDE = 500
"""How far a survey goes, which is made again and again; into a list, that many of its things."""

_LEAVES = (
    int, float, complex, str, bytes, bytearray, bool, type(None), type, ModuleType, range,
    FrameType,
)  # fmt: skip
"""What holds nothing that a person put there."""

_ITS_OWN = 3
"""References to a frame's dict: the frame's, a variable's, and the one that asks for the count."""

_MACHINERY = tuple(
    f"workbench.{room}." for room in ("client", "engines", "ipython", "widgets", "worker")
)

_SAME = ("_oh", "_ih", "_dh", "In", "__builtins__", "get_ipython", "exit", "quit")
"""What IPython has under plainer names too, and what is its own."""

Places = tuple[tuple[str, str], ...]
Step = tuple[str, Any, bool]


def main_variables() -> dict[str, Any]:
    """What a person's code has in this process: the main module's variables, those of functions
    that run, and those that the last error keeps."""
    main = sys.modules["__main__"]
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return {**vars(main), **dict(_running()), **dict(_kept(error))}


def survey(
    held_by: Callable[[Any], tuple[int | None, str]], roots: Mapping[str, Any]
) -> dict[int, Places]:
    """Where every object is held, the plainest first, as far as that is found in no time.

    ``held_by`` gives the object that a thing is a handle of, or shows, and which of the two.
    """
    found: dict[int, dict[tuple[str, str], None]] = {}

    def visit(place: str, thing: Any) -> bool:
        id, kind = held_by(thing)
        if id is not None:
            found.setdefault(id, {})[place, kind] = None
        return id is not None

    _walk(roots, visit, lambda: False, SURVEY_NODES, SURVEY_SECONDS, SURVEY_INSIDE)
    return {id: tuple(places) for id, places in found.items()}


def _walk(
    roots: Mapping[str, Any],
    visit: Callable[[str, Any], bool],
    enough: Callable[[], bool],
    most_nodes: int,
    most_seconds: float,
    most_inside: int,
) -> bool:
    """Breadth first from the roots; into what is not what ``visit(place, thing)`` looks for.

    False if it ended early.
    """
    seen: set[int] = set()
    queue: deque[tuple[str, Any, bool, str]] = deque(
        (name, value, True, where)
        for key, value in list(roots.items())
        if key not in _SAME
        for name, _, where in [key.partition(WHERE)]
    )
    until = time.monotonic() + most_seconds
    nodes = 0
    while queue:
        path, thing, plain, where = queue.popleft()
        nodes += 1
        if nodes > most_nodes or (nodes % 100 == 0 and time.monotonic() > until):
            return False
        try:  # even to ask for its class may fail: of a weak proxy whose object is gone
            if visit(path + where, thing):
                if enough():
                    return False
                continue
            if isinstance(thing, _LEAVES) or id(thing) in seen or _is_ours(type(thing)):
                continue
            seen.add(id(thing))
            inside = list(islice(_inside(path, thing), most_inside))
        except Exception:  # it changed while it was looked at, or is of a kind of its own
            continue
        for below, value, named in inside:
            plainly = plain and named
            queue.append((below if plainly else path, value, plainly, where))
    return True


def _running() -> Iterator[tuple[str, Any]]:
    """The variables of a person's functions that run now, in any thread."""
    # Our own frame is among them: a variable that kept it would keep all that called us.
    frame: FrameType | None
    for frame in list(sys._current_frames().values()):
        while frame is not None:
            code = frame.f_code
            if code.co_flags & CO_OPTIMIZED and is_own(code.co_filename):
                for name, value in _locals(frame).items():
                    yield f"{name}{WHERE} in {code.co_name}(), which runs", value
            frame = frame.f_back


def _locals(frame: FrameType) -> dict[str, Any]:
    """A running function's variables.

    Before Python 3.13 the frame keeps the dict it gives, and so what is in it, beyond a ``del``
    of the function's: emptied here, unless somebody else has it, or a debugger may.
    """
    given = frame.f_locals
    found = dict(given)
    if sys.version_info < (3, 13) and frame.f_trace is None and sys.getrefcount(given) <= _ITS_OWN:
        given.clear()
    return found


def _kept(error: BaseException | None) -> Iterator[tuple[str, Any]]:
    """The variables of functions in the traceback of the last error."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        tb: TracebackType | None = error.__traceback__
        while tb is not None:
            function = tb.tb_frame.f_code.co_name
            if function != "<module>":  # those are the notebook's own
                for name, value in list(tb.tb_frame.f_locals.items()):
                    yield f"{name}{WHERE} in {function}(), kept by sys.last_value", value
            tb = tb.tb_next
        error = error.__cause__ or error.__context__


def _is_ours(kind: type) -> bool:
    """Whether it is part of the session itself: that has everything, and is no reason."""
    return str(kind.__module__).startswith(_MACHINERY)


def _inside(path: str, thing: Any) -> Iterator[Step]:
    """What a thing holds, each with its path; not plain is what a person has no path to."""
    if isinstance(thing, dict):
        if "__builtins__" in thing:
            return  # a module's: its variables are no part of the function that refers to it
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
        for value in gc.get_referents(thing):
            if value is not named:
                yield path, value, False


def _key(key: Any) -> str:
    text = repr(key) if isinstance(key, str | int | float | bool | tuple) else type(key).__name__
    return text if len(text) <= 40 else f"{text[:37]}..."
