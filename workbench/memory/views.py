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
"""Objects on disk whose bytes are remembered to be right; more, and they are checked again."""


class Watch(weakref.ref[Any]):
    """A weak reference that knows whose it is. Its callback gets the watch itself.

    ``callback`` is a C function, like a deque's ``append``: Ctrl-C that comes inside a callback
    written in Python ends it, and nobody hears of either. So is ``wake``.
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
        """From now on ``wake`` is called, too. No code of Python's runs between the two calls."""
        self._wake = weakref.ref(target, wake)


def bases(array: Any) -> Iterator[Any]:
    """An array or memoryview, what it shows, what that shows, and so on."""
    while array is not None:
        yield array
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)


def address(array: Any) -> int:
    """Of its first element."""
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
        # Object on disk → the place where it was checked: the server uses none of its own twice.
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
        """Make sure that bytes on disk are what was written there: once, then they are trusted.

        ObjectLostError if they aren't, or can't be read.
        """
        if self._trusted.get(id) == (segment, offset):
            return
        mapping = self._segments.get(segment)  # kept while we read: its descriptor is open
        if mapping is None:
            raise ObjectLostError("The object's bytes have moved.")
        spill.check(mapping.fd, offset, length, digest)
        if len(self._trusted) >= MOST_TRUSTED:
            self._trusted.clear()
        self._trusted[id] = segment, offset

    def forget(self, id: int) -> None:
        """Nobody here has a handle to it any more."""
        self._trusted.pop(id, None)

    def open(self, id: int, segment: int, offset: int, length: int) -> tuple[Bytes, bool]:
        """The object's bytes, read-only, and whether this is a new view.

        If a view lives, that is it, wherever the object has moved since.
        Everything made from them (arrays, slices, whole DataFrames) keeps this very array alive
        through the buffer protocol, so it dies with the last view.
        """
        watch = self._live.get(id)
        alive: Bytes | None = watch() if watch is not None else None
        if alive is not None:
            return alive, False
        # Made from the mmap itself, not sliced from an array of it: numpy gives a slice of a
        # slice the base of the first array in the chain, and that has to be this one.
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
        """What all views of an object show, as long as there are any."""
        watch = self._live.get(id)
        return None if watch is None else watch()

    def shown_by(self, array: Any) -> int | None:
        """The id of the object whose bytes an array shows, in whole or in part."""
        return self._shown(array)[0]

    def begun_by(self, array: Any) -> int | None:
        """The same, if the array begins where the object's bytes do."""
        id, owner = self._shown(array)
        return id if owner is not None and address(array) == address(owner) else None

    def _shown(self, array: Any) -> tuple[int, Bytes] | tuple[None, None]:
        """The object, and the one array that all views of it show."""
        for base in bases(array):
            if type(base) is np.ndarray:
                for watch in weakref.getweakrefs(base):
                    if type(watch) is Watch and self._live.get(watch.id) is watch:
                        return watch.id, base
        return None, None

    def shows(self) -> bool:
        """True if any view lives."""
        return any(watch() is not None for watch in list(self._live.values()))

    def close(self, keeps: object = None) -> None:
        """A mapping with living views goes when they do; ``keeps`` lives as long as any of them."""
        for mapping in self._segments.values():
            mapping.keeps = keeps
        self._live.clear()
        self._segments.clear()
        self._trusted.clear()
