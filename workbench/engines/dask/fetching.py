"""How a worker of Dask's comes by segments of other nodes, and reads out its own to theirs.

All of it runs on the worker's event loop. Drivers that share no memory with any worker read
through `READ` too, by way of the scheduler.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
from collections.abc import Awaitable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from workbench.engines.dask.node_store import NodeSegment, NodeStore
from workbench.errors import ObjectLostError
from workbench.memory import segment as seg
from workbench.memory.copying import write_cold

READ = "workbench_read"
"""The worker's handler that reads from a segment."""

PIECE = 32 << 20
"""Bytes that are asked for at a time."""


ON_ITS_WAY = 10.0
"""Seconds to wait for what is on its way to who is asked, before another place is asked."""


class Fetcher:
    """For one worker. ``fetch`` may be called in any thread."""

    def __init__(self, worker: Any, store: NodeStore) -> None:
        self._worker = worker
        self._store = store
        self._coming: dict[str, Future[NodeSegment]] = {}

    def fetch(
        self, token: str, key: str, size: int, places: Sequence[str], lease: int
    ) -> Future[NodeSegment]:
        """A future of the segment: on its way from now on."""
        coming = self._coming.get(token)
        if coming is None:
            coming = self._coming[token] = Future()
            coming.add_done_callback(lambda _: self._coming.pop(token, None))
            obtained = self._obtained(token, key, size, places, lease)
            self._worker.loop.add_callback(self._obtain, coming, obtained)
        return coming

    async def arrived(self, token: str) -> NodeSegment | None:
        """The segment once it has come here; None if it isn't on its way, or doesn't come soon:
        perhaps it waits for who asks."""
        coming = self._coming.get(token)
        if coming is None:
            return None
        with contextlib.suppress(Exception):
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(coming)), ON_ITS_WAY)
        return None

    async def _obtain(self, coming: Future[NodeSegment], obtained: Awaitable[NodeSegment]) -> None:
        try:
            coming.set_result(await obtained)
        except BaseException as error:
            coming.set_exception(error)

    async def _obtained(
        self, token: str, key: str, size: int, places: Sequence[str], lease: int
    ) -> NodeSegment:
        store, loop = self._store, asyncio.get_running_loop()
        while True:
            listener = store.claim(token)
            if listener is None:  # somebody of this node has it, or fetches it now
                found = await loop.run_in_executor(None, partial(store.ask, token, lease=lease))
                if found is not None:
                    return found
                continue
            try:
                fd = await self._read(token, key, size, places, lease)
            except BaseException:
                listener.close()
                raise
            store.fetched += size
            return store.add(token, fd, listener)

    async def _read(
        self, token: str, key: str, size: int, places: Sequence[str], lease: int
    ) -> int:
        """The descriptor of a segment of ours with those bytes."""
        for place in places:
            fd = await self._read_from(place, token, size, lease if place == places[0] else 0)
            if fd is not None:
                return fd
        found = await self._worker.scheduler.who_has(keys=[key])
        for place in found.get(key, ()):
            if place not in places and place != self._worker.address:
                fd = await self._read_from(place, token, size)
                if fd is not None:
                    return fd
        raise ObjectLostError(f"The bytes of {key!r} are gone with the Dask workers that had them.")

    async def _read_from(self, place: str, token: str, size: int, lease: int = 0) -> int | None:
        descriptors = seg.create(size)
        try:
            for offset in range(0, size, PIECE):
                data = await self._worker.rpc(place).workbench_read(
                    token=token, offset=offset, length=min(PIECE, size - offset), lease=lease,
                    is_last=offset + PIECE >= size,
                )  # fmt: skip
                if not data:
                    os.close(descriptors.readonly)
                    return None
                write_cold(descriptors.writable, memoryview(data), offset)
        except OSError:  # nobody is there any more
            os.close(descriptors.readonly)
            return None
        finally:
            os.close(descriptors.writable)
        return descriptors.readonly


def reader(store: NodeStore, fetcher: Fetcher) -> Any:
    """The handler `READ`."""
    from distributed.protocol import to_serialize

    async def read(
        token: str, offset: int, length: int, lease: int = 0, is_last: bool = False
    ) -> Any:
        kept = store.leases.used(lease) if lease else None
        segment = kept or store.get(token) or await fetcher.arrived(token)
        if segment is None:
            return b""
        if is_last:  # it has been read when this answer is there: the mapping keeps it until then
            store.leases.end(lease)
        start = offset % mmap.ALLOCATIONGRANULARITY
        mapping = mmap.mmap(
            segment.fd, start + length, mmap.MAP_SHARED, mmap.PROT_READ, offset=offset - start
        )
        return to_serialize(memoryview(mapping)[start:])

    return read
