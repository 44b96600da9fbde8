"""The segments this process has mapped, and the zero-copy views of them that are alive."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from workbench.errors import ObjectLostError
from workbench.memory import spill
from workbench.memory.copying import Bytes
from workbench.memory.segment import ReadOnly, map_readonly
from workbench.memory.ufunc_guard import guard_ufunc_at

Callback = Callable[[Any], object]

MOST_TRUSTED = 10_000
"""Checked objects on disk that are remembered; beyond that all are checked again."""


class Watch(weakref.ref[Any]):
    """A weak reference that knows its object's id. Its callback gets the watch itself.

    ``callback`` and ``wake`` are C functions, like a deque's ``append``: Ctrl-C inside a callback
    written in Python would abort it, and both would be lost silently.
    """

    __slots__ = ("_wake", "grants", "id", "segment")

    id: int
    grants: int
    segment: int
    _wake: weakref.ref[Any]

    @classmethod
    def of(cls, target: Any, callback: Callback, id: int, wake: Callback | None = None) -> Self:
        self = cls(target, callback)
        self.id = id
        self.grants = 1
        if wake is not None:
            self.wakes(target, wake)
        return self

    def wakes(self, target: Any, wake: Callback) -> None:
        """Call ``wake``, too, from now on. No Python code runs between the two calls."""
        self._wake = weakref.ref(target, wake)


def bases(array: Any) -> Iterator[Any]:
    """Yield an array or memoryview, its base, the base's base, and so on."""
    while array is not None:
        yield array
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)


def address(array: Any) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


class Views:
    """Read-only mappings by segment, and the live views by object.

    ``on_finalized`` and ``wake`` are called when the last array on an object's bytes dies: at any
    allocation, in any thread; see `Watch`.
    """

    def __init__(self, on_finalized: Callback, wake: Callback | None = None) -> None:
        guard_ufunc_at()
        self._on_finalized = on_finalized
        self._wake = wake
        self._segments: dict[int, ReadOnly] = {}
        # Object on disk → place where it was checked: the server never reuses its places.
        self._trusted: dict[int, tuple[int, int]] = {}
        self._live: dict[int, Watch] = {}

    def map(self, segment: int, fd: int, size: int) -> None:
        """Map a segment (once) and close the descriptor: the mapping keeps the memory."""
        try:
            if segment not in self._segments:
                self._segments[segment] = map_readonly(fd, size)
        finally:
            os.close(fd)

    def is_mapped(self, segment: int) -> bool:
        return segment in self._segments

    def unmap(self, segment: int) -> None:
        self._segments.pop(segment, None)

    def check(self, id: int, segment: int, offset: int, length: int, digest: int) -> None:
        """Check, once per object and place, that bytes on disk are what was written there.

        ObjectLostError if they aren't, or can't be read.
        """
        if self._trusted.get(id) == (segment, offset):
            return
        mapping = self._segments.get(segment)  # a reference keeps its descriptor open
        if mapping is None:
            raise ObjectLostError("The object's bytes have moved.")
        spill.check(mapping.fd, offset, length, digest)
        if len(self._trusted) >= MOST_TRUSTED:
            self._trusted.clear()
        self._trusted[id] = segment, offset

    def forget(self, id: int) -> None:
        """Forget that an object was checked: this process has no handle to it any more."""
        self._trusted.pop(id, None)

    def open(self, id: int, segment: int, offset: int, length: int) -> tuple[Bytes, bool]:
        """Return the object's bytes, read-only, and True if this is a new view.

        A live view is returned again, wherever the object has moved since. Everything made from
        them (arrays, slices, whole DataFrames) keeps this very array alive through the buffer
        protocol, so it dies with the last view.
        """
        watch = self._live.get(id)
        alive: Bytes | None = watch() if watch is not None else None
        if alive is not None:
            return alive, False
        # Made from the mmap itself, not sliced from an array of it: the base of a slice of a slice
        # is the first array in the chain, and that has to be this one.
        owner = np.frombuffer(self._segments[segment], np.uint8, length, offset)
        watch = self._live[id] = Watch.of(owner, self._on_finalized, id, self._wake)
        watch.segment = segment
        return owner, True

    def finalized(self, watch: Watch) -> bool:
        """True if the object of a watch that `on_finalized` got has no newer view."""
        if self._live.get(watch.id) is watch:
            del self._live[watch.id]
            return True
        return False

    def live(self, id: int) -> Bytes | None:
        """Return the array that all views of an object show; None if there are no views."""
        watch = self._live.get(id)
        return None if watch is None else watch()

    def shown_by(self, array: Any) -> int | None:
        """Return the id of the object whose bytes, or some of them, an array shows."""
        return self._shown(array)[0]

    def begun_by(self, array: Any) -> int | None:
        """Return the same if the array begins where the object's bytes do, else None."""
        id, owner = self._shown(array)
        return id if owner is not None and address(array) == address(owner) else None

    def _shown(self, array: Any) -> tuple[int, Bytes] | tuple[None, None]:
        """Return the object's id, and the one array that all views of it show."""
        for base in bases(array):
            if type(base) is np.ndarray:
                for watch in weakref.getweakrefs(base):
                    if type(watch) is Watch and self._live.get(watch.id) is watch:
                        return watch.id, base
        return None, None

    def shows(self) -> bool:
        return any(watch() is not None for watch in list(self._live.values()))

    def close(self, keeps: object = None) -> None:
        """Drop all mappings. Those with live views, and ``keeps``, stay alive until these die."""
        for mapping in self._segments.values():
            mapping.keeps = keeps
        self._live.clear()
        self._segments.clear()
        self._trusted.clear()
