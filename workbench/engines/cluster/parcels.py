"""Values on their way through a cluster: pickled by our codec, their buffers left to the system.

Pure: whoever packs says what the natives of refs are, whoever opens what refs become.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from workbench import context
from workbench.client.refusals import failure_of
from workbench.core.events import ID_BITS, About
from workbench.engine.records import Copying
from workbench.engines.cluster.backend import Native, StoredValue
from workbench.expressions import describe
from workbench.ref import ObjectRef
from workbench.serialization import codec
from workbench.serialization.arrays import Reducer
from workbench.serialization.class_states import OWN, building
from workbench.serialization.libraries import writable
from workbench.serialization.packing import NOTHING_THERE, OtherSide, PackedValues, pack
from workbench.serialization.rebuilding import Name
from workbench.serialization.registry import Custom, Registry

INLINE = 16 << 10
"""Values up to so many bytes are one piece, which is what systems move fastest."""

LIMIT = 1 << 40
"""Bytes of a pickle. What a cluster's memory takes, it says itself."""

Parts = Callable[[], Mapping[str, Any]]


class Packer:
    """Packs values, and opens them, in one process of a session.

    ``prefix`` is that of its ids; ``native`` gives a ref's, and raises if it is none of the
    session's; ``side`` is where this is, for errors.
    """

    def __init__(
        self, session: str, prefix: int, native: Callable[[ObjectRef], Native], side: str
    ) -> None:
        self.registry = Registry(lambda payload: Custom(*codec.deserialize_inline(payload)))
        self._session = session
        self._prefix = prefix
        self._native = native
        self._side = side

    # -- value → what travels -----------------------------------------------------------------

    def reducers(self, met: list[ObjectRef]) -> Mapping[type, Reducer]:
        """All custom reducers; the refs they meet are added to ``met``."""

        def reduce_ref(ref: ObjectRef) -> tuple[Any, ...]:
            self._native(ref)  # raises if it is another session's
            met.append(ref)
            return context.restore, (ref.id, self._session)

        return {**self.registry.reducers(), ObjectRef: reduce_ref}

    def pack(self, value: Any, parts: Parts | None, what: str = "", site: str = "") -> StoredValue:
        """A value as it travels. ``parts``: see `codec.serialize`; ``what`` it is, to people."""
        return self.packed(value, parts, what, site)[0]

    def packed(
        self, value: Any, parts: Parts | None, what: str = "", site: str = ""
    ) -> tuple[StoredValue, codec.Serialized]:
        """The same, and how it was serialized."""
        met: list[ObjectRef] = []
        done = codec.serialize_small(value)
        if done is None:
            done = codec.serialize(value, self.reducers(met), parts=parts, limit=LIMIT)
        started = time.perf_counter()
        natives = tuple(map(self._native, met))
        inside = tuple(ref.id for ref in met)
        if done.inband + done.outband <= INLINE:
            header, buffers = done.inline(), tuple[Any, ...]()
        else:
            header, buffers = done.header(), tuple(_out_of_band(done))
        about = About(
            what or describe(value),
            done.inband,
            done.outband,
            len(done.buffers),
            done.seconds,
            time.perf_counter() - started,
            site,
        )
        return StoredValue(header, buffers, inside, natives, about), done

    def inline(self, value: Any) -> bytes:
        return self.packed(value, None)[1].inline()

    def failure(self, failure: Any) -> StoredValue:
        """What stands for an error: a `TaskFailure`. A ref in it keeps its object."""
        return self.pack(failure, None, "an error")._replace(failed=True)

    def pack_values(
        self,
        value: Any,
        parts: Parts,
        there: OtherSide = NOTHING_THERE,
    ) -> tuple[PackedValues, Any]:
        """See `queries.Pack`."""
        met: list[ObjectRef] = []
        return pack(value, self.reducers(met), met, parts, LIMIT, there)

    # -- what travels → value -----------------------------------------------------------------

    def open(self, id: int, stored: StoredValue, copy: Copying = False, name: Name = "") -> Any:
        """Build the value; raises what it failed with. Its refs are known here already."""
        if stored.failed:
            raise failure_of(stored.header)
        where = codec.Where(name or "object", self._side)
        maker = id >> ID_BITS
        outer = building.origin
        building.origin = (OWN if maker == self._prefix else maker, id)
        try:
            if not stored.buffers:
                return codec.deserialize_inline(stored.header, bool(copy), where)
            parts = read_only(stored.buffers)
            if copy:  # on write: where they don't lie in a segment of ours, that is a copy, too
                parts = [writable(p) if copy == "on write" else p.copy() for p in parts]
            return codec.from_parts(stored.header, parts, where)
        finally:
            building.origin = outer


def refused(code: str, text: str) -> StoredValue:
    """What stands for a value that will never be there: as `core.events.error_value`."""
    return StoredValue(f"!{code}\n{text}".encode(), failed=True)


def again(stored: StoredValue) -> StoredValue:
    """One that came, as it may be sent."""
    return stored._replace(buffers=tuple(map(pickle.PickleBuffer, stored.buffers)))


def contents(stored: StoredValue) -> codec.Contents:
    """The bytes of a value that is there, apart, without a copy. LookupError if it failed."""
    if stored.failed:
        raise LookupError("it failed")
    if not stored.buffers:
        return codec.contents(stored.header)
    parts = read_only(stored.buffers)
    if stored.header[:1] == b"F":
        form = codec.Form(*pickle.loads(memoryview(stored.header)[1:]))
        return codec.Contents(form, parts, memoryview(b""))
    return codec.Contents(None, parts[:-1], parts[-1].data)


def read_only(buffers: Iterable[Any]) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    """As bytes that nobody can write to through them."""
    found = []
    for buffer in buffers:
        flat = np.frombuffer(buffer, np.uint8)
        flat.flags.writeable = False
        found.append(flat)
    return found


def _out_of_band(done: codec.Serialized) -> Iterable[Any]:
    for array in done.buffers:
        whole: Any = np.ascontiguousarray(array)
        yield pickle.PickleBuffer(whole.reshape(-1).view(np.uint8))
    if not done.array:
        yield pickle.PickleBuffer(b"".join(done.stream))
