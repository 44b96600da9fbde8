"""Messages ↔ payloads. A payload is a list of messages, so that several can share a frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from workbench.core import events, instructions
from workbench.errors import ProtocolError

M = TypeVar("M")

_encode = msgspec.msgpack.Encoder().encode


def encode(messages: list[Any]) -> bytes:
    """Return the payload of a list of messages.

    In text that isn't valid Unicode (file names that aren't UTF-8) lone surrogates are escaped,
    ``\\udcff``: so equal names stay equal, whichever process sends them.
    """
    try:
        return _encode(messages)
    except UnicodeEncodeError:
        return _encode([_escaped(msgspec.to_builtins(m, builtin_types=(bytes,))) for m in messages])


def _escaped(part: Any) -> Any:
    if isinstance(part, str):
        return part.encode("utf-8", "backslashreplace").decode()
    if isinstance(part, dict):
        return {_escaped(key): _escaped(value) for key, value in part.items()}
    return [_escaped(each) for each in part] if isinstance(part, list | tuple) else part


def _decoding(decode: Callable[[bytes], list[M]]) -> Callable[[bytes], list[M]]:
    def checked(payload: bytes) -> list[M]:
        try:
            return decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"Not a message of ours: {error}") from None

    return checked


decode_from_client = _decoding(msgspec.msgpack.Decoder(list[events.Message]).decode)
decode_from_server = _decoding(msgspec.msgpack.Decoder(list[instructions.Message]).decode)
"""Return a payload's messages; ProtocolError if the sender may not send them."""
