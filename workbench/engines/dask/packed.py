"""Values as they lie in Dask's workers: small ones whole, large ones as handles of segments."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from workbench.core.events import About
from workbench.engines.cluster.backend import StoredValue
from workbench.engines.dask.node_store import (
    LARGE,
    NodeSegment,
    offsets,
    open_segment,
    this_process,
    try_segment,
)
from workbench.errors import ObjectLostError


class DaskRef:
    """A native: the key of a task or a stored value, and which of its values (0: its end).

    With a ``future`` the scheduler keeps it for this process; without, somebody else does.
    """

    __slots__ = ("__weakref__", "future", "index", "key")

    def __init__(self, key: str, index: int, future: Any = None) -> None:
        self.key = key
        self.index = index
        self.future = future

    def __reduce__(self) -> Any:
        return DaskRef, (self.key, self.index)

    def __repr__(self) -> str:
        return f"DaskRef({self.key!r}, {self.index})"


class DaskActor:
    """An actor's native: who it is, the worker it lives on, and the key of its description."""

    __slots__ = ("actor", "address", "described", "key")

    def __init__(self, actor: int, key: str, address: str, described: str) -> None:
        self.actor = actor
        self.key = key
        self.address = address
        self.described = described

    def __reduce__(self) -> Any:
        return DaskActor, (self.actor, self.key, self.address, self.described)


NativeForm = tuple[str, int, int, str, str]
"""A native as bytes can have it: key and index; of an actor those of its description, and who it
is, its own key and its worker's address."""


def form_of(native: Any) -> NativeForm:
    """See `NativeForm`. An actor's native is (the actor, its description)."""
    if type(native) is tuple:
        actor, described = native
        return described.key, described.index, actor.actor, actor.key, actor.address
    return native.key, native.index, 0, "", ""


def native_of(form: NativeForm) -> Any:
    """What `form_of` was given."""
    key, index, actor, actor_key, address = form
    described = DaskRef(key, index)
    return (DaskActor(actor, actor_key, address, key), described) if actor else described


class PackedValue(msgspec.Struct, array_like=True):
    """A `StoredValue` as bytes. With ``lengths``, its buffers lie in a segment."""

    header: bytes
    buffers: list[bytes] = []
    lengths: list[int] = []
    inside: list[int] = []
    natives: list[NativeForm] = []
    about: About | None = None
    failed: bool = False

    @property
    def nbytes(self) -> int:
        return len(self.header) + sum(map(len, self.buffers)) + offsets(self.lengths)[-1]


def pack(value: StoredValue) -> tuple[PackedValue, int]:
    """A value's bytes, and the descriptor of the segment with its buffers; -1 if it has none."""
    natives = [form_of(native) for native in value.natives]
    packed = PackedValue(
        value.header, [], [], list(value.inside), natives, value.about, value.failed
    )
    views = [memoryview(buffer).cast("B") for buffer in value.buffers]
    if sum(view.nbytes for view in views) >= LARGE:
        fd = try_segment(views)
        if fd is not None:
            packed.lengths = [view.nbytes for view in views]
            return packed, fd
    packed.buffers = [bytes(view) for view in views]
    return packed, -1


def unpack(packed: PackedValue, fd: int = -1) -> StoredValue:
    """The value again; ``fd`` stays the caller's."""
    buffers: Sequence[Any] = packed.buffers
    if packed.lengths:
        buffers = open_segment(fd, packed.lengths)
    return StoredValue(
        packed.header,
        tuple(buffers),
        tuple(packed.inside),
        tuple(map(native_of, packed.natives)),
        packed.about,
        packed.failed,
    )


