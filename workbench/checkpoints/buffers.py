"""Stores large buffers, each content once; sees without reading it that memory hasn't changed.

Where the machine can't tell which pages were written, each look reads all bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakValueDictionary

import numpy as np

from workbench.checkpoints.records import KeptBuffer
from workbench.engine.base import Engine
from workbench.ref import ObjectRef
from workbench.serialization.arrays import Array, address, owner_of
from workbench.serialization.buffer_digests import BufferDigests, digest_of
from workbench.serialization.comparison import as_bytes

OWN = 64 << 10
"""Bytes from which a buffer is stored on its own."""


class Buffers(BufferDigests):
    """The large buffers of one notebook's checkpoints."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine
        self._stored: WeakValueDictionary[bytes, ObjectRef] = WeakValueDictionary()

    def store(self, array: Array, digest: bytes) -> tuple[bytes, ObjectRef]:
        """Store a buffer unless its content is stored. Return the digest of what is stored:
        another one if a thread wrote to the buffer meanwhile. StoreFullError if it has no room."""
        if (ref := self._stored.get(digest)) is not None:
            return digest, ref
        flat = as_bytes(array)
        ref, _ = self._engine.put(KeptBuffer(flat))
        if self.is_still(flat, digest):
            found = digest
        else:
            (stored,) = self._engine.get([ref], None, False)
            found = digest_of(stored.array)
        self._stored[found] = ref
        return found, ref

    def remember(self, refs: Mapping[bytes, ObjectRef]) -> None:
        """Note buffers that an earlier kernel, or another group, has stored."""
        self._stored.update(refs)

    def opened(self, array: Array, sealed: Mapping[int, bytes]) -> None:
        """Note a buffer that shows stored bytes, copied on write, so that it needn't be read:
        ``sealed`` are digests by the address of what it was made from."""
        before = getattr(owner_of(array), "keeps", None)
        if not isinstance(before, np.ndarray) or before.nbytes != array.nbytes:
            return
        if digest := sealed.get(address(before)):
            self.note(array, digest)
