"""Plain pickle 5 with buffers out of band. Its bytes go nowhere: no process, no store."""

from __future__ import annotations

import pickle
from collections.abc import Collection
from typing import Any

from measures import measure_store
from pools import Effort, Sample, Store

Packed = tuple[bytes, list[bytes]]


class Pickle(Store):
    """As in PEP 574. The buffers are copied once, as they must be to leave the process."""

    def put(self, value: Any) -> Packed:
        buffers: list[bytes] = []
        stream = pickle.dumps(value, 5, buffer_callback=lambda b: buffers.append(bytes(b.raw())))
        return stream, buffers

    def get(self, ref: Packed) -> Any:
        stream, buffers = ref
        return pickle.loads(stream, buffers=buffers)


def measure(rows: Collection[str], effort: Effort) -> Sample:
    """See the package."""
    return measure_store(Pickle(), rows, effort)
