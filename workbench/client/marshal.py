"""Marshal: encodes values into messages or shared memory, and decodes them. Sends nothing.

It knows the custom serializers, finds the refs inside a value, and notes what loading cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from workbench import context
from workbench.client.arena_writer import ArenaWriter, Claims
from workbench.client.duplicate_puts import DuplicatePuts
from workbench.context import restore
from workbench.core import events as ev
from workbench.core.events import ID_BITS
from workbench.engine.base import Copying
from workbench.errors import SerializationError
from workbench.expressions import describe
from workbench.memory.copying import Bytes
from workbench.ref import ObjectRef
from workbench.serialization import codec
from workbench.serialization.arrays import Reducer, reduce_array
from workbench.serialization.class_states import OWN, building
from workbench.serialization.libraries import writable
from workbench.serialization.packing import NOTHING_THERE, OtherSide, PackedValues, pack
from workbench.serialization.rebuilding import Name
from workbench.serialization.registry import Custom, Registry
from workbench.serialization.scratch import Scratch

INLINE = 16 << 10
"""Objects up to this many bytes travel inside messages, until these have used up their share of the
store; after that they lie in a segment."""

MOST_LOADS = 10_000
"""Most loads remembered, so that only each object's first one is reported."""


Parts = Callable[[], Mapping[str, Any]]

Refs = list[ObjectRef]

ByRef = Refs | None
"""Refs that are sent in place of arrays: see `Marshal.reducers`."""


def _stored(ref: ObjectRef) -> Any:
    """Return a stored array that a function refers to. Runs where the function is unpickled."""
    engine = context.get()
    if engine is None:
        raise LookupError("There is no current session.")
    return engine.get([ref], None, False)[0]


class Encoded(NamedTuple):
    """A value whose bytes are in place: where they are, what it was serialized to, and the cost
    in seconds."""

    stored: ev.Value
    serialized: codec.Serialized
    copy_seconds: float
    cold: bool = False
    repeats: int = 0

    def about(self, description: str, site: str) -> ev.About:
        done = self.serialized
        return ev.About(
            description,
            done.inband,
            done.outband,
            len(done.buffers),
            done.seconds,
            self.copy_seconds,
            site,
            self.repeats,
            self.cold,
        )

    def about_large(self, value: Any, site: str) -> ev.About | None:
        """Return the same of a value in a segment; None for an inline one."""
        return self.about(describe(value), site) if self.stored.segment else None


