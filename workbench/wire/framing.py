"""Frames: a 4-byte big-endian length, then that many bytes. Knows nothing of what is inside."""

from __future__ import annotations

import struct

from workbench.errors import ProtocolError

LARGEST = 64 << 20
"""No frame that a client sends is longer: they are cut well below, and one inline object is far
smaller. The server takes no longer ones, so that nobody can have it keep more."""

LARGEST_OF_SERVER = (1 << 32) - 1
"""What the server sends may be as long as a length can say: a task's arguments, for example."""

_LENGTH = struct.Struct(">I")
HEAD = _LENGTH.size


def frame(payload: bytes) -> bytes:
    """A payload with its length before it."""
    return _LENGTH.pack(len(payload)) + payload


def missing(data: bytes) -> int:
    """How many bytes must come, at least, before ``data``, the start of a frame, is one."""
    if len(data) < HEAD:
        return HEAD - len(data)
    length: int = _LENGTH.unpack_from(data)[0]
    return HEAD + length - len(data)


def split(data: bytes, largest: int = LARGEST) -> tuple[list[bytes], bytes]:
    """All whole frames' payloads at the start of ``data``, and what is left over.

    A pure function: whoever feeds bytes in keeps the rest, so nothing is half-taken when a
    signal lands in the middle.

    Raises
    ------
    ProtocolError
        If a length is zero or more than ``largest``: the peer doesn't speak our protocol.
    """
    payloads = []
    start = 0
    size = len(data)
    while size - start >= HEAD:
        (length,) = _LENGTH.unpack_from(data, start)
        if not 0 < length <= largest:
            raise ProtocolError(f"A frame of {length} bytes was announced; 1 to {largest} can be.")
        end = start + HEAD + length
        if end > size:
            break
        payloads.append(data[start + HEAD : end])
        start = end
    return payloads, data[start:]
