"""Messages between a caller and a worker on a line, one packet each."""

from __future__ import annotations

import os
import socket
import stat

import msgspec

from workbench.core.events import CallForm, Event, Output

LARGEST_PACKET = 1 << 16
"""Bytes. Larger calls and results go through the server."""


class CallPacket(Event, tag=1):
    """Run a method, or a function, once with each of ``args``: a run of calls. ``number``: of the
    first call among the line's. ``known``: up to this number the server knows the ends of all
    calls. ``form.deps``: see `core.instructions.Lent`."""

    number: int
    known: int
    tasks: list[int]
    args: list[bytes]
    form: CallForm


class ResultPacket(Event, tag=2):
    """Results of calls: of each the task, its inline value (the header, see `core.events.Value`),
    and True if it failed."""

    results: list[tuple[int, bytes, bool]]


class ToldPacket(Event, tag=3):
    """A call is over; the worker tells the server its result, when asked (`Report`)."""

    task: int


encode = msgspec.msgpack.Encoder().encode
decode_call = msgspec.msgpack.Decoder(CallPacket).decode
decode_answer = msgspec.msgpack.Decoder(ResultPacket | ToldPacket | Output).decode


def open_end(fds: tuple[int, ...]) -> socket.socket | None:
    """Return the socket that came with a message; None if it got lost."""
    for fd in fds:
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            end = socket.socket(fileno=fd)
            end.setblocking(False)
            return end
        os.close(fd)
    return None


def receive(end: socket.socket) -> bytes | None:
    """Return the next packet; None if none has come, b"" if the other side is gone."""
    try:
        return end.recv(LARGEST_PACKET)
    except BlockingIOError:
        return None
    except ConnectionResetError:  # raised once, before what the peer had sent: it hadn't read all
        return receive(end)
    except OSError:
        return b""
