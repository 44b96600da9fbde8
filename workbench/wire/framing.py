"""Frames: a 4-byte big-endian length, then that many bytes, whose content is opaque here."""

from __future__ import annotations

import struct

from workbench.errors import ProtocolError

LARGEST = 64 << 20
"""Most bytes of a client's frame. Clients make much shorter ones, and an inline object is far
smaller. The server refuses longer ones, which bounds what it keeps for a client."""

LARGEST_OF_SERVER = (1 << 32) - 1
"""Most bytes of the server's frames, for a task's arguments for example: all that fits a length."""

_LENGTH = struct.Struct(">I")
HEAD = _LENGTH.size


def frame(payload: bytes) -> bytes:
    return _LENGTH.pack(len(payload)) + payload


def missing(data: bytes) -> int:
    """Return how many bytes are missing, at least, from ``data``, the start of a frame."""
    if len(data) < HEAD:
        return HEAD - len(data)
    length: int = _LENGTH.unpack_from(data)[0]
    return HEAD + length - len(data)


def split(data: bytes, largest: int = LARGEST) -> tuple[list[bytes], bytes]:
    """Return the payloads of the whole frames at the start of ``data``, and the rest.

    A pure function: the caller keeps the rest, so a signal in the middle loses nothing.
    ProtocolError if a length is zero or more than ``largest``: the peer doesn't speak our protocol.
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
