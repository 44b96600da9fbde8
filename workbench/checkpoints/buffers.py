"""Stores large buffers, each content once; sees without reading it that memory hasn't changed.

Where the machine can't tell which pages were written, each look reads all bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import xxhash

from workbench.checkpoints.records import KeptBuffer
from workbench.engine.base import Engine
from workbench.ref import ObjectRef
from workbench.serialization.arrays import Array, address, owner_of
from workbench.serialization.comparison import as_bytes, is_sealed
from workbench.serialization.known_memory import marked
from workbench.system.page_watch import Mark

OWN = 64 << 10
"""Bytes from which a buffer is stored on its own."""

PIECE = 4 << 20
"""Bytes hashed at once, so that Ctrl-C is heard."""

_EDGE = 1 << 16  # bytes at either end that are read all the same: pages may be partly another's


class _Watched(NamedTuple):
    digest: bytes
    edges: bytes
    mark: Mark


class Buffers:
    """The large buffers of one notebook's checkpoints."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[tuple[int, int], _Watched] = {}  # by address and length
        self._stored: WeakValueDictionary[bytes, ObjectRef] = WeakValueDictionary()

    def digest(self, array: Array) -> bytes:
        """Return the digest of a buffer's bytes. What is watched isn't read."""
        flat = as_bytes(array)
        known = self._known.get((address(flat), flat.nbytes))
        if known and self._is_still(flat, known.digest):
            return known.digest
        # Before it is read: other threads may write. Store memory is others' after its last view.
        mark = None if is_sealed(array) else marked(array)
        watched = mark and _Watched(b"", _edges(flat), mark)
        found = _digest(flat)
        if watched:
            if len(self._known) > 10_000:  # most are of memory that is free again
                self._known.clear()
            self._known[address(flat), flat.nbytes] = watched._replace(digest=found)
        return found

    def store(self, array: Array, digest: bytes) -> tuple[bytes, ObjectRef]:
        """Store a buffer unless its content is stored. Return the digest of what is stored:
        another one if a thread wrote to the buffer meanwhile. StoreFullError if it has no room."""
        if (ref := self._stored.get(digest)) is not None:
            return digest, ref
        flat = as_bytes(array)
        ref, _ = self._engine.put(KeptBuffer(flat))
        if self._is_still(flat, digest):
            found = digest
        else:
            (stored,) = self._engine.get([ref], None, False)
            found = _digest(stored.array)
        self._stored[found] = ref
        return found, ref

    def _is_still(self, flat: Array, digest: bytes) -> bool:
        """True if it is sure that memory still has the bytes of this digest."""
        known = self._known.get((address(flat), flat.nbytes))
        if known is None or known.digest != digest or known.edges != _edges(flat):
            return False
        return not known.mark.is_written()

    def remember(self, refs: Mapping[bytes, ObjectRef]) -> None:
        """Note buffers that an earlier kernel, or another part, has stored."""
        self._stored.update(refs)

    def opened(self, array: Array, sealed: Mapping[int, bytes]) -> None:
        """Note a buffer that shows stored bytes, copied on write, so that it needn't be read:
        ``sealed`` are digests by the address of what it was made from."""
        before = getattr(owner_of(array), "keeps", None)
        if not isinstance(before, np.ndarray) or before.nbytes != array.nbytes:
            return
        digest = sealed.get(address(before))
        if digest and (mark := marked(array)):
            edges = _edges(as_bytes(array))
            self._known[address(array), array.nbytes] = _Watched(digest, edges, mark)


def _edges(flat: Array) -> bytes:
    return xxhash.xxh3_128_digest(flat[:_EDGE].data) + xxhash.xxh3_128_digest(flat[-_EDGE:].data)


def _digest(flat: Array) -> bytes:
    found = xxhash.xxh3_128(b"%d" % flat.nbytes)
    for start in range(0, flat.nbytes, PIECE):
        found.update(flat[start : start + PIECE].data)
    return found.digest()
