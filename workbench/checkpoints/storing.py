"""Stores groups of variables: their pickles together in a box, large buffers on their own."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.checkpoints.buffers import OWN, Buffers
from workbench.checkpoints.groups import VariableGroup
from workbench.checkpoints.records import KeptPickles, Pickle, StoredGroup
from workbench.engine.base import Engine
from workbench.errors import StoreFullError
from workbench.ref import ObjectRef
from workbench.serialization.arrays import Array
from workbench.serialization.comparison import as_bytes


class Storing:
    """The store, as one notebook's checkpoints use it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._buffers = Buffers(engine)

    def store(self, groups: list[VariableGroup]) -> list[VariableGroup]:
        """Store those whose contents aren't stored as they are; return these.

        A group for which there is no room has the error as its ``full``.
        """
        box: list[Pickle] = []
        stored: list[tuple[VariableGroup, dict[bytes, ObjectRef]]] = []
        for group in groups:
            packed, digests = group.seen.packed, self._digests(group)
            assert packed is not None
            if group.stored is None or group.contents != (group.seen.digest, *digests):
                own: dict[bytes, ObjectRef] = {}
                try:
                    buffers = [
                        self._stored(each, digest, own)
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

    def _digests(self, group: VariableGroup) -> list[bytes]:
        """Return a digest for each large buffer, and the bytes of small ones."""
        assert group.seen.packed is not None
        return [
            self._buffers.digest(each) if each.nbytes >= OWN else as_bytes(each).tobytes()
            for each in group.seen.packed.buffers
        ]

    def _stored(self, buffer: Array, digest: bytes, own: dict[bytes, ObjectRef]) -> bytes:
        if buffer.nbytes < OWN:
            return digest
        digest, own[digest] = self._buffers.store(buffer, digest)
        return digest

    def adopt(self, group: VariableGroup, stored: StoredGroup, sealed: Mapping[int, bytes]) -> None:
        """Take a group, just opened from a stored one, for what that has."""
        self._buffers.remember(stored.buffers)
        assert group.seen.packed is not None
        for each in group.seen.packed.buffers:
            self._buffers.opened(each, sealed)
        group.stored = stored
        group.contents = group.seen.digest, *self._digests(group)
        group.let_go()
