"""Small values as Ray carries them: as bytes, which it passes on as they are. A tuple it pickles,
which takes ten times as long, at both ends."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from workbench.engines.cluster.backend import StoredValue

MOST = 16 << 10
"""Bytes of a header that is worth it: it is copied once more."""

Slim: TypeAlias = StoredValue | bytes

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredValue).decode


def slim(stored: StoredValue) -> Slim:
    """It, or what `whole` makes it of. What has refs in it stays as it is: Ray counts them."""
    if stored.buffers or stored.natives or len(stored.header) > MOST:
        return stored
    return _encode(stored)


def whole(found: Slim) -> StoredValue:
    """What was made slim, or wasn't."""
    return _decode(found) if isinstance(found, bytes) else found
