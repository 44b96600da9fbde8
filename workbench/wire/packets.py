"""What a caller and an actor's worker say to each other on a line: one packet each."""

from __future__ import annotations

import os
import socket
import stat

import msgspec

from workbench.core.events import CallForm, Event

LARGEST_PACKET = 1 << 16
"""Bytes. What is larger goes through the server."""


class CallPacket(Event, tag=1):
    """Run a method, or a function, once with each of ``args``: a run of calls. ``number``: of the
    first one among the line's; of those up to ``known`` the server knows all that it ever has to.
    ``form.deps``: see `core.instructions.Lent`."""

    number: int
    known: int
    tasks: list[int]
    args: list[bytes]
    form: CallForm


class ResultPacket(Event, tag=2):
    """Calls are over: of each the task, the header of its value, which is all of that (see
    `core.events.Value`), and whether it failed."""

    results: list[tuple[int, bytes, bool]]


class ToldPacket(Event, tag=3):
    """A call is over, and the server will be told of its result, when it asks."""

    task: int


class ShownPacket(Event, tag=4):
    """Something that a call has shown; see `core.task_events.Output`."""

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
    except ConnectionResetError:  # it hadn't read all: told once, before what it had sent
        return receive(end)
    except OSError:
        return b""
