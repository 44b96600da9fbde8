"""Both ends of a connection in one process, and what came through."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench.core import events as ev
from workbench.wire.buffers import Inbox

MESSAGES = [ev.Find(i, f"name {i}") for i in range(5)] + [ev.Drop((1, 2, 3)), ev.Bye()]


def feed(inbox: Inbox, pieces: list[bytes]) -> Iterator[Any]:
    """Bytes as they may come from a socket; all messages they make."""
    for piece in pieces:
        assert inbox.receive(lambda *_, piece=piece: (piece, [], 0, None))  # type: ignore[misc]
        messages = inbox.messages()
        while messages:
            yield messages.popleft()


@contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    a, b = socket.socketpair()
    a.setblocking(False)
    b.setblocking(False)
    with a, b:
        yield a, b


def drain(inbox: Inbox, sock: socket.socket) -> list[Any]:
    """All messages that have come."""
    found = []
    more = True
    while more:
        try:
            inbox.receive(sock.recvmsg)
        except BlockingIOError:
            more = False
        messages = inbox.messages()
        while messages:
            found.append(messages.popleft())
    return found


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
