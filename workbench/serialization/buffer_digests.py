"""Digests of large buffers: what wasn't written since it was read isn't read again."""

from __future__ import annotations

from typing import NamedTuple

import xxhash

from workbench.serialization.arrays import Array, address
from workbench.serialization.comparison import PIECE, as_bytes, is_sealed
from workbench.serialization.known_memory import marked
from workbench.system.page_watch import Mark

_EDGE = 1 << 16  # bytes at either end that are read all the same: pages may be partly another's


class _Digested(NamedTuple):
    digest: bytes
    edges: bytes
    mark: Mark


class BufferDigests:
    """Digests of buffers. What wasn't written since the last look isn't read again."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], _Digested] = {}  # by address and length

    def digest(self, array: Array) -> bytes:
        """Return the digest of a buffer's bytes."""
        flat = as_bytes(array)
        known = self._known.get((address(flat), flat.nbytes))
        if known and self.is_still(flat, known.digest):
            return known.digest
        # Before it is read: other threads may write. Store memory is others' after its last view.
        mark = None if is_sealed(array) else marked(array)
        watched = mark and _Digested(b"", _edges(flat), mark)
        found = digest_of(flat)
        if watched:
            if len(self._known) > 10_000:  # most are of memory that is free again
                self._known.clear()
            self._known[address(flat), flat.nbytes] = watched._replace(digest=found)
        return found

    def is_still(self, flat: Array, digest: bytes) -> bool:
        """True if it is sure that memory still has the bytes of this digest."""
        known = self._known.get((address(flat), flat.nbytes))
        if known is None or known.digest != digest or known.edges != _edges(flat):
            return False
        return not known.mark.is_written()

    def note(self, array: Array, digest: bytes) -> None:
        """Note the digest of a buffer that was just opened, and has the sealed bytes."""
        if mark := marked(array, as_file=True):
            flat = as_bytes(array)
            self._known[address(flat), flat.nbytes] = _Digested(digest, _edges(flat), mark)


def digest_of(flat: Array) -> bytes:
    """Return the digest of contiguous bytes, a piece at a time, so that Ctrl-C is heard."""
    found = xxhash.xxh3_128(b"%d" % flat.nbytes)
    for start in range(0, flat.nbytes, PIECE):
        found.update(flat[start : start + PIECE].data)
    return found.digest()


def _edges(flat: Array) -> bytes:
    return xxhash.xxh3_128_digest(flat[:_EDGE].data) + xxhash.xxh3_128_digest(flat[-_EDGE:].data)
