"""A pickler in Python that knows the path from the root to what it saves. Slow.

It writes, opcode for opcode, what `pickler.Pickler` would write; only frames may differ.
`inspection` and `measure` are built on it.
"""

from __future__ import annotations

import io
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, ClassVar, TypeVar

from workbench.serialization.arrays import Reducers
from workbench.serialization.paths import Step, path_text
from workbench.serialization.pickler import BufferCallback, Pickler, Writable

T = TypeVar("T")

MOST_DEPTH = 2_000
"""Depth to which nested objects are followed. The C pickler reaches some 500 nested lists with
Python 3.11, 750 with 3.12, 5000 with 3.13; a quarter of that in closures (measured)."""

MOST_DEPTH_IN_THREADS = 300
"""The same in a thread, whose stack may be small: some systems give it 512 KB, and one level takes
up to 700 bytes of it (measured: 1500 levels crash a thread of 1 MB)."""

FRAMES_A_LEVEL = 10
"""Python frames per level, at most."""

AGAIN = 3
"""Appearances on one path that make it a cycle: a tuple that contains itself is there twice."""

BATCH = 1000
"""Items between two marks, as in the C pickler."""

SHORT = 256
"""Length up to which a text is a leaf, like a number."""

_ASKS_NOBODY = frozenset(
    {type(None), bool, int, float, str, bytes, tuple, list, dict, set, frozenset, bytearray}
    | {pickle.PickleBuffer}
)
"""Types that the C pickler handles before it asks for a reducer."""

_NUMBERS = frozenset({type(None), bool, int, float})
_TEXTS = frozenset({str, bytes})

_one_at_a_time = threading.RLock()  # all threads share the recursion limit


def with_room(function: Callable[[], T]) -> T:
    """Call the function with a higher recursion limit."""
    with _one_at_a_time:
        limit = sys.getrecursionlimit()
        try:  # before: Ctrl-C may come as soon as the limit is set
            sys.setrecursionlimit(limit + MOST_DEPTH * FRAMES_A_LEVEL)
            return function()
        finally:
            sys.setrecursionlimit(limit)


class TooManyObjectsError(Exception):
    """More objects than the pickler was told to look at."""


class TooDeepError(RecursionError):
    """Objects are nested deeper than the pickler follows."""


class EndlessError(TooDeepError):
    """An object is saved as something that contains it, or another of its class, again and again.

    ``path`` leads to the first of them; ``is_itself``: True if it is the same object each time.
    """

    def __init__(self, path: Sequence[Step], is_itself: bool) -> None:
        super().__init__(f"{path_text(path)} is saved as something that contains it.")
        self.path, self.is_itself = tuple(path), is_itself


