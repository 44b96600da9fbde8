"""Messages ↔ payloads. One payload is a list of messages: what is sent together costs one frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from workbench.core import events, instructions
from workbench.errors import ProtocolError

M = TypeVar("M")

encode = msgspec.msgpack.Encoder().encode
"""A list of messages → payload."""


def _decoding(decode: Callable[[bytes], list[M]]) -> Callable[[bytes], list[M]]:
    def checked(payload: bytes) -> list[M]:
        try:
            return decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"Not a message of ours: {error}") from None

    return checked


decode_from_client = _decoding(msgspec.msgpack.Decoder(list[events.Message]).decode)
decode_from_server = _decoding(msgspec.msgpack.Decoder(list[instructions.Message]).decode)
"""A payload → its messages; ProtocolError if the sender may not send such."""
