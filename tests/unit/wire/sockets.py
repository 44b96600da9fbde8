"""Both ends of a connection in one process, and what came through."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from workbench.core import events as ev
from workbench.wire.buffers import Inbox, Outbox, Parcel

MESSAGES = [ev.Find(i, f"name {i}") for i in range(5)] + [ev.Drop((1, 2, 3)), ev.Bye()]


def feed(inbox: Inbox, pieces: list[bytes]) -> Iterator[Any]:
    """Bytes as they may come from a socket; all messages they make."""
    for piece in pieces:
        assert inbox.receive(lambda *_, piece=piece: (piece, [], 0, None))  # type: ignore[misc]
        messages = inbox.messages()
        while messages:
            yield messages.popleft()


def sent(outbox: Outbox) -> bytes:
    """All that it sends, to a socket that takes all at once."""
    data = bytearray()

    def send(pieces: Any, beside: Any) -> int:
        data.extend(pieces[0])
        return len(pieces[0])

    assert outbox.send(send)
    return bytes(data)


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


def exchange(outbox: Outbox, a: socket.socket, inbox: Inbox, b: socket.socket) -> list[Any]:
    """Send all, and read meanwhile; all messages that have come."""
    found = []
    while not outbox.send(a.sendmsg):
        found += drain(inbox, b)
    return found + drain(inbox, b)


def parcels_in(messages: list[Any]) -> list[tuple[int, list[str]]]:
    """Which segments came, each with the names of its descriptors, which are closed."""
    found = []
    for parcel in [message for message in messages if type(message) is Parcel]:
        links = [os.readlink(f"/proc/self/fd/{fd}") for fd in parcel.fds]
        names = [link.removeprefix("/memfd:").removesuffix(" (deleted)") for link in links]
        found.append((parcel.message.segment, names))
        close_all(parcel.fds)
    return found


def close_all(descriptors: Iterable[int]) -> None:
    for fd in descriptors:
        os.close(fd)


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