class TracingPickler(pickle._Pickler):
    """See the module; ``root`` is the start of the path.

    An error leaves the ``path`` as it was then. After ``most`` objects the pickler raises
    `TooManyObjectsError`; numbers and short texts don't count.
    """

    memo: dict[int, tuple[int, Any]]  # these four are declared for mypy
    write: Callable[[bytes], Any]
    get: Callable[[int], bytes]
    memoize: Callable[[Any], None]
    dispatch: ClassVar[dict[type, Callable[..., None]]] = dict(pickle._Pickler.dispatch)

    def __init__(
        self,
        file: Writable,
        reducers: Reducers,
        buffer_callback: BufferCallback,
        root: str,
        most: int = sys.maxsize,
    ) -> None:
        super().__init__(file, 5, buffer_callback=buffer_callback)
        # Used only for its reducers.
        self._cloud = Pickler(io.BytesIO(), reducers, buffer_callback)
        self.code = self._cloud.code
        self.dispatch_table = self._cloud.dispatch_table
        self._reducers = reducers
        self._root = root
        self._left = most
        self.has_large_stack = threading.current_thread() is threading.main_thread()
        self._deepest = MOST_DEPTH if self.has_large_stack else MOST_DEPTH_IN_THREADS
        self.path: list[Step] = []

    def trace(self, value: Any) -> None:
        with_room(lambda: pickle._Pickler.dump(self, value))

    def reducer_override(self, obj: Any) -> Any:
        """Return what the C pickler would get."""
        if type(obj) in _ASKS_NOBODY:
            return NotImplemented
        return self._cloud.reducer_override(obj)

    # -- one object ---------------------------------------------------------------------------

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        kind = type(obj)
        if self.path and (kind in _NUMBERS or (kind in _TEXTS and len(obj) <= SHORT)):
            self.save_leaf(obj)
            return
        place = self.path[-1].step(obj) if self.path else Step(obj, self._root)
        if len(self.path) > self._deepest:
            raise self._too_deep(self._deepest)
        self._left -= 1
        if self._left < 0:
            raise TooManyObjectsError
        self.path.append(place)
        try:
            self.save_here(obj)
        except (TooDeepError, MemoryError, TooManyObjectsError):
            raise
        except Exception as error:
            if isinstance(error, RecursionError) and len(self.path) > MOST_DEPTH_IN_THREADS:
                # Python 3.12 limits C recursion separately, and the path goes through C.
                raise self._too_deep(len(self.path) - 1) from error
            if not self.failed(error):
                raise
            super().save(None)  # type: ignore[misc] # in its place
        self.path.pop()

    def _too_deep(self, depth: int) -> TooDeepError:
        """Return the error, endless if a serializer or ``__reduce__`` goes in a cycle."""
        for key, is_itself in ((id, True), (self._custom, False)):
            places: dict[Any, list[int]] = {}
            for place, step in enumerate(self.path):
                places.setdefault(key(step.object), []).append(place)
            places.pop(None, None)
            first = next((found[0] for found in places.values() if len(found) >= AGAIN), None)
            if first is not None:
                return EndlessError(self.path[: first + 1], is_itself)
        return TooDeepError(f"It is nested more than {depth} objects deep.")

    def _custom(self, obj: Any) -> type | None:
        return type(obj) if type(obj) in self._reducers else None

    def save_here(self, obj: Any) -> None:
        """Save the object at the end of the path. Subclasses that measure override it."""
        super().save(obj)  # type: ignore[misc]

    def save_leaf(self, obj: Any) -> None:
        """Save a number or a short text, which never fails, so it needs no step on the path."""
        self.path[-1].pass_by(obj)
        super().save(obj)  # type: ignore[misc]

    def failed(self, error: Exception) -> bool:
        """Handle an object at the path's end that can't be saved; True: go on without it.

        Subclasses override methods, here and below, instead of passing callbacks to themselves:
        such a cycle would keep all that was pickled alive for a while.
        """
        return False

    def save_reduce(
        self, func: Any, args: Any, state: Any = None, *rest: Any, obj: Any = None, **named: Any
    ) -> None:
        self.path[-1].reduced_to(args, state)
        # Via the class: a bound method that takes `*rest` is called through C, which recurses less.
        save_reduce = pickle._Pickler.save_reduce  # type: ignore[attr-defined]
        save_reduce(self, func, args, state, *rest, obj=obj, **named)

    # -- many objects: with the marks of the C pickler, which differ slightly from the Python one's

    def save_list(self, obj: list[Any]) -> None:
        self.write(pickle.EMPTY_LIST)
        self.memoize(obj)
        bare = pickle.APPEND if len(obj) == 1 else b""
        self._save_items(self._batches(obj, pickle.APPENDS, bare))

    def save_dict(self, obj: dict[Any, Any]) -> None:
        self.write(pickle.EMPTY_DICT)
        self.memoize(obj)
        bare = pickle.SETITEM if len(obj) == 1 else b""
        self._save_pairs(self._batches(obj.items(), pickle.SETITEMS, bare))
        self._close_again(obj, pickle.SETITEMS)

    def save_set(self, obj: set[Any]) -> None:
        self.write(pickle.EMPTY_SET)
        self.memoize(obj)
        self._save_items(self._batches(obj, pickle.ADDITEMS))
        self._close_again(obj, pickle.ADDITEMS)

    dispatch.update({list: save_list, dict: save_dict, set: save_set})

    def _close_again(self, obj: Any, closing: bytes) -> None:
        """Write the extra empty batch that the C pickler writes after a last batch that is full."""
        if obj and len(obj) % BATCH == 0:
            self.write(pickle.MARK + closing)

    def _batch_appends(self, items: Iterable[Any]) -> None:
        """Save the list items that a reduction gives."""
        self._save_items(self._batches(items, pickle.APPENDS, pickle.APPEND))

    def _batch_setitems(self, items: Iterable[tuple[Any, Any]]) -> None:
        """Save the dict items that a reduction gives."""
        self._save_pairs(self._batches(items, pickle.SETITEMS, pickle.SETITEM))

    def _batches(self, items: Iterable[Any], many: bytes, one: bytes = b"") -> Iterator[list[Any]]:
        """Yield batches, and write the marks; ``one`` closes a batch of one, without a mark."""
        iterator = iter(items)
        while batch := list(islice(iterator, BATCH)):
            bare = one and len(batch) == 1
            if not bare:
                self.write(pickle.MARK)
            yield batch
            self.write(one if bare else many)

    def _save_items(self, batches: Iterable[list[Any]]) -> None:
        with self.path[-1].saving("items"):
            for item in chain.from_iterable(batches):
                self.save(item)

    def _save_pairs(self, batches: Iterable[list[tuple[Any, Any]]]) -> None:
        with self.path[-1].saving("pairs"):
            for part in chain.from_iterable(chain.from_iterable(batches)):
                self.save(part)
