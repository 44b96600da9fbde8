"""Stores groups of variables: their pickles together in a box, large buffers on their own, each
content once. Where the machine can't tell which pages were written, each look reads all bytes."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakValueDictionary

import numpy as np

from workbench.checkpoints.groups import VariableGroup
from workbench.checkpoints.records import KeptBuffer, KeptPickles, Pickle, StoredGroup
from workbench.engine.base import Engine
from workbench.errors import StoreFullError
from workbench.ref import ObjectRef
from workbench.serialization.arrays import Array, address, owner_of
from workbench.serialization.buffer_digests import BufferDigests, digest_of
from workbench.serialization.comparison import as_bytes

OWN = 64 << 10
"""Bytes from which a buffer is stored on its own."""


class Storing:
    """The store, as one notebook's checkpoints use it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._digests = BufferDigests()
        self._stored: WeakValueDictionary[bytes, ObjectRef] = WeakValueDictionary()  # by digest

    def store(self, groups: list[VariableGroup]) -> list[VariableGroup]:
        """Store those whose contents aren't stored as they are; return these.

        A group for which there is no room has the error as its ``full``.
        """
        box: list[Pickle] = []
        stored: list[tuple[VariableGroup, dict[bytes, ObjectRef]]] = []
        for group in groups:
            packed, digests = group.seen.packed, self._digests_of(group)
            assert packed is not None
            if group.stored is None or group.contents != (group.seen.digest, *digests):
                own: dict[bytes, ObjectRef] = {}
                try:
                    buffers = [
                        self._stored_as(each, digest, own)
                        for each, digest in zip(packed.buffers, digests, strict=True)
                    ]
                except StoreFullError as error:
                    group.full = error
                else:
                    group.contents = group.seen.digest, *buffers
                    box.append(Pickle(packed.stream, buffers, packed.refs))
                    stored.append((group, own))
        try:
            ref = self._engine.put(KeptPickles(box))[0] if box else None
        except StoreFullError as error:
            for group, _ in stored:
                group.full = error
            stored.clear()
        for place, (group, own) in enumerate(stored):
            assert group.seen.packed is not None
            assert ref is not None
            nbytes = len(box[place].stream) + sum(b.nbytes for b in group.seen.packed.buffers)
            group.stored = StoredGroup(group.names, ref, place, own, group.seen.uses, nbytes)
        for group in groups:
            group.let_go()
        return [group for group, _ in stored]

    def _digests_of(self, group: VariableGroup) -> list[bytes]:
        """Return a digest for each large buffer, and the bytes of small ones."""
        assert group.seen.packed is not None
        return [
            self._digests.digest(each) if each.nbytes >= OWN else as_bytes(each).tobytes()
            for each in group.seen.packed.buffers
        ]

    def _stored_as(self, buffer: Array, digest: bytes, own: dict[bytes, ObjectRef]) -> bytes:
        """Store a large buffer unless its content is stored, and enter it in ``own``. Return the
        digest of what is stored: another one if a thread wrote to the buffer meanwhile."""
        if buffer.nbytes < OWN:
            return digest
        if (ref := self._stored.get(digest)) is None:
            flat = as_bytes(buffer)
            ref, _ = self._engine.put(KeptBuffer(flat))
            if not self._digests.is_still(flat, digest):
                (stored,) = self._engine.get([ref], None, False)
                digest = digest_of(stored.array)
            self._stored[digest] = ref
        own[digest] = ref
        return digest

    def adopt(self, group: VariableGroup, stored: StoredGroup, sealed: Mapping[int, bytes]) -> None:
        """Take a group, just opened from a stored one, for what that has. Its large buffers are
        copied on write, and needn't be read: ``sealed`` are digests by the address of what each was
        made from."""
        self._stored.update(stored.buffers)
        assert group.seen.packed is not None
        for each in group.seen.packed.buffers:
            before = getattr(owner_of(each), "keeps", None)
            if (
                isinstance(before, np.ndarray)
                and before.nbytes == each.nbytes
                and (digest := sealed.get(address(before)))
            ):
                self._digests.note(each, digest)
        group.stored = stored
        group.contents = group.seen.digest, *self._digests_of(group)
        group.let_go()
