"""Messages ↔ payloads. One payload is a list of messages: what is sent together costs one frame."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workbench.core import events, instructions
from workbench.errors import ProtocolError

_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode
"""A list of messages → payload."""

_from_client = msgspec.msgpack.Decoder(list[events.Message])
_from_server = msgspec.msgpack.Decoder(list[instructions.Message])
_BAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_from_client(payload: bytes) -> Sequence[events.Message]:
    """What a client sent.

    Raises
    ------
    ProtocolError
        If the payload isn't a list of messages a client may send.
    """
    try:
        return _from_client.decode(payload)
    except _BAD as error:
        raise ProtocolError(f"Not a message of ours: {error}") from None


def decode_from_server(payload: bytes) -> Sequence[instructions.Message]:
    """What the server sent.

    Raises
    ------
    ProtocolError
        If the payload isn't a list of messages the server may send.
    """
    try:
        return _from_server.decode(payload)
    except _BAD as error:
        raise ProtocolError(f"Not a message of ours: {error}") from None