@dataclass(eq=False)
class Marshal:
    """Encodes and decodes values."""

    _arena: ArenaWriter
    _prefix: int  # of this process's own ids
    _capacity: Callable[[], int]  # the store's, in bytes; waits until that is known
    _check: Callable[[ObjectRef], None]  # raises if the ref isn't of this session
    _stored_as: Callable[[Any], ObjectRef | None]  # see `KnownObjects`
    _side: str  # which this process is, as errors say it

    def __post_init__(self) -> None:
        self._where = codec.Where("object", self._side)
        self.registry = Registry(lambda payload: Custom(*codec.deserialize_inline(payload)))
        self._scratch = Scratch()
        self._repeats = DuplicatePuts()
        self._loads: dict[int, float] = {}
        self._unreported: list[int] = []

    # -- value → bytes ------------------------------------------------------------------------

    def reducers(self, inside: Refs, by_ref: ByRef = None) -> Mapping[type, Reducer]:
        """Return all custom reducers. Refs inside the value are added to ``inside``.

        With ``by_ref`` a large array that is a stored object isn't stored again: its ref is sent
        instead, and added to ``by_ref``.
        """

        def reduce_ref(ref: ObjectRef) -> tuple[Any, ...]:
            self._check(ref)
            inside.append(ref)
            return restore, (ref.id, ref.session)

        reducers = {**self.registry.reducers(), ObjectRef: reduce_ref}
        if by_ref is not None:

            def reduce_stored(array: Any) -> Any:
                ref = self._stored_as(array) if array.nbytes > INLINE else None
                if ref is None:
                    return reduce_array(array)
                by_ref.append(ref)
                return _stored, (ref,)

            reducers.setdefault(np.ndarray, reduce_stored)
        return reducers

    def encode(
        self,
        value: Any,
        claims: Claims,
        parts: Parts | None = None,
        by_ref: ByRef = None,
    ) -> Encoded:
        """Serialize a value and bring its bytes where they can be read: inline or in our arena.

        An extent taken for it is added to ``claims``. Until the server knows the extent, only that
        list does: a caller that gives up gives it back. ``parts()`` is called if it fails: it
        returns what to search for the cause, by name.
        """
        inside: Refs = []
        done = self._serialize(value, inside, parts, by_ref)
        started = time.perf_counter()
        contains = tuple([ref.id for ref in inside])
        cold, small, capacity = False, done.inband + done.outband <= INLINE, self._capacity()
        header = done.inline() if small else b""
        nothing = not done.stream and not done.buffers
        if small and (nothing or self._arena.may_inline(len(header), capacity, claims)):
            stored = ev.Value(header, contains=contains)
            seconds = time.perf_counter() - started
        else:
            stored, seconds, cold = self._arena.write(done, contains, capacity, claims)
        if done.chunks:  # not given back after Ctrl-C: a thread may still copy
            done.stream.clear()
            self._scratch.give_back(done.chunks)
        repeats = self._repeats.count(done.buffers) if stored.segment else 0
        return Encoded(stored, done, seconds, cold, repeats)

    def pack(
        self,
        value: Any,
        parts: Parts,
        there: OtherSide = NOTHING_THERE,
    ) -> tuple[PackedValues, Any]:
        """See `queries.Pack`."""
        refs: Refs = []
        return pack(value, self.reducers(refs), refs, parts, self._capacity(), there)

    def inline(self, value: Any, parts: Parts | None = None) -> bytes:
        """Return the value as one bytes object, however large. For what isn't a stored object."""
        return self._serialize(value, [], parts).inline()

    def _serialize(
        self,
        value: Any,
        inside: Refs,
        parts: Parts | None,
        by_ref: ByRef = None,
    ) -> codec.Serialized:
        small = codec.serialize_small(value)
        if small is not None:
            return small
        try:
            return codec.serialize(
                value,
                self.reducers(inside, by_ref),
                parts=parts,
                limit=self._capacity(),
                scratch=self._scratch,
                beyond=self._arena.most_pickled_beyond,
            )
        except SerializationError as error:
            for text in list(self.registry.broken.values()):
                error.add_note(f"A serializer registered elsewhere is missing {self._side}: {text}")
            raise

    # -- bytes → value ------------------------------------------------------------------------

    def decode(
        self, id: int, value: ev.Value, extent: Bytes | None, copy: Copying = False, name: Name = ""
    ) -> Any:
        """Build the value; ``extent`` are its bytes if they aren't in the header."""
        if value.header == codec.NONE:
            return None  # as most tasks return: nothing to build or measure
        started = time.perf_counter()
        where = codec.Where(name, self._side) if name else self._where
        maker = id >> ID_BITS
        outer = building.origin
        building.origin = (OWN if maker == self._prefix else maker, id)
        try:
            if extent is None:
                built = codec.deserialize_inline(value.header, bool(copy), where)
            else:
                if copy:
                    extent = writable(extent) if copy == "on write" else extent.copy()
                built = codec.deserialize(value.header, extent, where)
        finally:
            building.origin = outer
        if id not in self._loads:
            seconds = time.perf_counter() - started
            if len(self._loads) >= MOST_LOADS:
                self._loads.clear()
            self._loads[id] = seconds
            self._unreported.append(id)
        return built

    def report(self, known: Callable[[int], bool]) -> ev.Loaded | None:
        """Return how long the first loads since the last report took.

        ``known`` is true of the objects that are still of interest: an object that was put, got
        and dropped at once makes no message.
        """
        unreported, self._unreported = self._unreported, []
        ids = tuple(id for id in unreported if known(id) and id in self._loads)
        return ev.Loaded(ids, tuple(self._loads[id] for id in ids)) if ids else None
