"""What a caller and an actor's worker say to each other on a line: one packet each."""

from __future__ import annotations

import os
import socket
import stat

import msgspec

from workbench.core.events import Event

LARGEST_PACKET = 1 << 16
"""Bytes. What is larger goes through the server."""


class CallPacket(Event, tag=1):
    """Run this method. ``number``: of the line's calls; of those up to ``known`` the server knows
    all that it ever has to. ``root``: 0 if a driver calls; see `core.events.Submit`."""

    number: int
    known: int
    task: int
    method: str
    args: bytes
    name: str
    origin: int
    root: int = 0


class ResultPacket(Event, tag=2):
    """A call is over. Nothing but ``header`` is its value; see `core.events.Value`."""

    task: int
    header: bytes
    failed: bool = False


class ToldPacket(Event, tag=3):
    """A call is over, and the server will be told of its result, when it asks."""

    task: int


class ShownPacket(Event, tag=4):
    """Something that a call has shown; see `core.events.Output`."""

    task: int
    kind: str
    data: bytes
    origin: int
    worker: int


encode = msgspec.msgpack.Encoder().encode
decode_call = msgspec.msgpack.Decoder(CallPacket).decode
decode_answer = msgspec.msgpack.Decoder(ResultPacket | ToldPacket | ShownPacket).decode


def open_end(fds: tuple[int, ...]) -> socket.socket | None:
    """The socket that came beside a message; None if it got lost."""
    for fd in fds:
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            end = socket.socket(fileno=fd)
            end.setblocking(False)
            return end
        os.close(fd)
    return None


def receive(end: socket.socket) -> bytes | None:
    """The next packet; None if none has come, b"" if the other side is gone."""
    try:
        return end.recv(LARGEST_PACKET)
    except BlockingIOError:
        return None
    except OSError:
        return b""