class Bundle:
    """What Dask keeps under one key: a stored value, or a task's end and its results.

    ``end`` is the encoded `TaskEnd`, ``key`` Dask's. Between workers of a node large buffers go as
    names of segments, between nodes too: whoever gets one fetches what it doesn't have.
    """

    __slots__ = ("_coming", "_segments", "end", "key", "leases", "places", "tokens", "values")

    def __init__(
        self, key: str, end: bytes, values: list[PackedValue], tokens: list[str],
        segments: Sequence[NodeSegment | None], places: tuple[str, ...] = (),
        leases: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.key = key
        self.end = end
        self.values = values
        self.tokens = tokens
        self.places = places
        """Addresses of workers that had the segments when this left them."""
        self.leases = list(leases) or [0] * len(values)
        """By which the first of them keeps each."""
        self._segments: list[NodeSegment | None] = list(segments)
        self._coming: list[Future[NodeSegment] | None] = [None] * len(values)

    @classmethod
    def of(cls, key: str, end: bytes, values: list[PackedValue], fds: Sequence[int]) -> Bundle:
        """``fds`` are the descriptors of the values with segments, in order; ours from here."""
        left = list(fds)
        tokens, segments = [], []
        for value in values:
            token = secrets.token_hex(12) if value.lengths else ""
            tokens.append(token)
            segments.append(this_process().add(token, left.pop(0)) if token else None)
        return cls(key, end, values, tokens, segments)

    def __sizeof__(self) -> int:
        return len(self.end) + sum(value.nbytes for value in self.values) + object.__sizeof__(self)

    def has(self, index: int) -> bool:
        """Whether the value's bytes are in this process."""
        return not self.tokens[index] or self._segments[index] is not None

    def segment(self, index: int, timeout: float | None = None) -> NodeSegment:
        """Where the buffers of that value lie; waits until they have come to this node."""
        found, coming = self._segments[index], self._coming[index]
        if found is None:
            token = self.tokens[index]
            found = this_process().get(token)
            if found is None and coming is not None:
                found = coming.result(timeout)
            found = found or this_process().ask(token)
            if found is None:
                raise ObjectLostError(
                    f"The bytes of {self.key!r} are gone with the Dask workers that had them."
                )
            self._segments[index] = found
            self._coming[index] = None
        return found

    def arrived(self, index: int, segment: NodeSegment) -> None:
        """Its bytes are here."""
        self._segments[index] = segment

    def expect(self, index: int, coming: Future[NodeSegment]) -> None:
        """They are on their way."""
        self._coming[index] = coming

    def stored(self, index: int) -> StoredValue:
        """The value of that index, to be read here."""
        packed = self.values[index]
        return unpack(packed, self.segment(index).fd if packed.lengths else -1)

    # -- as Dask moves it --------------------------------------------------------------------------

    def whole(self) -> tuple[list[Any], list[Any]]:
        """All of it, with its bytes: for a disk, or a place that shares no memory with this one."""
        frames: list[Any] = []
        for index, packed in enumerate(self.values):
            if packed.lengths:
                frames += open_segment(self.segment(index).fd, packed.lengths)
        return [self.key, self.end, _encode(self.values)], frames

    def handle(self) -> list[Any]:
        """It without large bytes, and where they can be had."""
        store = this_process()
        ready = [self.has(index) for index in range(len(self.values))]
        places = list(filter(None, dict.fromkeys([store.address, *self.places])))
        leases = [0 if each is None else store.leases.begin(each) for each in self._segments]
        packed = _encode(self.values)
        return [self.key, self.end, packed, self.tokens, ready, places, store.node, leases]

    def __reduce__(self) -> Any:
        import pickle

        state, frames = self.whole()
        return from_whole, (state, [pickle.PickleBuffer(frame) for frame in frames])


def from_whole(state: list[Any], frames: Sequence[Any]) -> Bundle:
    """What `Bundle.whole` gave, here: its segments are new ones of this process."""
    key, end, values = state[0], state[1], _decode(state[2])
    left = list(frames)
    fds: list[int] = []
    for value in values:
        if value.lengths:
            buffers, left = left[: len(value.lengths)], left[len(value.lengths) :]
            fd = try_segment(buffers)
            if fd is None:
                value.buffers, value.lengths = [bytes(each) for each in buffers], []
            else:
                fds.append(fd)
    return Bundle.of(key, end, values, fds)


def from_handle(state: list[Any]) -> Bundle:
    """What `Bundle.handle` gave: with the segments that this node has; others are fetched."""
    key, end, values, tokens, ready, places, node, leases = state
    store = this_process()
    segments: list[NodeSegment | None] = []
    for token, is_there, lease in zip(tokens, ready, leases, strict=True):
        found = store.get(token) if token else None
        if token and found is None and is_there and node == store.node:
            found = store.ask(token, 1.0, lease)  # he has it: it takes a tenth of a millisecond
        segments.append(found)
    bundle = Bundle(key, end, _decode(values), tokens, segments, tuple(places), leases)
    for index, token in enumerate(tokens):
        if token and segments[index] is None and store.fetch is not None:
            size = offsets(bundle.values[index].lengths)[-1]
            bundle.expect(index, store.fetch(token, key, size, bundle.places, leases[index]))
    return bundle


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[PackedValue]).decode


def register() -> None:
    """Have Dask move bundles so in this process."""
    from distributed.protocol import dask_deserialize, dask_serialize

    def dumps(bundle: Bundle, context: Any = None) -> tuple[Any, list[Any]]:
        if context is None or not this_process().lends:  # to a disk, or from afar
            state, frames = bundle.whole()
            return {"whole": True, "state": state}, frames
        return {"whole": False, "state": bundle.handle()}, []

    def loads(header: Any, frames: list[Any]) -> Bundle:
        state = list(header["state"])
        return from_whole(state, frames) if header["whole"] else from_handle(state)

    dask_serialize.register(Bundle)(dumps)
    dask_deserialize.register(Bundle)(loads)


with contextlib.suppress(ImportError):
    register()


def close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
