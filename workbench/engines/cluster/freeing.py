"""Objects that were freed, wherever they are held: each process lets go of them itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from workbench.engines.cluster.backend import Message
from workbench.engines.cluster.entries import FREED, Entries, KnownObject
from workbench.errors import ObjectFreedError

FREES = "frees"
"""Kind of `Message` that tells a driver which objects were freed: their ids."""

FREED_HERE = "You freed it. Put it again if you need it."

FREED_ELSEWHERE = "It was freed by another process. Put it again if you need it."

ids_of = msgspec.msgpack.Decoder(list[int]).decode


def told(drivers: Iterable[int], ids: Sequence[int]) -> list[Message]:
    """What tells these drivers."""
    data = msgspec.msgpack.encode(list(ids))
    return [Message(0, FREES, data, 0, driver) for driver in drivers]


def let_go(entries: Entries, shown: Iterable[KnownObject], ids: Collection[int], why: str) -> None:
    """Here nobody gets them any more; what arrays show stays until these have gone. Any thread."""
    for entry in [entries.get(id) for id in ids]:
        if entry is not None and entry.state != FREED:
            entries.settle(entry.id, FREED, error=ObjectFreedError(why))
            entry.native = None
    for seen in shown:
        if seen.id in ids:
            seen.state, seen.native = FREED, None
