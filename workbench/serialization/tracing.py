"""A pickler in Python that knows where it is: the path from the root to what it saves. Slow.

For finding out, not for storing: what it writes is what `pickler.Pickler` would write, and is
thrown away by those who use it.
"""

from __future__ import annotations

import contextlib
import functools
import io
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from workbench.serialization.pickler import Pickler, Reducer

MOST_DEPTH = 2_000
"""Objects in objects that are followed: deeper than the C pickler goes with Python's default."""

FRAMES_A_LEVEL = 10
"""Python frames that one level takes, at most."""

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})
_PLAIN = _ATOMS | {tuple, list, dict, set, frozenset, bytearray, pickle.PickleBuffer}
"""Types that the C pickler handles before it asks for a reducer."""


class Place:
    """One object on the path.

    Attributes
    ----------
    object : object
        What is being saved.
    label : str
        How its parent calls it: ``.lock``, ``[2]``; empty if it is part of the parent itself.
    role : str
        ``value``, or what it is of ``owner``: ``arguments``, ``state``, ``closure``, ``globals``.
    """

    __slots__ = ("_children", "_key", "_mode", "_parts", "label", "object", "owner", "role")

    def __init__(self, object: Any, label: str, role: str, owner: Any) -> None:
        self.object = object
        self.label = label
        self.role = role
        self.owner = owner
        self._children = 0
        self._mode = ""  # "items" or "pairs" while those are saved
        self._key: Any = None
        self._parts: dict[int, str] = {}

    def reduced_to(self, args: Any, state: Any) -> None:
        """These two are parts of the object, not things in it."""
        self._parts = {id(args): "arguments", id(state): "state"}

    @contextlib.contextmanager
    def saving(self, mode: str) -> Iterator[None]:
        """While its items or pairs are saved."""
        self._mode, self._children = mode, 0
        yield
        self._mode = ""

    def step(self, child: Any) -> tuple[str, str, Any]:
        """Label, role and owner of the child that is saved next."""
        n, self._children = self._children, self._children + 1
        if self._mode == "items":
            return f"[{n}]", "value", None
        if self._mode == "pairs":
            if n % 2 == 0:
                self._key = child
                return f" key {short(child)}", "value", None
            return self._entry(self._key)
        if self.role == "arguments":
            return _argument(self.owner, n), "value", None
        if self.role == "closure":
            names = self.owner.__code__.co_freevars
            return f" → closure variable {names[n]!r}", "value", None
        if self.role == "state":
            return self._part_of_state(n, child)
        part = self._parts.get(id(child))
        if part is not None:
            return "", part, self.object
        if type(self.object) is tuple:
            return f"[{n}]", "value", None
        if isinstance(self.object, set | frozenset):
            return f"{{{short(child)}}}", "value", None
        return "", "value", None

    def _entry(self, key: Any) -> tuple[str, str, Any]:
        """The value under a key of a dict, or of what an object keeps in one."""
        if self.role == "globals":
            return f" → global {key!r}", "value", None
        if self.role == "state":
            if isinstance(self.owner, types.FunctionType) and key == "__closure__":
                return "", "closure", self.owner
            if isinstance(self.owner, types.FunctionType) and key == "__globals__":
                return "", "globals", self.owner
            return f".{key}", "value", None
        return f"[{short(key)}]", "value", None

    def _part_of_state(self, n: int, child: Any) -> tuple[str, str, Any]:
        if isinstance(self.owner, functools.partial):
            return (".func", ".args", ".keywords", ".__dict__")[n], "value", None
        if child is None or isinstance(child, dict):  # (attributes, slots)
            return "", "state", self.owner
        if type(self.owner).__name__ == "ndarray" and isinstance(child, list):
            return "", "value", None  # its objects, in C order
        return f".__getstate__()[{n}]", "value", None


def _argument(owner: Any, n: int) -> str:
    """What the n-th argument of an object's reduction is to the object."""
    match owner:
        case types.CellType():
            return ""
        case types.MethodType():
            return (".__func__", ".__self__")[n]
        case functools.partial():
            return ".func"
        case BaseException():
            return f".args[{n}]"
        case type():
            return ("", "", " base ", "", "", "")[n] if n < 6 else ""
    return f".__reduce__()[1][{n}]"


def short(value: Any, most: int = 30) -> str:
    """A repr that fits into a path; never raises, whatever the object does."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= most else text[: most - 1] + "…"


class TracingPickler(pickle._Pickler):
    """See the module.

    Parameters
    ----------
    reducers : mapping of type → reducer
        As for `pickler.Pickler`.
    root : str
        What the path begins with.
    on_failure : callable(path, error) → bool, optional
        Called when an object itself (not something in it) can't be saved. True: go on
        without it.
    file, buffer_callback
        As for ``pickle.Pickler``.
    """

    def __init__(
        self,
        reducers: Mapping[type, Reducer],
        root: str,
        on_failure: Callable[[list[Place], Exception], bool] = lambda path, error: False,
        file: Any = None,
        buffer_callback: Callable[[pickle.PickleBuffer], Any] | None = None,
    ) -> None:
        super().__init__(file or io.BytesIO(), 5, buffer_callback=buffer_callback)
        self._cloud = Pickler(io.BytesIO(), reducers)  # only asked for its reducers
        self.dispatch_table = self._cloud.dispatch_table
        self._root = root
        self._on_failure = on_failure
        self.path: list[Place] = []

    def trace(self, value: Any) -> None:
        """Dump, with room for deep structures."""
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + MOST_DEPTH * FRAMES_A_LEVEL)
        try:
            self.dump(value)
        finally:
            sys.setrecursionlimit(limit)

    def reducer_override(self, obj: Any) -> Any:
        """The same answers as the C pickler gets."""
        if type(obj) in _PLAIN:
            return NotImplemented
        return self._cloud.reducer_override(obj)

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        """Save one object, with its place on the path meanwhile."""
        if self.path:
            label, role, owner = self.path[-1].step(obj)
        else:
            label, role, owner = self._root, "value", None
        if len(self.path) > MOST_DEPTH:
            raise RecursionError(f"It is nested more than {MOST_DEPTH} objects deep.")
        self.path.append(Place(obj, label, role, owner))
        try:
            self.save_here(obj)
        except (RecursionError, MemoryError):
            raise
        except Exception as error:
            if not self._on_failure(self.path, error):
                raise
            super().save(None)  # type: ignore[misc] # in its place
        finally:
            self.path.pop()

    def save_here(self, obj: Any) -> None:
        """Save it, the path being right. For subclasses that measure."""
        super().save(obj)  # type: ignore[misc]

    def save_reduce(
        self, func: Any, args: Any, state: Any = None, *rest: Any, obj: Any = None, **named: Any
    ) -> None:
        """As ever; and its parts are known."""
        place = self.path[-1]
        if getattr(func, "__name__", "") == "__newobj__" and isinstance(args, tuple):
            args = (args[0], *args[1:])
        place.reduced_to(args, state)
        super().save_reduce(func, args, state, *rest, obj=obj, **named)  # type: ignore[misc]

    def _batch_appends(self, *args: Any) -> None:
        with self.path[-1].saving("items"):
            super()._batch_appends(*args)  # type: ignore[misc]

    def _batch_setitems(self, *args: Any) -> None:
        with self.path[-1].saving("pairs"):
            super()._batch_setitems(*args)  # type: ignore[misc]


def path_text(path: list[Place]) -> str:
    """``model.callbacks[2].logger.lock``."""
    return "".join(place.label for place in path)
