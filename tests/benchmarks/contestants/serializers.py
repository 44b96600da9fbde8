"""Picklers. Their bytes go nowhere: no process, no store."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle
from pools import Store

Packed = tuple[bytes, list[bytes]]


class Pickle(Store):
    """Buffers out of band, as in PEP 574; copied once, as they must be to leave the process."""

    def put(self, value: Any) -> Packed:
        buffers: list[bytes] = []
        stream = pickle.dumps(value, 5, buffer_callback=lambda b: buffers.append(bytes(b.raw())))
        return stream, buffers

    def get(self, ref: Packed) -> Any:
        stream, buffers = ref
        return pickle.loads(stream, buffers=buffers)


class Cloudpickle(Store):
    """All in band, as anybody calls it."""

    def put(self, value: Any) -> bytes:
        data: bytes = cloudpickle.dumps(value, 5)
        return data

    def get(self, ref: bytes) -> Any:
        return cloudpickle.loads(ref)
