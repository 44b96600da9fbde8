"""How a process that shares no memory with a value's worker reads its segments: in pieces, by way
of the scheduler, which reaches every worker."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from workbench.engines.dask.fetching import PIECE, READ
from workbench.engines.dask.node_store import offsets, this_process
from workbench.engines.dask.packed import Bundle
from workbench.errors import ObjectLostError
from workbench.memory import segment as seg
from workbench.memory.copying import write_cold


class RemoteReader:
    """Of one client of Dask's."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._pool: ThreadPoolExecutor | None = None

    def bring(self, bundle: Bundle, index: int) -> None:
        """Have the segment of a value here. ObjectLostError if nobody has it."""
        token = bundle.tokens[index]
        store = this_process()
        found = store.get(token) or store.ask(token, 1.0, bundle.leases[index])
        if found is None:
            found = store.add(token, self._read(bundle, token, index))
        bundle.arrived(index, found)

    def _read(self, bundle: Bundle, token: str, index: int) -> int:
        size = offsets(bundle.values[index].lengths)[-1]
        for place, lease in self._places(bundle, bundle.leases[index]):
            descriptors = seg.create(size)
            try:
                for offset in range(0, size, PIECE):
                    data = self._asked(place, token, offset, min(PIECE, size - offset), lease, size)
                    if not data:
                        break
                    write_cold(descriptors.writable, memoryview(data), offset)
                else:
                    this_process().fetched += size
                    return os.dup(descriptors.readonly)
            finally:
                descriptors.close()
        raise ObjectLostError(
            f"The bytes of {bundle.key!r} are gone with the Dask workers that had them."
        )

    def _places(self, bundle: Bundle, lease: int) -> Iterator[tuple[str, int]]:
        """Workers that may have it, and the lease by which they keep it for us."""
        for place in bundle.places:
            yield place, lease if place == bundle.places[0] else 0
        now: dict[str, Sequence[str]] = self._client.who_has([bundle.key])
        for place in now.get(bundle.key, ()):
            if place not in bundle.places:
                yield place, 0

    def _asked(
        self, place: str, token: str, offset: int, length: int, lease: int, size: int
    ) -> Any:
        async def ask() -> Any:
            message = {
                "op": READ, "token": token, "offset": offset, "length": length, "lease": lease,
                "is_last": offset + length >= size,
            }  # fmt: skip
            answers = await self._client.scheduler.broadcast(
                msg=message, workers=[place], on_error="ignore"
            )
            return answers.get(place)

        return self._client.sync(ask)

    def later(self, read: Callable[[], object]) -> Future[object]:
        """Do it in a thread that may wait."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "workbench-read")
        return self._pool.submit(read)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False)
